package gateway

import (
	"slices"

	"braid/bus"
	"braid/schemas"
)

// sessionState is what a session is doing, as clients are told.
type sessionState string

const (
	stateIdle    sessionState = "idle"
	stateRunning sessionState = "running"
	stateWaiting sessionState = "waiting" // for a person's decision
)

// taskState is a session's state at a position of its stream: what an engine said once, carried
// on message by message. It is a value; pending is replaced, never changed in place.
type taskState struct {
	open       bool // a task is
	compacting bool
	pending    []bus.PendingApproval
}

func newTaskState(info bus.SessionInfo) taskState {
	return taskState{open: info.State != "" && sessionState(info.State) != stateIdle, pending: info.Pending}
}

// name is the state in one word.
func (s taskState) name() sessionState {
	switch {
	case len(s.pending) > 0:
		return stateWaiting
	case s.open || s.compacting:
		return stateRunning
	}
	return stateIdle
}

// same reports that two states look the same to clients.
func (s taskState) same(t taskState) bool {
	return s.name() == t.name() && slices.EqualFunc(s.pending, t.pending, func(a, b bus.PendingApproval) bool {
		return a.ToolCallID == b.ToolCallID
	})
}

// apply returns the state after a message.
func (s taskState) apply(m schemas.Message) taskState {
	if len(m.Origin) > 0 {
		return s // a child's: its own stream tells
	}
	switch p := m.Payload.(type) {
	case *schemas.Text, *schemas.ImageURL, *schemas.InlineData:
		if m.Prompt() && !s.compacting {
			s.open = true
		}
	case *schemas.RequestBegin:
		// Nothing waits for a person when a request begins.
		s.open, s.pending = s.open || !s.compacting, nil
	case *schemas.RequestEnd:
		if p.Status != schemas.StopCompleted {
			s.pending = nil // withdrawn
		}
	case *schemas.ApprovalRequest:
		s.pending = append(slices.Clone(s.without(p.ToolCallID)), bus.PendingApproval{
			ToolCallID: p.ToolCallID, Name: p.Name, Arguments: p.Arguments, Hash: p.Hash, Deadline: p.Deadline,
			Rule: p.Rule,
		})
	case *schemas.ApprovalDecision:
		s.pending = s.without(p.ToolCallID)
	case *schemas.CompactionBegin:
		s.compacting = true
	case *schemas.CompactionEnd:
		s.compacting = false
	case *schemas.Abort:
		s.pending = nil
	case *schemas.TaskEnd:
		return taskState{}
	}
	return s
}

// without is pending without a call.
func (s taskState) without(call string) []bus.PendingApproval {
	var rest []bus.PendingApproval
	for _, p := range s.pending {
		if p.ToolCallID != call {
			rest = append(rest, p)
		}
	}
	return rest
}

// stateView is the state on the wire.
type stateView struct {
	State   sessionState          `json:"state"`
	Pending []bus.PendingApproval `json:"pending" doc:"calls that wait for a person"`
	// Cursor is the position at which this holds.
	Cursor string `json:"cursor" doc:"the position at which this holds"`
}

func (s taskState) view(at schemas.Cursor) stateView {
	v := stateView{State: s.name(), Pending: s.pending, Cursor: at.String()}
	if v.Pending == nil {
		v.Pending = []bus.PendingApproval{}
	}
	return v
}
