package gateway

import (
	"context"
	"time"

	"braid/bus"
	"braid/schemas"
)

// turnCursorParameter parses a cursor of the turn view; an empty one is the zero cursor.
func turnCursorParameter(name, value string) (schemas.TurnCursor, error) {
	if value == "" {
		return schemas.TurnCursor{Part: schemas.WholeMessage}, nil
	}
	c, err := schemas.ParseTurnCursor(value)
	return c, atParameter(name, err)
}

// turnWatcher serves one client the turn view. It projects by itself, from the beginning of the
// task that it joins, so that its events are those of any other watcher; messages are shared with
// the other watchers of the hub. What is missed it reads from the recorded frames alone, which
// hold everything that the view shows: expired fragments break nothing here. It holds the messages
// of the running task.
type turnWatcher struct {
	*watcher
	view *schemas.TurnView
	had  schemas.TurnCursor // what the client had when it came
	// state is the session's where the watcher is, told the one that the client knows; nil: none.
	state bus.Activity
	told  *bus.Activity
	anew  int // fresh beginnings of the hub that the client knows of
}

// run writes the events until something ends them; the error says what.
func (w *turnWatcher) run(ctx context.Context, after schemas.TurnCursor, heartbeat time.Duration) error {
	err := w.out.open(!after.IsZero())
	switch {
	case err != nil:
		return err
	case after.IsZero():
		err = w.start(ctx)
	case after.Epoch != w.hub.epoch:
		err = w.resync(ctx, reasonEpoch)
	default:
		err = w.resume(ctx, after)
	}
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for err == nil {
		err = w.step(ctx, ticker.C)
	}
	return err
}

// start tells how the session stands, and goes on from there.
func (w *turnWatcher) start(ctx context.Context) error {
	now := w.hub.now()
	w.anew = now.anew
	if err := w.tell(now.state, now.cursor); err != nil {
		return err
	}
	return w.rebuild(ctx, schemas.TurnCursor{Cursor: now.cursor, Part: schemas.WholeMessage})
}

// resume writes the events that were missed, and then how the session stands.
func (w *turnWatcher) resume(ctx context.Context, after schemas.TurnCursor) error {
	now := w.hub.now()
	w.anew = now.anew
	if sequence := after.Position.Sequence; sequence > now.cursor.Position.Sequence {
		ends, err := w.hub.conn.SessionEnds(ctx, w.hub.ref)
		if err != nil {
			return err
		}
		if sequence > ends.Last() {
			return w.resync(ctx, reasonBeyond)
		}
		if err := w.hub.reach(ctx, sequence); err != nil {
			return err
		}
	}
	return w.rebuild(ctx, after)
}

// resync tells that what the client has can't be continued, and begins anew.
func (w *turnWatcher) resync(ctx context.Context, reason string) error {
	if err := w.notice(reason, schemas.Cursor{}); err != nil {
		return err
	}
	w.told = nil
	return w.start(ctx)
}

// rebuild projects the task in which the client's place is, from its beginning, and everything
// after it; what the client has is not written again.
func (w *turnWatcher) rebuild(ctx context.Context, had schemas.TurnCursor) error {
	begin, err := w.replays.taskBegin(ctx, w.hub, had)
	if err != nil {
		return err
	}
	w.view, w.had, w.at = schemas.NewTurnView(), had, begin
	return w.catchUp(ctx, 0)
}

// catchUp goes from the watcher's place on to a moment of the hub, and tells the state then if
// the client does not know it. It takes as long as patience lasts (0: for ever).
func (w *turnWatcher) catchUp(ctx context.Context, patience time.Duration) error {
	for begun := time.Now(); ; {
		changed := w.hub.changes()
		rest, now, ok := w.hub.arrive(w.at)
		if now.anew != w.anew {
			return w.resync(ctx, now.reason)
		}
		if ok {
			return w.arrived(rest, now)
		}
		if patience > 0 && time.Since(begun) > patience {
			return errSlow
		}
		missed, err := w.replays.recorded(ctx, w.hub, w.at)
		if err != nil {
			return err
		}
		if missed.cut && w.at == (schemas.Position{}) {
			w.view.Missed()
		}
		before := w.at
		if err := w.write(missed.entries, false); err != nil {
			return err
		}
		if missed.end.Compare(w.at) > 0 {
			w.at = missed.end
		}
		if w.at != before {
			continue
		}
		select { // the hub is amid a gap
		case <-changed:
		case <-w.hub.done:
			return errHubEnded
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// arrived writes the rest up to a moment, tells the state if the client does not know it, and goes
// on from there.
func (w *turnWatcher) arrived(rest []*entry, now moment) error {
	if err := w.write(rest, false); err != nil {
		return err
	}
	w.join(now)
	w.state = now.state
	if w.told != nil && w.told.Same(now.state) {
		return nil
	}
	return w.tell(now.state, now.cursor)
}

// step writes what has come, or waits for something to come.
func (w *turnWatcher) step(ctx context.Context, heartbeat <-chan time.Time) error {
	batch, changed, broken, ok := w.hub.read(w.next)
	switch {
	case broken != w.broken:
		if now := w.hub.now(); now.anew != w.anew {
			return w.resync(ctx, now.reason)
		}
		return w.catchUp(ctx, w.patience) // only fragments are lost
	case !ok:
		return w.catchUp(ctx, w.patience)
	case len(batch) > 0:
		w.next += uint64(len(batch))
		return w.write(batch, true)
	}
	return w.wait(ctx, changed, heartbeat)
}

// tell writes how the session stands.
func (w *turnWatcher) tell(state bus.Activity, at schemas.Cursor) error {
	data, err := schemas.EncodeJSON(viewOfActivity(state, at))
	if err != nil {
		return err
	}
	w.told = &state
	return w.out.send(appendEvent(nil, eventTaskState, at.String(), data))
}

// write projects what entries hold beyond the watcher's place, and writes what comes of it. live
// says that the state is told when it changes.
func (w *turnWatcher) write(entries []*entry, live bool) error {
	wrote := false
	for _, e := range entries {
		events, err := w.project(e)
		if err != nil {
			return err
		}
		if err := w.out.write(events...); err != nil {
			return err
		}
		wrote = wrote || len(events) > 0
		w.at = e.position
		if live && !w.told.Same(w.state) {
			if err := w.tell(w.state, w.cursor()); err != nil {
				return err
			}
		}
	}
	if !wrote {
		return nil
	}
	return w.out.flush()
}

// project returns the events that an entry completes and the client does not have.
func (w *turnWatcher) project(e *entry) ([][]byte, error) {
	messages, err := e.messages()
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for i, m := range messages {
		if m.Position.Compare(w.at) <= 0 {
			continue
		}
		w.state = w.state.Apply(m.Message)
		events := w.view.Add(m)
		if i == len(messages)-1 { // an entry is a whole frame
			events = append(events, w.view.Flush()...)
		}
		encoded, err := w.encode(m.Position, events)
		if err != nil {
			return nil, err
		}
		all = append(all, encoded...)
	}
	return all, nil
}

// encode encodes the events that the message at a position completed. The id of each says how many
// of them there were before, that of the last is the message's own.
func (w *turnWatcher) encode(at schemas.Position, events []schemas.TurnEvent) ([][]byte, error) {
	var all [][]byte
	for i, event := range events {
		if w.had.Has(at, i+1) {
			continue
		}
		p := schemas.TurnCursor{Cursor: schemas.Cursor{Epoch: w.hub.epoch, Position: at}, Part: i + 1}
		if i == len(events)-1 {
			p.Part = schemas.WholeMessage
		}
		data, err := schemas.EncodeJSON(event)
		if err != nil {
			return nil, err
		}
		all = append(all, appendEvent(nil, "", p.String(), data))
	}
	return all, nil
}
