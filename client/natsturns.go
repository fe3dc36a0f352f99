package client

import (
	"context"
	"fmt"
	"slices"

	"braid/bus"
	"braid/schemas"
)

// parseTurnCursor parses a cursor of either view; an empty one is the zero cursor.
func parseTurnCursor(s string) (schemas.TurnCursor, error) {
	if s == "" {
		return schemas.TurnCursor{Part: schemas.WholeMessage}, nil
	}
	return schemas.ParseTurnCursor(s)
}

// turns gives the view of turns. It projects from the beginning of the task in which the watcher's
// place is, over recorded frames alone, so expired fragments break nothing.
func (n *natsWatcher) turns(ctx context.Context) error {
	had, err := parseTurnCursor(n.watch.after)
	if err != nil {
		return err
	}
	f, err := n.follow(ctx, schemas.Cursor{}) // from now on: what comes before is read from the log
	if err != nil {
		return err
	}
	defer f.Close()
	fresh := false
	p := &projection{natsWatcher: n, view: schemas.NewTurnView(), now: f.Cursor(), had: had}
	if had.IsZero() || had.Epoch != p.now.Epoch || had.Position.Sequence > p.now.Position.Sequence {
		if !had.IsZero() && !n.give(Gap{Reason: "the stream is not the one of the cursor", Reset: true}) {
			return nil
		}
		p.had = schemas.TurnCursor{Cursor: p.now, Part: schemas.WholeMessage}
		fresh = true
	}
	if err := p.rebuild(ctx); err != nil || p.left {
		return err
	}
	info, err := n.transport.describe(ctx, n.ref)
	if err != nil {
		return err
	}
	p.activity, p.known = info.Activity(), info.LastSequence
	at := p.now
	if fresh && p.known > at.Position.Sequence { // nothing is given before its State, which holds there
		at.Position = schemas.Behind(p.known)
		p.had.Cursor = at
	}
	if p.tell(at); p.left {
		return nil
	}
	return p.follow(ctx, f)
}

// projection makes turns of what is recorded.
type projection struct {
	*natsWatcher
	view *schemas.TurnView
	now  schemas.Cursor     // all up to here is projected, once rebuild is through
	had  schemas.TurnCursor // what the watcher had when it came
	at   schemas.Position   // after the task that ended last at that place
	// activity is the session's where the watcher is, or at that sequence if it is later; told is the
	// one that was given; nil: none.
	activity bus.Activity
	known    uint64
	told     *bus.Activity
}

// rebuild projects the task in which the watcher's place is, and everything after it up to now.
func (p *projection) rebuild(ctx context.Context) error {
	var err error
	if p.at, err = p.transport.conn.LastTaskEnd(ctx, p.ref, p.had); err != nil {
		return fmt.Errorf("find the task: %w", err)
	}
	first := p.at == (schemas.Position{})
	for f, err := range p.transport.conn.ReadFrames(ctx, p.ref, max(p.at.Sequence, 1)-1, p.now.Position.Sequence, bus.LogOnly) {
		if err != nil {
			return fmt.Errorf("read the task so far: %w", err)
		}
		if first && f.Header.Prev > 0 {
			p.view.Missed()
		}
		first = false
		if p.project(f); p.left {
			return nil
		}
	}
	return nil
}

// follow projects what comes.
func (p *projection) follow(ctx context.Context, f *bus.Follower) error {
	for {
		event, err := f.Next(ctx)
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		switch e := event.(type) {
		case bus.Frame:
			p.project(e)
			if err := deletedBy(e); err != nil || p.left {
				return err
			}
			p.carryOn(e)
			if p.tell(f.Cursor()); p.left {
				return nil
			}
		case bus.ResyncEvent:
			return fmt.Errorf("%w: %s", errEnded, e.Reason) // the next connection finds out what is left
		}
	}
}

// carryOn takes what a frame makes of the session's state, unless that is known already.
func (p *projection) carryOn(f bus.Frame) {
	if f.Sequence <= p.known {
		return
	}
	for _, m := range f.Messages {
		p.activity = p.activity.Apply(m)
	}
}

// project gives the events that a frame completes and the watcher does not have.
func (p *projection) project(f bus.Frame) {
	entries := slices.DeleteFunc(f.Entries(), func(e schemas.Entry) bool {
		return !e.Message.Recorded() || !e.Message.Shown(true)
	})
	for i, e := range entries {
		if e.Position.Compare(p.at) <= 0 {
			continue
		}
		events := p.view.Add(e)
		if i == len(entries)-1 {
			events = append(events, p.view.Flush()...)
		}
		for k, event := range events {
			if p.had.Has(e.Position, k+1) {
				continue
			}
			at := schemas.TurnCursor{Cursor: schemas.Cursor{Epoch: p.now.Epoch, Position: e.Position}, Part: k + 1}
			if k == len(events)-1 {
				at.Part = schemas.WholeMessage
			}
			if !p.give(Turn{Cursor: at.String(), TurnEvent: event}) {
				return
			}
		}
	}
}

// tell gives the state if it holds where the watcher is, and is another one than was told.
func (p *projection) tell(at schemas.Cursor) {
	if p.known <= at.Position.Sequence && (p.told == nil || !p.told.Same(p.activity)) {
		told := p.activity
		p.told = &told
		p.give(stateAt(told, at))
	}
}
