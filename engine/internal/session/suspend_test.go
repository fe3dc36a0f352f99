package session

import (
	"testing"

	"braid/schemas"
)

// A session may be let go of while it waits for a person, and for nothing else: not while a tool of
// the same turn runs, its model streams, it waits to try again, or it is being aborted.
func TestSuspendable(t *testing.T) {
	asks := func(t *testing.T) *play {
		return begun(t, schemas.ApproveReadOnly).call("look", "{}").say(schemas.NewToolCall("others", "write", "{}"))
	}
	for name, tt := range map[string]struct {
		play *play
		want bool
	}{
		"before the first request":    {newPlay(t).create(schemas.ApproveAll).task(), false},
		"the model streams":           {asks(t).output("c7-1", "seen"), false},
		"a tool runs":                 {asks(t).ended(schemas.StopCompleted), false},
		"a person is asked":           {asks(t).ended(schemas.StopCompleted).output("c7-1", "seen"), true},
		"the request failed":          {asks(t).output("c7-1", "seen").ended(schemas.StopFailed), false},
		"the task is aborted":         {asks(t).ended(schemas.StopCompleted).abort(), false},
		"the person has decided":      {asks(t).ended(schemas.StopCompleted).output("c7-1", "seen").approve("c7-2", schemas.DecisionAllow), false},
		"at rest, and nothing is due": {newPlay(t).create(schemas.ApproveAll), false},
	} {
		if got := tt.play.s.Suspendable(); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
