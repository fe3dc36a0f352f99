package schemas_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"braid/schemas"
)

func TestBodyWithAgent(t *testing.T) {
	agent := schemas.Agent{
		Name: "a", Model: "p/own", FallbackModels: []string{"p/one", "p/two"}, SystemPrompt: "Be kind.",
		Tools: []string{"read_*"}, ApprovalMode: schemas.ApproveAsk, ApprovalTimeoutMS: 7, Limits: schemas.Limits{MaxTurns: 3, LoopLimit: 2},
	}
	all := schemas.CreateBody{
		Model: "p/own", FallbackModels: agent.FallbackModels, SystemPrompt: "Be kind.", Tools: agent.Tools,
		ApprovalMode: schemas.ApproveAsk, ApprovalTimeoutMS: 7, Limits: agent.Limits,
	}
	with := func(change func(*schemas.CreateBody)) schemas.CreateBody {
		b := all
		change(&b)
		return b
	}
	for why, row := range map[string]struct{ body, want schemas.CreateBody }{
		"what is left open is the agent's": {schemas.CreateBody{}, all},
		"what is said stays": {
			schemas.CreateBody{SystemPrompt: "x", ApprovalMode: schemas.ApproveAll, ApprovalTimeoutMS: 1, Tools: []string{"bash"}, Workspace: "w"},
			with(func(b *schemas.CreateBody) {
				b.SystemPrompt, b.ApprovalMode, b.ApprovalTimeoutMS, b.Tools, b.Workspace = "x", schemas.ApproveAll, 1, []string{"bash"}, "w"
			}),
		},
		"an empty list is said": {
			schemas.CreateBody{Tools: []string{}, FallbackModels: []string{}},
			with(func(b *schemas.CreateBody) { b.Tools, b.FallbackModels = []string{}, []string{} }),
		},
		"a model is not its own fallback": {
			schemas.CreateBody{Model: "p/one"},
			with(func(b *schemas.CreateBody) { b.Model, b.FallbackModels = "p/one", []string{"p/two"} }),
		},
		"limits are left open one by one": {
			schemas.CreateBody{Limits: schemas.Limits{MaxTurns: -1}},
			with(func(b *schemas.CreateBody) { b.Limits.MaxTurns = -1 }),
		},
	} {
		if diff := cmp.Diff(row.want, row.body.With(agent)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", why, diff)
		}
	}
}

// No member of the definition and of the limits is forgotten.
func TestEveryMemberOfAnAgentCounts(t *testing.T) {
	var a schemas.Agent
	fill(reflect.ValueOf(&a).Elem())
	body := new(schemas.CreateBody).With(a)
	got, definition := reflect.ValueOf(body), reflect.ValueOf(a)
	for i := range definition.NumField() {
		name := definition.Type().Field(i).Name
		if name == "Name" {
			continue
		}
		if !reflect.DeepEqual(got.FieldByName(name).Interface(), definition.Field(i).Interface()) {
			t.Errorf("%s is %v, want %v", name, got.FieldByName(name), definition.Field(i))
		}
	}
}

// fill sets every member to something.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("p/x")
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(i + 1))
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"p/y"}))
		case reflect.Struct:
			fill(f)
		}
	}
}

func TestAgentValidate(t *testing.T) {
	for _, row := range []struct {
		why   string
		agent schemas.Agent
		field string // empty: it is valid
	}{
		{"the least there can be", schemas.Agent{Name: "a", Model: "p/m"}, ""},
		{"patterns of names", schemas.Agent{Name: "a", Model: "p/m", Tools: []string{"read_*", "?", "*", "bash-2"}}, ""},
		{"no name", schemas.Agent{Model: "p/m"}, "name"},
		{"no model", schemas.Agent{Name: "a"}, "model"},
		{"a fallback that is the model", schemas.Agent{Name: "a", Model: "p/m", FallbackModels: []string{"p/m"}}, "fallback_models[0]"},
		{"a pattern of another language", schemas.Agent{Name: "a", Model: "p/m", Tools: []string{"x", "[a-z]"}}, "tools[1]"},
		{"a pattern of nothing", schemas.Agent{Name: "a", Model: "p/m", Tools: []string{""}}, "tools[0]"},
		{"too many patterns", schemas.Agent{Name: "a", Model: "p/m", Tools: make([]string, schemas.MaxToolGlobs+1)}, "tools"},
		{"a mode nobody knows", schemas.Agent{Name: "a", Model: "p/m", ApprovalMode: "x"}, "approval_mode"},
		{"turns below nothing", schemas.Agent{Name: "a", Model: "p/m", Limits: schemas.Limits{MaxTurns: -2}}, "limits.max_turns"},
		{"a prompt that is no text", schemas.Agent{Name: "a", Model: "p/m", SystemPrompt: "\x00"}, "system_prompt"},
	} {
		err := row.agent.Validate()
		refused, _ := errors.AsType[*schemas.Error](err)
		if (err == nil) != (row.field == "") || err != nil && (refused == nil || refused.Field != row.field) {
			t.Errorf("%s: %v (%+v), want field %q", row.why, err, refused, row.field)
		}
	}
}

func TestToolAllowed(t *testing.T) {
	for _, row := range []struct {
		why   string
		globs []string
		tool  string
		want  bool
	}{
		{"nothing is said", nil, "bash", true},
		{"none may be used", []string{}, "bash", false},
		{"its name", []string{"x", "bash"}, "bash", true},
		{"a beginning", []string{"read_*"}, "read_file", true},
		{"another beginning", []string{"read_*"}, "write_file", false},
		{"a name is not part of a name", []string{"read"}, "read_file", false},
		{"one character", []string{"tool?"}, "tool1", true},
		{"two", []string{"tool?"}, "tool12", false},
		{"capitals count", []string{"bash"}, "Bash", false},
		{"a pattern that is none", []string{"["}, "[", false},
	} {
		if got := schemas.ToolAllowed(row.globs, row.tool); got != row.want {
			t.Errorf("%s: %v", row.why, got)
		}
	}
}
