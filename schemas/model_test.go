package schemas_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"braid/schemas"
)

func TestFallbackModelsValidate(t *testing.T) {
	for _, c := range []struct {
		why       string
		fallbacks []string
		field     string // empty: fine
	}{
		{"none", nil, ""},
		{"the same model elsewhere", []string{"b/m", "c/m"}, ""},
		{"another model of the same provider", []string{"a/n"}, ""},
		{"names may hold slashes", []string{"a/b/m"}, ""},
		{"a model has a provider", []string{"b/m", "m"}, "fallback_models[1]"},
		{"nothing is no model", []string{""}, "fallback_models[0]"},
		{"the model itself would fail as before", []string{"b/m", "a/m"}, "fallback_models[1]"},
		{"so would one that was tried", []string{"b/m", "c/m", "b/m"}, "fallback_models[2]"},
		{"a task that tries nine models for minutes each", strings.Split("b/1 b/2 b/3 b/4 b/5 b/6 b/7 b/8 b/9", " "), "fallback_models"},
	} {
		cmd := schemas.Command{
			ID: "k", Type: schemas.CommandCreate, Session: schemas.SessionRef{Project: "p", ID: "s"},
			Create: &schemas.CreateBody{Model: "a/m", FallbackModels: c.fallbacks},
		}
		err := cmd.Validate()
		var e *schemas.Error
		if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &e) || e.Field != c.field || e.Code != schemas.CodeInvalid) {
			t.Errorf("%s: %v (%+v)", c.why, err, e)
		}
	}
}

// An imported session falls back on what its trace says, where that can be fallen back on.
func TestImportedFallbacks(t *testing.T) {
	for _, c := range []struct {
		why         string
		model       string // of the command
		trace, want []string
	}{
		{"none", "", nil, nil},
		{"those of the trace", "", []string{"b/m", "c/m"}, []string{"b/m", "c/m"}},
		{"but for the model it now runs on", "b/m", []string{"b/m", "c/m"}, []string{"c/m"}},
		{"which was the only one", "b/m", []string{"b/m"}, nil},
		{"a file may say anything", "", []string{"b/m", "nonsense"}, nil},
	} {
		b := schemas.ImportBody{Trace: "t", Model: c.model}
		got, err := b.Settings("s", schemas.SessionMeta{Provider: "a", ModelID: "m", FallbackModels: c.trace})
		if err != nil || !slices.Equal(got.FallbackModels, c.want) {
			t.Errorf("%s: %v, %v", c.why, got.FallbackModels, err)
		}
	}
}
