package schemas

import (
	"errors"
	"strings"
	"testing"
)

func TestCommandValidate(t *testing.T) {
	ref := SessionRef{Project: "p", ID: "s"}
	tests := map[string]struct {
		command Command
		field   string // of the error; empty: valid
	}{
		"a create":                  {Command{ID: "c", Type: CommandCreate, Session: ref, Create: &CreateBody{Model: "p/m"}}, ""},
		"an abort without a body":   {Command{ID: "c", Type: CommandAbort, Session: ref}, ""},
		"a body of another type":    {Command{ID: "c", Type: CommandAbort, Session: ref, Task: &TaskBody{Prompt: "x"}}, "task"},
		"two bodies":                {Command{ID: "c", Type: CommandTask, Session: ref, Task: &TaskBody{Prompt: "x"}, Create: &CreateBody{Model: "p/m"}}, "create"},
		"a body is missing":         {Command{ID: "c", Type: CommandTask, Session: ref}, "task"},
		"a session that is a match": {Command{ID: "c", Type: CommandAbort, Session: SessionRef{Project: "p", ID: "*"}}, "session"},
		"an id with a dot":          {Command{ID: "a.b", Type: CommandAbort, Session: ref}, "id"},
		"no type":                   {Command{ID: "c", Session: ref}, "type"},
		"a model without provider":  {Command{ID: "c", Type: CommandCreate, Session: ref, Create: &CreateBody{Model: "m"}}, "model"},
		"a prompt over the limit":   {Command{ID: "c", Type: CommandTask, Session: ref, Task: &TaskBody{Prompt: strings.Repeat("x", MaxPrompt+1)}}, "prompt"},
		"a decision that is none":   {Command{ID: "c", Type: CommandApprove, Session: ref, Approve: &ApproveBody{ToolCallID: "x", Decision: DecisionForbidden}}, "decision"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := tt.command.Validate()
			if tt.field == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			known, ok := errors.AsType[*Error](err)
			if !ok || known.Field != tt.field || known.Message == "" {
				t.Errorf("got %v, want an error of field %s", err, tt.field)
			}
		})
	}
}
