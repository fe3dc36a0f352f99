package schemas

import (
	"fmt"
	"slices"
	"strings"
)

// MaxFallbackModels bounds how many models may stand in for a session's own.
const MaxFallbackModels = 8

// SplitModel splits "provider/model" at its first slash. The provider is a valid name; the
// model is any text of 1 to 256 bytes without control characters, since some hold slashes.
func SplitModel(s string) (provider, model string, err error) {
	provider, model, ok := strings.Cut(s, "/")
	if !ok || !ValidName(provider) || model == "" || len(model) > 256 ||
		strings.ContainsFunc(model, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", "", &Error{Code: CodeInvalid, Field: "model", Message: "model must be provider/model, for example shell/demo"}
	}
	return provider, model, nil
}

// FallbackField is the path of one of a session's fallback models, as errors name it.
func FallbackField(index int) string { return fmt.Sprintf("fallback_models[%d]", index) }

// validateFallbacks checks the models that stand in for the session's own: trying one twice would
// only fail twice.
func validateFallbacks(model string, fallbacks []string) error {
	if n := len(fallbacks); n > MaxFallbackModels {
		e := Errorf(CodeInvalid, "there are %d fallback_models, the limit is %d", n, MaxFallbackModels)
		e.Field = "fallback_models"
		return e
	}
	for i, f := range fallbacks {
		bad := func(format string, args ...any) error {
			e := Errorf(CodeInvalid, format, args...)
			e.Field = FallbackField(i)
			return e
		}
		if _, _, err := SplitModel(f); err != nil {
			return bad("%s must be provider/model", FallbackField(i))
		}
		if f == model || slices.Contains(fallbacks[:i], f) {
			return bad("%s is the second %s", FallbackField(i), f)
		}
	}
	return nil
}

// usableFallbacks are the fallback models that a file names, as those of a session on the model: all
// others than that, if they are fallback models at all. One that nobody serves is passed over when it is
// asked.
func usableFallbacks(model string, fallbacks []string) []string {
	others := slices.DeleteFunc(slices.Clone(fallbacks), func(f string) bool { return f == model })
	if len(others) == 0 || validateFallbacks(model, others) != nil {
		return nil
	}
	return others
}
