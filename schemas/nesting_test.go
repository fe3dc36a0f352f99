package schemas

import (
	"errors"
	"strings"
	"testing"
)

func nestedArrays(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestNestedTooDeep(t *testing.T) {
	for name, tt := range map[string]struct {
		raw  string
		want bool
	}{
		"nothing":                        {"", false},
		"as deep as may be":              {nestedArrays(MaxNesting), false},
		"one deeper":                     {nestedArrays(MaxNesting + 1), true},
		"objects count as well":          {strings.Repeat(`{"a":`, MaxNesting) + "[]" + strings.Repeat("}", MaxNesting), true},
		"side by side":                   {"[" + strings.Repeat("[],", 2*MaxNesting) + "0]", false},
		"in a text":                      {`"` + nestedArrays(2*MaxNesting) + `"`, false},
		"in a text behind an escape":     {`"\"` + nestedArrays(2*MaxNesting) + `"`, false},
		"behind a text with a backslash": {`["\\",` + nestedArrays(MaxNesting) + `]`, true},
		"cut off":                        {strings.Repeat("[", 2*MaxNesting), true},
		"a backslash at the end":         {strings.Repeat("[]", 2*MaxNesting) + `"\`, false},
	} {
		if got := NestedTooDeep([]byte(tt.raw)); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

// What a model calls a tool with is told in documents of several levels, however deep it is nested itself.
func TestDeepArgumentsAreTold(t *testing.T) {
	for _, depth := range []int{10, MaxNesting - 1, MaxNesting, 9000, 9999} {
		c := NewToolCall("c1", "look", `{"a":`+nestedArrays(depth)+`}`)
		_, err := EncodeJSON(TurnEvent{Type: TurnDone, Data: &TaskResult{
			Messages: []Message{{Type: TypeModel, Payload: c}}, ToolCalls: []TaskToolCall{{Input: NewToolUseBlock(c).Input}},
		}})
		if err != nil {
			t.Errorf("%d levels: %v", depth, err)
		}
	}
}

// A line of a trace that could not be told of is not taken.
func TestDeepLine(t *testing.T) {
	line := `{"timestamp":"2026-11-30T08:00:00.123Z","type":"event_msg","payload":{"type":"x","y":` + nestedArrays(9000) + `}}`
	_, _, err := NewLineReader(strings.NewReader(line)).Next()
	if _, ok := errors.AsType[*LineError](err); !ok {
		t.Errorf("got %v", err)
	}
}
