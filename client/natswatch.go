package client

import (
	"context"
	"fmt"

	"braid/bus"
	"braid/schemas"
)

// What waits for a slow caller, at most; what is over is read from the broker, as far as it keeps it.
const (
	pendingFrames = 1024
	pendingBytes  = 1 << 20
)

// natsWatcher watches a session from the broker, until its follower ends.
type natsWatcher struct {
	transport *natsTransport
	ref       schemas.SessionRef
	watch     watch
	yield     func(Event, error) bool
	left      bool // the caller left
	// due is how the session stands, to be given where that holds: it went on while it was asked about.
	due *bus.SessionInfo
}

// give passes an event on; false if the caller leaves.
func (n *natsWatcher) give(e Event) bool {
	n.left = !n.yield(e, nil)
	return !n.left
}

// follow opens a follower; the caller closes it.
func (n *natsWatcher) follow(ctx context.Context, after schemas.Cursor) (*bus.Follower, error) {
	f, err := n.transport.conn.Follow(ctx, n.ref, bus.FollowOptions{
		After: after, PendingMessages: pendingFrames, PendingBytes: pendingBytes,
	})
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return f, nil
}

// stream gives messages. What waits for a slow caller is bounded by the follower; what is over is
// read from the broker later.
func (n *natsWatcher) stream(ctx context.Context) error {
	at, err := parseTurnCursor(n.watch.after)
	if err != nil {
		return err
	}
	f, err := n.follow(ctx, at.Cursor)
	if err != nil {
		return err
	}
	defer f.Close()
	for !n.left {
		event, err := f.Next(ctx)
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		switch e := event.(type) {
		case bus.Frame:
			err = n.frame(e, f.Cursor().Epoch)
		case bus.GapEvent:
			n.give(Gap{Reason: "fragments have expired"})
		case bus.CaughtUpEvent:
			err = n.state(ctx, e.Cursor)
		case bus.ResyncEvent:
			n.give(hole{e.Reason})
			return errEnded
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// frame gives the messages of a frame. The epoch is the stream's: frames that were restored name an older one.
func (n *natsWatcher) frame(f bus.Frame, epoch string) error {
	for _, e := range f.Entries() {
		if e.Message.Shown(n.watch.prompts) {
			cursor := schemas.Cursor{Epoch: epoch, Position: e.Position}
			if !n.give(Message{Cursor: cursor.String(), Message: e.Message}) {
				return nil
			}
		}
	}
	if err := deletedBy(f); err != nil {
		return err
	}
	n.arrive(schemas.Cursor{Epoch: epoch, Position: schemas.Behind(f.Sequence)})
	return nil
}

// deletedBy is an error if the session is deleted after the frame.
func deletedBy(f bus.Frame) error {
	if f.EndsSession() {
		return schemas.Errorf(schemas.CodeDeleted, "the session is deleted")
	}
	return nil
}

// state gives what the session does, by an engine that has seen everything up to the cursor.
func (n *natsWatcher) state(ctx context.Context, at schemas.Cursor) error {
	info, err := n.transport.describe(ctx, n.ref)
	if err == nil {
		n.due = &info
		n.arrive(at)
	}
	return err
}

// arrive gives what the session does if it holds at the place that the watcher has come to.
func (n *natsWatcher) arrive(at schemas.Cursor) {
	if n.due != nil && n.due.LastSequence <= at.Position.Sequence {
		n.give(stateAt(n.due.Activity(), at))
		n.due = nil
	}
}

func stateAt(a bus.Activity, at schemas.Cursor) State {
	return State{State: a.State(), Pending: a.Pending(), Cursor: at.String()}
}
