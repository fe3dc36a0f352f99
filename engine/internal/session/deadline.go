package session

import (
	"fmt"
	"time"

	"braid/schemas"
)

// deadline is when a question asked now is too old; empty if it may stand for ever. It is an instant
// of the owner's clock, and what decides later is the broker's: whoever owns the session then, it is
// the same clock that sends the deadline and that says when it was sent.
func (st *step) deadline() string {
	if st.Meta.ApprovalTimeoutMS <= 0 {
		return ""
	}
	return schemas.FormatTime(st.now.Add(time.Duration(st.Meta.ApprovalTimeoutMS) * time.Millisecond))
}

// keepDeadline has the broker hold the deadline of the call that waits, and no other. An owner that
// takes over says it again: the one before may have been lost between asking and saying it.
func (st *step) keepDeadline() {
	if !st.recovered {
		return
	}
	var waiting *Call
	for _, c := range st.Pending() {
		if !c.Deadline.IsZero() {
			waiting = c
		}
	}
	if waiting != nil && waiting.ToolCallID == st.armed {
		return
	}
	if st.armed != "" {
		st.do(ClearDeadline{st.armed})
		st.armed = ""
	}
	if waiting != nil {
		// The id is new each time: one that came too early has its outcome.
		st.arms++
		st.armed = waiting.ToolCallID
		st.do(SetDeadline{At: waiting.Deadline, Command: schemas.Command{
			ID: fmt.Sprintf("deadline-%s-%d-%d", waiting.ToolCallID, st.fence, st.arms), Type: schemas.CommandDeadline,
			Session: st.Session, Deadline: &schemas.DeadlineBody{ToolCallID: waiting.ToolCallID},
		}})
	}
}

// refuseDeadline says why the call is not denied yet, or no more. at is when the broker stored the
// deadline.
func (st *step) refuseDeadline(id string, at time.Time) *schemas.Error {
	if refused := st.refuseDecision(&schemas.ApproveBody{ToolCallID: id}); refused != nil {
		return refused
	}
	if c := st.call(id); c.Deadline.IsZero() || at.Before(c.Deadline) {
		return schemas.Errorf(schemas.CodeNotPending, "the deadline of tool call %s has not passed", id)
	}
	return nil
}
