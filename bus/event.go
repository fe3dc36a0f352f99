package bus

import "braid/schemas"

// Event is what a follower delivers: a [Frame], [GapEvent], [CaughtUpEvent] or [ResyncEvent].
type Event interface{ event() }

// GapEvent says that frames are missing here and can't be read any more: they have expired. The
// frames around it are delivered with what the trace keeps of them; fragments are dropped until a
// segment starts anew.
type GapEvent struct {
	// After and Before are the sequences between which frames are missing.
	After, Before uint64
}

// CaughtUpEvent says that everything stored when the follower began is delivered.
type CaughtUpEvent struct {
	// Cursor is the follower's place: what follows it is still to come.
	Cursor schemas.Cursor
}

// ResyncEvent says that what the reader has can't be continued: it starts again, from the
// session's history. It is the last event.
type ResyncEvent struct{ Reason string }

func (Frame) event()         {}
func (GapEvent) event()      {}
func (CaughtUpEvent) event() {}
func (ResyncEvent) event()   {}
