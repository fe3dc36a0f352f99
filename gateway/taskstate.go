package gateway

import (
	"braid/bus"
	"braid/schemas"
)

// stateView is what a session is doing, as clients get it.
type stateView struct {
	State   bus.SessionState      `json:"state"`
	Pending []bus.PendingApproval `json:"pending"`
	// Cursor is the position at which this holds.
	Cursor string `json:"cursor"`
}

func viewOfActivity(a bus.Activity, at schemas.Cursor) stateView {
	v := stateView{State: a.State(), Pending: a.Pending(), Cursor: at.String()}
	if v.Pending == nil {
		v.Pending = []bus.PendingApproval{}
	}
	return v
}
