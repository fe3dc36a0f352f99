package engine

import (
	"context"
	"testing"

	"braid/bus/bustest"
	"braid/schemas"
)

// A person who has waited on enough questions lets the rest run: the question that waits is answered
// by the new mode, on whatever engine wakes for it.
func TestSetAnswersASuspendedQuestion(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"write", `{"n":1}`}, [2]string{"write", `{"n":2}`})})
	first := h.killable("e1")
	hands := h.toolrunner("r1")
	h.create("scripted/m", schemas.ApproveReadOnly)
	h.task("t", "go")
	h.asked(1)
	h.released()
	h.engine("e2")
	if err := first.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	set := schemas.Command{ID: "set", Type: schemas.CommandSet, Session: ref, Set: &schemas.SetBody{ApprovalMode: schemas.ApproveAll}}
	if o := h.send(set); o.Code != schemas.CodeApplied {
		t.Fatalf("set: %+v", o)
	}
	for _, arguments := range []string{`{"n":1}`, `{"n":2}`} {
		call := hands.call(arguments)
		call.say("done")
		if err := call.end(schemas.StopCompleted); err != nil {
			t.Fatal(err)
		}
	}
	messages := h.follow(taskEnded)
	asked, changed := 0, 0
	for _, m := range messages {
		switch p := m.Payload.(type) {
		case *schemas.ApprovalRequest:
			asked++
		case *schemas.SessionChanged:
			if changed++; p.ApprovalMode != schemas.ApproveAll || !m.Visible() {
				t.Errorf("%+v", m)
			}
		}
	}
	if asked != 1 || changed != 1 {
		t.Errorf("%d questions, %d changes\n%s", asked, changed, dump(messages))
	}
}
