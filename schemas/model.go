package schemas

import "strings"

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
