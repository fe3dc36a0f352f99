package bus

import (
	"slices"

	"braid/schemas"
)

// SessionState is what a session is doing, in one word.
type SessionState string

// The states of a session.
const (
	StateIdle    SessionState = "idle"
	StateRunning SessionState = "running"
	StateWaiting SessionState = "waiting" // for a person's decision
)

// ParseSessionState returns the state of that name, or an *[schemas.Error] that lists them.
func ParseSessionState(s string) (SessionState, error) {
	switch state := SessionState(s); state {
	case StateIdle, StateRunning, StateWaiting:
		return state, nil
	}
	return "", &schemas.Error{Code: schemas.CodeInvalid, Field: "state", Message: "state must be idle, running or waiting"}
}

// Activity is what a session is doing at a position of its stream: what an engine said once, carried
// on message by message. It is a value.
type Activity struct {
	open       bool // a task is open
	compacting bool
	pending    []PendingApproval // replaced, never changed in place
}

// Activity is what the session was doing when it was asked about.
func (i SessionInfo) Activity() Activity {
	return Activity{open: i.State != "" && i.State != StateIdle, pending: i.Pending}
}

// PendingFor is what a request for a person's decision says.
func PendingFor(r *schemas.ApprovalRequest) PendingApproval {
	return PendingApproval{
		ToolCallID: r.ToolCallID, Name: r.Name, Arguments: r.Arguments, Hash: r.Hash, Deadline: r.Deadline, Rule: r.Rule,
	}
}

// Pending are the calls that wait for a person.
func (a Activity) Pending() []PendingApproval { return a.pending }

// State is the activity in one word.
func (a Activity) State() SessionState {
	switch {
	case len(a.pending) > 0:
		return StateWaiting
	case a.open || a.compacting:
		return StateRunning
	}
	return StateIdle
}

// Same reports that two activities look the same to people.
func (a Activity) Same(b Activity) bool {
	return a.State() == b.State() && slices.EqualFunc(a.pending, b.pending, func(x, y PendingApproval) bool {
		return x.ToolCallID == y.ToolCallID
	})
}

// Apply returns the activity after a message.
func (a Activity) Apply(m schemas.Message) Activity {
	if len(m.Origin) > 0 {
		return a // a child's: its own stream tells
	}
	switch p := m.Payload.(type) {
	case *schemas.Text, *schemas.ImageURL, *schemas.InlineData:
		if m.Prompt() && !a.compacting {
			a.open = true
		}
	case *schemas.RequestBegin:
		// Nothing waits for a person when a request begins.
		a.open, a.pending = a.open || !a.compacting, nil
	case *schemas.RequestEnd:
		if p.Status != schemas.StopCompleted {
			a.pending = nil // withdrawn
		}
	case *schemas.ApprovalRequest:
		a.pending = append(slices.Clone(a.without(p.ToolCallID)), PendingFor(p))
	case *schemas.ApprovalDecision:
		a.pending = a.without(p.ToolCallID)
	case *schemas.CompactionBegin:
		a.compacting = true
	case *schemas.CompactionEnd:
		a.compacting = false
	case *schemas.Abort:
		a.pending = nil
	case *schemas.TaskEnd:
		return Activity{}
	}
	return a
}

// without returns the pending approvals but that of a call.
func (a Activity) without(call string) []PendingApproval {
	var rest []PendingApproval
	for _, p := range a.pending {
		if p.ToolCallID != call {
			rest = append(rest, p)
		}
	}
	return rest
}
