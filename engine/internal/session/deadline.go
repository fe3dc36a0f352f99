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

// refuseDeadline says why the call is not denied yet, or no more.
func (st *step) refuseDeadline(id string) *schemas.Error {
	if refused := st.refuseDecision(&schemas.ApproveBody{ToolCallID: id}); refused != nil {
		return refused
	}
	if !st.overdue(st.call(id)) {
		return schemas.Errorf(schemas.CodeNotPending, "the deadline of tool call %s has not passed", id)
	}
	return nil
}

// refuseApproval says why a person's decision can't be taken, or no more.
func (st *step) refuseApproval(b *schemas.ApproveBody) *schemas.Error {
	if refused := st.refuseDecision(b); refused != nil {
		return refused
	}
	if st.overdue(st.call(b.ToolCallID)) {
		return schemas.Errorf(schemas.CodeNotPending, "the deadline of tool call %s has passed", b.ToolCallID)
	}
	return nil
}

// overdue reports that the call's deadline had passed when this step was asked for.
func (st *step) overdue(c *Call) bool {
	return !c.Deadline.IsZero() && !st.at.Before(c.Deadline)
}

// denyOverdue denies the call that waits, if nobody has decided in time: what is stored behind its
// deadline decides nothing, even if the broker's own word that it has passed comes later still.
func (st *step) denyOverdue() {
	for _, c := range st.Pending() {
		if st.overdue(c) {
			st.reject(c, schemas.DecisionDeny, deniedTooLate)
		}
	}
}
