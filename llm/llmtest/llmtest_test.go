package llmtest

import (
	"strings"
	"testing"
	"time"

	"braid/schemas"
)

func messages(payloads ...schemas.Payload) []schemas.Message {
	var out []schemas.Message
	for _, p := range payloads {
		out = append(out, schemas.New(time.Time{}, p))
	}
	return out
}

func TestCheck(t *testing.T) {
	text := func(phase schemas.Phase, s string) schemas.Payload { return schemas.TextFragment(phase, s) }
	call := func(phase schemas.Phase, id, s string) schemas.Payload {
		return schemas.ToolCallFragment(phase, id, "", s)
	}
	begin, delta, stop := schemas.PhaseStart, schemas.PhaseDelta, schemas.PhaseStop
	picture := &schemas.ImageURL{Role: schemas.RoleAssistant}
	tests := []struct {
		name string
		in   []schemas.Payload
		want string
	}{
		{"nothing", nil, ""},
		{"whole segments and a picture", []schemas.Payload{
			text(begin, ""), text(delta, "a"), text(delta, "b"), text(stop, ""), schemas.AssistantText("ab"), picture,
			call(begin, "c", ""), call(stop, "c", ""), schemas.NewToolCall("c", "", ""),
		}, ""},
		{"a message alone", []schemas.Payload{schemas.AssistantText("a")}, "message 0: text"},
		{"a delta alone", []schemas.Payload{text(delta, "a")}, "message 0: partial_text delta"},
		{"a stop alone", []schemas.Payload{text(stop, "")}, "message 0"},
		{"a start in a segment", []schemas.Payload{text(begin, ""), text(begin, "")}, "message 1"},
		{"another kind in a segment", []schemas.Payload{text(begin, ""), schemas.ThinkingFragment(delta, "a")}, "message 1"},
		{"another call in a segment", []schemas.Payload{call(begin, "c", ""), call(delta, "d", "a")}, "message 1"},
		{"a delta after the stop", []schemas.Payload{text(begin, ""), text(stop, ""), text(delta, "a")}, "message 2"},
		{"a message before the stop", []schemas.Payload{text(begin, ""), schemas.AssistantText("")}, "message 1"},
		{"another text", []schemas.Payload{text(begin, ""), text(delta, "a"), text(stop, ""), schemas.AssistantText("b")}, "message 3"},
		{"a picture before the message", []schemas.Payload{text(begin, ""), text(stop, ""), picture}, "message 2"},
		{"never completed", []schemas.Payload{text(begin, ""), text(stop, "")}, "never completed"},
		{"an event", []schemas.Payload{&schemas.RequestBegin{}}, "emitted request_begin"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Check(messages(tt.in...))
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("%v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v does not say %q", err, tt.want)
			}
		})
	}
}
