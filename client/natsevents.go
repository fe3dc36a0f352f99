package client

import (
	"context"
	"fmt"
	"iter"

	"braid/bus"
	"braid/schemas"
)

// placeNow is the cursor of every event over the broker: nothing can be resumed from it.
const placeNow = "now"

func (t *natsTransport) events(ctx context.Context, after string) iter.Seq2[ProjectEvent, error] {
	return func(yield func(ProjectEvent, error) bool) {
		n := &projectWatcher{transport: t, yield: yield}
		if err := n.run(ctx, after); err != nil && !n.left {
			yield(nil, err)
		}
	}
}

// projectWatcher listens to what is recorded in all sessions, and asks how one stands that may have
// changed. Everything runs in the caller's goroutine. What waits for a slow one is bounded by the feed,
// which says what it has dropped.
type projectWatcher struct {
	transport *natsTransport
	yield     func(ProjectEvent, error) bool
	left      bool
	told      bus.Told
}

func (n *projectWatcher) give(e ProjectEvent) { n.left = n.left || !n.yield(e, nil) }

func (n *projectWatcher) run(ctx context.Context, after string) error {
	feed, err := n.transport.conn.ListenProject(ctx, n.transport.project)
	if err != nil {
		return fmt.Errorf("watch the project: %w", err)
	}
	defer feed.Close()
	if after == "" {
		n.give(Watching{Cursor: placeNow})
	} else {
		n.missed("nothing can be resumed over the broker")
	}
	for !n.left {
		event, err := feed.Next(ctx)
		if err != nil {
			return fmt.Errorf("watch the project: %w", err)
		}
		switch e := event.(type) {
		case bus.Frame:
			err = n.frame(ctx, e)
		case bus.TailEvent:
			if n.told.Behind(e) {
				err = n.look(ctx, e.Session, 0)
			}
		case bus.LossEvent:
			n.missed("something may have been missed")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// missed says that something may not have been told.
func (n *projectWatcher) missed(why string) {
	n.told.Forget()
	if n.give(Missed{Reason: why}); !n.left {
		n.give(Watching{Cursor: placeNow})
	}
}

func (n *projectWatcher) frame(ctx context.Context, f bus.Frame) error {
	switch {
	case f.EndsSession():
		n.deleted(n.told.Deleted(f.Session.ID), f.Session)
	case f.ChangesSession() && n.told.Behind(bus.TailEvent{Session: f.Session, Last: f.Sequence}):
		return n.look(ctx, f.Session, f.Sequence)
	}
	return nil
}

// look asks how a session stands, with an answer that has seen a frame, and tells it; 0: the last there is.
func (n *projectWatcher) look(ctx context.Context, ref schemas.SessionRef, frame uint64) error {
	asking, cancel := context.WithTimeout(ctx, queryWait)
	defer cancel()
	var info bus.SessionInfo
	var err error
	if frame > 0 {
		info, err = n.transport.conn.AskSession(asking, ref, frame)
	} else {
		info, err = n.transport.conn.DescribeSession(asking, ref)
	}
	switch {
	case IsCode(err, schemas.CodeDeleted):
		n.deleted(n.told.Deleted(ref.ID), ref)
	case IsCode(err, schemas.CodeUnknownSession):
		n.deleted(n.told.Gone(ref.ID, frame), ref)
	case ctx.Err() != nil:
		return fmt.Errorf("watch the project: %w", ctx.Err())
	case err != nil:
		n.missed("how a session stands can't be told now: " + err.Error())
	case n.told.Stands(ref.ID, info.LastSequence):
		n.give(Changed{Cursor: placeNow, Info: infoOf(info)})
	}
	return nil
}

// deleted tells that a session is no more, if that is news.
func (n *projectWatcher) deleted(news bool, ref schemas.SessionRef) {
	if news {
		n.give(Deleted{Cursor: placeNow, ID: ref.ID})
	}
}
