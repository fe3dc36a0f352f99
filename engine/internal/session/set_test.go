package session

import (
	"testing"

	"braid/schemas"
)

// The approval mode changes while a session runs, and the next decision sees it.
func TestSetApprovalMode(t *testing.T) {
	asks := func(t *testing.T) *play {
		return begun(t, schemas.ApproveReadOnly).call("write", "{}")
	}
	for name, tt := range map[string]struct {
		play *play
		want []string
	}{
		"at rest": {newPlay(t).create("").set(schemas.ApproveAll),
			[]string{"outcome applied", "mode allow-all", "-> answer"}},
		"to the same, which changes nothing": {newPlay(t).create(schemas.ApproveAsk).set(schemas.ApproveAsk),
			[]string{"outcome applied", "-> answer"}},
		"of no session": {newPlay(t).set(schemas.ApproveAll),
			[]string{"outcome unknown_session", "-> answer"}},
		"before the next call": {begun(t, schemas.ApproveAsk).set(schemas.ApproveAll).call("write", "{}"),
			[]string{`call "write{}"`, "allow c7-1", "-> tool c7-1 from 1.0"}},
		"the other way": {begun(t, schemas.ApproveAll).set(schemas.ApproveAsk).call("look", "{}"),
			[]string{`call "look{}"`, "ask c7-1"}},
		"answers the pending question": {asks(t).set(schemas.ApproveAll),
			[]string{"outcome applied", "mode allow-all", "allow c7-1", "-> answer", "-> tool c7-1 from 1.0"}},
		"answers it with no": {asks(t).set(schemas.ApproveNone),
			[]string{"outcome applied", "mode deny-all", "deny c7-1", `output "Tool call denied by user." aborted`, "-> answer"}},
		"leaves it open, and asks no second time": {asks(t).set(schemas.ApproveAsk),
			[]string{"outcome applied", "mode always-ask", "-> answer"}},
		"answers those behind it too": {asks(t).say(schemas.NewToolCall("two", "write", "{}"), schemas.NewToolCall("three", "look", "{}")).ended(schemas.StopCompleted).set(schemas.ApproveAll),
			[]string{"outcome applied", "mode allow-all", "allow c7-1", "allow c7-2", "allow c7-3",
				"-> answer", "-> tool c7-1 from 1.0", "-> tool c7-2 from 1.0", "-> tool c7-3 from 1.0"}},
		"answers nothing of a request that did not commit": {asks(t).ended(schemas.StopFailed).set(schemas.ApproveAll),
			[]string{"outcome applied", "mode allow-all", "-> answer"}},
		"while the task is aborted": {begun(t, schemas.ApproveReadOnly).call("look", "{}").say(schemas.NewToolCall("two", "write", "{}")).abort().set(schemas.ApproveAll),
			[]string{"outcome applied", "mode allow-all", "-> answer"}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.play.t = t
			tt.play.expect(tt.want...)
		})
	}
}

// The next owner decides by the mode that was set, and knows of it from the log alone.
func TestSetSurvivesTheOwner(t *testing.T) {
	p := begun(t, schemas.ApproveAsk).set(schemas.ApproveAll).lost(0)
	if p.s.Mode != schemas.ApproveAll {
		t.Errorf("the mode is %s", p.s.Mode)
	}
	// Of a frame that was not stored nothing is known, and the command comes again.
	q := begun(t, schemas.ApproveReadOnly).call("write", "{}").ended(schemas.StopCompleted).set(schemas.ApproveAll).lost(3)
	if q.s.Mode != schemas.ApproveReadOnly {
		t.Errorf("the mode is %s", q.s.Mode)
	}
	q.takeOver().expect("owner e1>e2 lost")
	q.sequence--
	q.set(schemas.ApproveAll).expect("outcome applied", "mode allow-all", "allow c7-1", "-> answer", "-> tool c7-1 from 1.0")
}
