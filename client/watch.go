package client

import (
	"context"
	"errors"
	"iter"

	"braid/schemas"
)

// WatchOptions say where watching begins. The zero value watches from now on.
type WatchOptions struct {
	// After is the cursor of the last event the watcher has; each later one comes once.
	After string
	// Prompts adds what tasks were given to the stream of messages. Turns have no prompts.
	Prompts bool
}

// watch is what a transport is asked to watch.
type watch struct {
	after   string // empty: from now
	prompts bool
	turns   bool
}

// Stream is the session as it happens, message by message, fragments included.
//
// The range goes on until the caller leaves it, ctx ends, or it can't go on: then its last element
// is an error, [schemas.CodeDeleted] or [schemas.CodeUnknownSession] if there is no such session any
// more. A connection that breaks is made again, from behind the last event on.
//
// Everything runs in the caller's goroutine, between one event and the next: nothing is left behind
// by leaving the range. Who is slow holds up nobody and nothing but itself; little is buffered for
// it, and what it takes too late is read from the broker, or is a [Gap].
func (s *Session) Stream(ctx context.Context, o WatchOptions) iter.Seq2[Event, error] {
	return s.watch(ctx, watch{after: o.After, prompts: o.Prompts})
}

// Turns is the session as it happens, turn by turn: whole texts, calls, their results, and exactly
// one end a task. It is ranged over like [Session.Stream]. Approvals are not among the events; who
// is waited for stands in [State].
func (s *Session) Turns(ctx context.Context, o WatchOptions) iter.Seq2[Event, error] {
	if o.Prompts {
		return refuse(&schemas.Error{Code: schemas.CodeInvalid, Field: "Prompts", Message: "the view of turns has no prompts"})
	}
	return s.watch(ctx, watch{after: o.After, turns: true})
}

func refuse(err error) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) { yield(nil, err) }
}

// watch joins connections to one stream.
func (s *Session) watch(ctx context.Context, w watch) iter.Seq2[Event, error] {
	if err := schemas.ValidateName("session", s.id); err != nil {
		return refuse(err)
	}
	return func(yield func(Event, error) bool) {
		v := &watcher{session: s, watch: w, yield: yield}
		err := reconnect(ctx, s.client.pauses, func() (came, left bool, err error) {
			err = v.connection(ctx)
			return v.came, v.left, err
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

// watcher is one range over a session's events.
type watcher struct {
	session *Session
	watch   watch
	yield   func(Event, error) bool
	left    bool   // the caller left the range
	came    bool   // the last connection gave an event
	kept    string // cursor of the last recorded message that was given
}

// connection takes what one connection gives. Without an error the next one is made at once.
func (v *watcher) connection(ctx context.Context) error {
	v.came = false
	for event, err := range v.session.client.transport.watch(ctx, v.session.id, v.watch) {
		if err != nil {
			return err
		}
		v.came = true
		if h, ok := event.(hole); ok {
			return v.refill(ctx, h.reason)
		}
		if !v.give(event) {
			return nil
		}
	}
	return errEnded
}

// errEnded says that a connection ended without saying why.
var errEnded = errors.New("the stream ended")

// refill gives what is recorded behind the watcher's place, and has the next connection go on from
// there.
func (v *watcher) refill(ctx context.Context, reason string) error {
	told := false
	for page, err := range v.session.pages(ctx, v.watch.after) {
		switch {
		case IsCode(err, schemas.CodeConflict), err == nil && !page.More && before(page.Cursor, v.kept):
			v.give(Gap{Reason: reason, Reset: true})
			return nil
		case err != nil:
			return err
		}
		if !told && !v.give(Gap{Reason: reason}) || !v.givePage(page) {
			return nil
		}
		told = true
	}
	return nil
}

// givePage gives a page of what is recorded, and of the last one the beginnings of what is not; false
// if the caller leaves.
func (v *watcher) givePage(page historyPage) bool {
	for _, m := range page.Messages {
		if !m.Message.Shown(v.watch.prompts) {
			continue
		}
		if !v.give(Message{Cursor: m.ID, Message: m.Message}) {
			return false
		}
	}
	if page.More {
		return true
	}
	for _, m := range page.Partials { // they have no place of their own: going on from here repeats them
		if !v.give(Message{Cursor: v.watch.after, Message: m}) {
			return false
		}
	}
	v.watch.after = page.Cursor
	return true
}

// before reports whether one cursor is an earlier place than another one of the same stream.
func before(a, b string) bool {
	x, errX := schemas.ParseCursor(a)
	y, errY := schemas.ParseCursor(b)
	return errX == nil && errY == nil && x.Position.Compare(y.Position) < 0
}

// give passes an event on; false if the caller leaves.
func (v *watcher) give(e Event) bool {
	switch e := e.(type) {
	case Message:
		v.watch.after = e.Cursor
		if e.Recorded() {
			v.kept = e.Cursor
		}
	case Turn:
		v.watch.after = e.Cursor
	case State:
		// Turns go on from recorded places, which do not expire.
		if !v.watch.turns || v.watch.after == "" {
			v.watch.after = e.Cursor
		}
	case Gap:
		if e.Reset {
			v.watch.after, v.kept = "", ""
		}
	}
	v.left = !v.yield(e, nil)
	return !v.left
}
