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
	p := &projection{natsWatcher: n, view: schemas.NewTurnView(), now: f.Cursor(), had: had}
	if had.IsZero() || had.Epoch != p.now.Epoch || had.Position.Sequence > p.now.Position.Sequence {
		if !had.IsZero() && !n.give(Gap{Reason: "the stream is not the one of the cursor", Reset: true}) {
			return nil
		}
		p.had = schemas.TurnCursor{Cursor: p.now, Part: schemas.WholeMessage}
	}
	// For a watcher that comes fresh nothing is given before its State.
	if err := p.rebuild(ctx); err != nil || p.left {
		return err
	}
	if err := p.tell(ctx, p.now); err != nil || p.left {
		return err
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
	told *State
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
			changes := p.project(e)
			if err := lastWord(e); err != nil {
				return err
			}
			if changes && !p.left {
				err = p.tell(ctx, f.Cursor())
			}
			if err != nil || p.left {
				return err
			}
		case bus.ResyncEvent:
			return fmt.Errorf("%w: %s", errEnded, e.Reason) // the next connection finds out what is left
		}
	}
}

// project gives the events that a frame completes and the watcher does not have. It reports whether
// the session's state may be another one.
func (p *projection) project(f bus.Frame) (changes bool) {
	entries := slices.DeleteFunc(f.Entries(), func(e schemas.Entry) bool {
		return !e.Message.Recorded() || !shown(e.Message, true)
	})
	for i, e := range entries {
		if e.Position.Compare(p.at) <= 0 {
			continue
		}
		changes = changes || changesState(e.Message)
		events := p.view.Add(e)
		if i == len(entries)-1 {
			events = append(events, p.view.Flush()...)
		}
		for k, event := range events {
			if p.had.Has(e.Position, k+1) {
				continue
			}
			at := schemas.TurnCursor{Cursor: schemas.Cursor{Epoch: f.Header.Epoch, Position: e.Position}, Part: k + 1}
			if k == len(events)-1 {
				at.Part = schemas.WholeMessage
			}
			if !p.give(Turn{Cursor: at.String(), TurnEvent: event}) {
				return false
			}
		}
	}
	return changes
}

// changesState reports whether a message may change what the session does, or who is waited for.
func changesState(m schemas.Message) bool {
	switch m.Payload.(type) {
	case *schemas.ApprovalRequest, *schemas.ApprovalDecision, *schemas.RequestEnd, *schemas.Abort, *schemas.TaskEnd,
		*schemas.CompactionBegin, *schemas.CompactionEnd:
		return true
	}
	return isPrompt(m)
}

// tell gives the state if it is another one than was told.
func (p *projection) tell(ctx context.Context, at schemas.Cursor) error {
	s, err := p.ask(ctx, at)
	if err != nil {
		return err
	}
	same := func(a, b bus.PendingApproval) bool { return a.ToolCallID == b.ToolCallID }
	if p.told == nil || p.told.State != s.State || !slices.EqualFunc(p.told.Pending, s.Pending, same) {
		p.told = &s
		p.give(s)
	}
	return nil
}
