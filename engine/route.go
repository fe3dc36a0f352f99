package engine

import (
	"context"
	"errors"
	"time"

	"braid/bus"
	"braid/schemas"
)

// How long a wake-up that nobody can take now is given back for. Other tries that failed wait as long.
const (
	nakSoon  = 100 * time.Millisecond // the owner is letting go, or the claim was just lost
	nakLater = time.Second            // the owner does not answer, there is no room, or the broker is away
)

// pullMost is how many wake-ups are taken at once, routesMost how many of a lane find their way
// at once.
const (
	pullMost   = 32
	routesMost = 64
)

// pull takes wake-ups of a lane until taking ends. Those that start work are taken only while
// there is room for another session.
func (e *Engine) pull(running, taking context.Context, lane bus.Lane) {
	// Each lane has its own bound, so that an abort never waits behind prompts whose owner does not answer.
	routes := make(chan struct{}, routesMost)
	for taking.Err() == nil {
		most := pullMost
		if lane == bus.LaneRun {
			if most = min(most, e.awaitRoom(taking)); most == 0 {
				return
			}
		}
		wakes, err := e.conn.PullWakeUps(taking, lane, most)
		if err != nil {
			if taking.Err() == nil {
				e.log.Warn().Err(err).Msg("can't take wake-ups")
				pause(taking, nakLater)
			}
			continue
		}
		for _, w := range wakes {
			// Several at once: an owner that does not answer costs a second.
			routes <- struct{}{}
			arrived := func() {}
			if lane == bus.LaneRun {
				arrived = e.keepRoom()
			}
			e.work.Go(func() {
				defer func() { <-routes }()
				defer arrived()
				e.route(running, w)
			})
		}
	}
}

// awaitRoom waits until another session may run here, and returns for how many there is room; 0
// when ctx has ended.
func (e *Engine) awaitRoom(ctx context.Context) int {
	for {
		e.mu.Lock()
		room, changed := e.roomLocked(), e.mu.changed
		e.mu.Unlock()
		if room > 0 {
			return room
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0
		}
	}
}

// roomLocked is how many more sessions may run here. REQUIRES: e.mu is held.
func (e *Engine) roomLocked() int { return e.room - len(e.mu.runners) - e.mu.routing }

// keepRoom keeps room for one session, until done is called.
func (e *Engine) keepRoom() (done func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.routing++
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.mu.routing--
		e.changedLocked()
	}
}

// changedLocked tells who waits for room. REQUIRES: e.mu is held.
func (e *Engine) changedLocked() {
	close(e.mu.changed)
	e.mu.changed = make(chan struct{})
}

// route takes a wake-up to whoever must see it. It never acknowledges one of a session with an
// owner: only that owner does, once the command's outcome is stored.
func (e *Engine) route(ctx context.Context, w bus.WakeUp) {
	if e.handLocally(w) {
		return
	}
	claim, found, err := e.conn.LastClaim(ctx, w.Session)
	if err != nil {
		e.delay(w, nakLater)
		return
	}
	switch {
	case !found:
		e.routeUnclaimed(ctx, w)
	case claim.State == bus.ClaimDeleted:
		e.routeDeleted(ctx, w)
	case claim.State == bus.ClaimReleased, claim.Instance == e.instance:
		e.startRunner(ctx, w, claim)
	default:
		e.routeToOwner(ctx, w, claim)
	}
}

// handLocally gives the wake-up to the session's runner, if there is one that takes it.
func (e *Engine) handLocally(w bus.WakeUp) bool {
	e.mu.Lock()
	r := e.mu.runners[w.Session]
	e.mu.Unlock()
	return r != nil && r.accept(w)
}

// routeToOwner asks the instance that holds the claim. A slow owner is left alone: claiming its
// session would only move the load, and pay for a model call twice.
func (e *Engine) routeToOwner(ctx context.Context, w bus.WakeUp, claim bus.Claim) {
	answer, err := e.conn.Deliver(ctx, claim.Instance, w)
	switch {
	case err == nil && answer == bus.DeliverMine:
	case err == nil && answer == bus.DeliverNotMine:
		again, found, err := e.conn.LastClaim(ctx, w.Session)
		if err != nil || !found || again.Sequence != claim.Sequence {
			e.delay(w, nakSoon)
			return
		}
		e.startRunner(ctx, w, claim)
	case errors.Is(err, bus.ErrNoInstance), errors.Is(err, bus.ErrNoAnswer):
		gone, err := e.beat.Gone(ctx, bus.KindEngine, claim.Instance)
		if err != nil || !gone {
			e.delay(w, nakLater)
			return
		}
		e.startRunner(ctx, w, claim)
	case err == nil: // draining
		e.delay(w, nakSoon)
	default:
		e.delay(w, nakLater)
	}
}

// routeUnclaimed handles a session nobody ever owned. It exists if its create waits among the
// commands; then the others wait behind that. Else it is unknown, which needs no record.
func (e *Engine) routeUnclaimed(ctx context.Context, w bus.WakeUp) {
	commands, err := e.conn.ReadCommands(ctx, w.Session, 0, w.Sequence)
	if err != nil {
		e.delay(w, nakLater)
		return
	}
	for _, c := range commands {
		if c.Type.Creates() {
			e.startRunner(ctx, w, bus.Claim{})
			return
		}
	}
	e.refuse(ctx, w, schemas.Errorf(schemas.CodeUnknownSession, "there is no session %s", w.Session.ID))
}

// refuse answers the command that rang with a refusal, for a session that has no log to record one in, and
// acknowledges the wake-up.
func (e *Engine) refuse(ctx context.Context, w bus.WakeUp, reason *schemas.Error) {
	commands, err := e.conn.ReadCommands(ctx, w.Session, w.Sequence-1, w.Sequence)
	if err != nil {
		e.delay(w, nakLater)
		return
	}
	for _, c := range commands {
		o := schemas.Outcome{CommandID: c.ID, Sequence: c.Sequence, Code: reason.Code, Message: reason.Message, Field: reason.Field}
		if err := e.conn.Reply(c, o); err != nil {
			e.log.Debug().Err(err).Msg("reply")
		}
		tell(e.events.Settled, SettledCommand{Type: c.Type, Code: reason.Code})
		e.dropOutside(ctx, c)
	}
	if err := e.conn.Ack(ctx, w); err != nil {
		e.log.Debug().Err(err).Msg("acknowledge")
	}
}

// dropOutside removes the blobs of a command that is refused without a record: its body and the trace it
// imports. A blob that stays behind is removed by a sweep.
func (e *Engine) dropOutside(ctx context.Context, c bus.StoredCommand) {
	if c.KeptOutside() {
		e.conn.DropBody(ctx, c)
	}
	if c.Import == nil {
		return
	}
	if err := e.conn.DropTrace(ctx, c.Session, c.Import.Trace, c.Time); err != nil && ctx.Err() == nil {
		e.log.Debug().Err(err).Msg("the trace of a refused import stays among the blobs")
	}
}

// startRunner starts a runner that claims the session over the given claim, the last one seen, unless
// another wake-up has just started one: that one gets this wake-up. If there is no room, or the engine
// is draining, the wake-up is given back.
func (e *Engine) startRunner(ctx context.Context, w bus.WakeUp, claim bus.Claim) {
	e.mu.Lock()
	if e.mu.draining {
		e.mu.Unlock()
		e.delay(w, nakSoon)
		return
	}
	if r := e.mu.runners[w.Session]; r != nil {
		e.mu.Unlock()
		if !r.accept(w) {
			e.delay(w, nakSoon)
		}
		return
	}
	// A full engine takes no session, whatever there was room for when the wake-up was asked for; but an
	// abort makes room.
	if len(e.mu.runners) >= e.room && w.Type != schemas.CommandAbort {
		e.mu.Unlock()
		e.delay(w, nakLater)
		return
	}
	r := newRunner(e, w.Session, claim)
	r.accept(w)
	ctx, r.abandon = context.WithCancelCause(ctx)
	e.mu.runners[w.Session] = r
	e.mu.Unlock()
	e.work.Go(func() { r.run(ctx) })
}

// forget takes an ended runner off the list, and wakes whoever waits for room or for the last to end.
func (e *Engine) forget(r *runner) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.runners[r.ref] == r {
		delete(e.mu.runners, r.ref)
	}
	e.changedLocked()
}

// deliver answers another engine that has a wake-up for a session this one is thought to own. It never
// blocks.
func (e *Engine) deliver(w bus.WakeUp) bus.DeliverAnswer {
	e.mu.Lock()
	draining, r := e.mu.draining, e.mu.runners[w.Session]
	e.mu.Unlock()
	switch {
	case r != nil && r.accept(w):
		return bus.DeliverMine
	case draining || r != nil: // it is letting go
		return bus.DeliverDraining
	}
	return bus.DeliverNotMine
}

// delay gives a wake-up back to the broker, for some engine to get it after d.
func (e *Engine) delay(w bus.WakeUp, d time.Duration) {
	if err := e.conn.Nak(w, d); err != nil {
		e.log.Debug().Err(err).Msg("return a wake-up")
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
