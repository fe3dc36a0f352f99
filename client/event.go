package client

import (
	"braid/bus"
	"braid/schemas"
)

// Event is what watching gives: a [Message] or a [Turn], by the view, and in both views [State] and
// [Gap].
type Event interface{ event() }

// Message is a message of the stream. It is one that the trace keeps, or a fragment of one that
// follows complete.
type Message struct {
	// Cursor is where to go on after it.
	Cursor string
	schemas.Message
}

// Turn is an event of the view of turns.
type Turn struct {
	// Cursor is where to go on after it.
	Cursor string
	schemas.TurnEvent
}

// State says what the session does, where the watcher is: when watching begins, and again when a
// broken connection was resumed; in the view of turns also whenever it changes. Messages that come while it
// is asked for may come before it.
type State struct {
	// State is idle, running or waiting (for a person).
	State bus.SessionState `json:"state"`
	// Pending are the tool calls that wait for a person.
	Pending []bus.PendingApproval `json:"pending"`
	// Cursor is where this holds.
	Cursor string `json:"cursor"`
}

// Gap says that something is missing here and won't come any more.
//
// Without Reset only fragments are missing, which had expired before this watcher took them: every
// message that is recorded comes, also the complete ones of those fragments. With Reset the stream
// is not the one that was watched before (a broker that lost its store): what the watcher holds is
// worth nothing, a new State follows, and [Session.History] has what there is.
type Gap struct {
	// Reason is for people.
	Reason string
	Reset  bool
}

// hole is what a transport gives in place of a Gap: what follows does not continue what was given. It
// ends the connection; what is recorded is read, and watching goes on behind it.
type hole struct{ reason string }

func (Message) event() {}
func (Turn) event()    {}
func (State) event()   {}
func (Gap) event()     {}
func (hole) event()    {}
