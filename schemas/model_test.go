package schemas_test

import (
	"errors"
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
