package session

import (
	"fmt"
	"time"

	"braid/schemas"
)

// deadline is when a question that is asked now becomes too old, as a time in RFC 3339; empty if it may
// stand for ever. The instant is set by this owner's clock. Whether it has passed is told by the broker's
// clock alone, whoever owns the session by then: the broker sends the deadline, and says when each command
// was stored.
func (st *step) deadline() string {
	if st.Meta.ApprovalTimeoutMS <= 0 {
		return ""
	}
	return schemas.FormatTime(st.now.Add(time.Duration(st.Meta.ApprovalTimeoutMS) * time.Millisecond))
}

// keepDeadline has the broker hold the deadline of the call that waits for a person, and of no other call.
// A new owner has it held again: the owner before may have been lost between asking the person and
// telling the broker.
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

// refuseDeadline says why the call is not denied for its deadline: it does not wait, or it is too early.
func (st *step) refuseDeadline(id string) *schemas.Error {
	if refused := st.refuseDecision(&schemas.ApproveBody{ToolCallID: id}); refused != nil {
		return refused
	}
	if !st.overdue(st.call(id)) {
		return schemas.Errorf(schemas.CodeNotPending, "the deadline of tool call %s has not passed", id)
	}
	return nil
}

// refuseApproval says why a person's decision can't be taken: the call does not wait, is another one than
// the person saw, or the deadline has passed; nil if it can.
func (st *step) refuseApproval(b *schemas.ApproveBody) *schemas.Error {
	if refused := st.refuseDecision(b); refused != nil {
		return refused
	}
	if st.overdue(st.call(b.ToolCallID)) {
		return schemas.Errorf(schemas.CodeNotPending, "the deadline of tool call %s has passed", b.ToolCallID)
	}
	return nil
}

// overdue reports that the call's deadline had passed at the time of this step: for a command, when the
// broker stored it.
func (st *step) overdue(c *Call) bool {
	return !c.Deadline.IsZero() && !st.at.Before(c.Deadline)
}

// denyOverdue denies the call that waits, if its deadline has passed. A command that was stored behind the
// deadline decides nothing, even if the command of the deadline itself comes later still.
func (st *step) denyOverdue() {
	for _, c := range st.Pending() {
		if st.overdue(c) {
			st.reject(c, schemas.DecisionDeny, deniedTooLate)
		}
	}
}
