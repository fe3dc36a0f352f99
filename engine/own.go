package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"braid/bus"
	"braid/engine/internal/session"
	"braid/schemas"
)

// This file is the course of a tenure, the time in which this engine owns a session: claim the session,
// fold its log, take it up where it was left, run it, and let it go.

// maxTakeovers is how many owners in a row may be lost without getting anything done before the
// session's task is given up, and the command that waits is skipped: one of them kills engines.
const maxTakeovers = 5

// own claims the session, folds its log and runs it until the tenure ends.
func (r *runner) own(ctx context.Context) (err error) {
	claimed, err := r.takeClaim(ctx)
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	r.tenure = newTenure(ctx, r.ref, claimed.owner)
	r.state.Policy = rules(r.e.policy, r.ref)
	r.desk = newToolDesk(r)
	defer func() {
		r.cancel(errTenureEnded)
		r.desk.close()
		r.helpers.Wait()
	}()
	if err := r.load(); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	r.spawn(r.appendFrames)
	if err := r.begin(claimed); err != nil {
		return err
	}
	err = r.loop()
	if errors.Is(err, bus.ErrUnconfirmed) {
		r.log.Warn().Err(err).Msg("a session is handed over, to whoever the broker answers in time")
		err = errLeaving
	}
	if errors.Is(err, errLeaving) {
		return r.depart()
	}
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx) // what failed because of it says less
	}
	return err
}

// claimed is a fresh claim and the one it replaced. takeovers counts the owners in a row that were lost
// without getting anything done.
type claimed struct {
	owner     *bus.Owner
	before    bus.Claim
	takeovers int
}

// takeClaim takes the session by compare-and-set on the last claim seen. It fails with
// [bus.ErrClaimLost] if another claim came first.
func (r *runner) takeClaim(ctx context.Context) (claimed, error) {
	if r.released {
		claim, _, err := r.e.conn.LastClaim(ctx, r.ref)
		if err != nil {
			return claimed{}, err
		}
		r.claim, r.released = claim, false
		if claim.State == bus.ClaimHeld || claim.State == bus.ClaimDeleted {
			return claimed{}, fmt.Errorf("%w: it is %s by %s", bus.ErrClaimLost, claim.State, claim.Instance)
		}
	}
	before := r.claim
	takeovers := 0
	if before.State == bus.ClaimHeld {
		achieved, err := r.achieved(ctx, before)
		if err != nil {
			return claimed{}, err
		}
		if !achieved {
			takeovers = before.Takeovers + 1
		}
	}
	owner, err := r.e.conn.Claim(ctx, r.ref, bus.ClaimRequest{Instance: r.e.instance, After: before, Takeovers: takeovers})
	if err != nil {
		return claimed{}, err
	}
	return claimed{owner: owner, before: before, takeovers: takeovers}, nil
}

// achieved reports whether the owner of a claim got anything done: whether a message of substance stands
// behind the claim. A replica that lags may hide one; then the owner counts as lost once too often, and
// it takes several to give a task up.
func (r *runner) achieved(ctx context.Context, claim bus.Claim) (bool, error) {
	for f, err := range r.e.conn.ReadFrames(ctx, r.ref, claim.Sequence, 0, bus.LogAndLive) {
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(f.Messages, substance) {
			return true, nil
		}
	}
	return false, nil
}

// substance reports whether a message shows that its owner got something done: it is recorded and does not
// merely close what that owner had found open, or it is output of a tool, behind which the next owner
// goes on. Fragments of a model are no progress: the model says it all again.
func substance(m schemas.Message) bool {
	switch p := m.Payload.(type) {
	case *schemas.OwnerChanged, *schemas.Checkpoint, *schemas.RequestBegin, *schemas.TokenUsage:
		return false // a completed request has an end of substance
	case *schemas.RequestEnd:
		return p.Status == schemas.StopCompleted
	case *schemas.Text:
		return p.StopReason == ""
	case *schemas.Thinking:
		return p.StopReason == ""
	case *schemas.ToolCall:
		return p.StopReason == ""
	case *schemas.PartialToolCallOutput:
		return p.Output != "" && p.Offset > 0 // else a mark of whoever took over
	}
	return m.Recorded()
}

func newTenure(ctx context.Context, ref schemas.SessionRef, owner *bus.Owner) *tenure {
	t := &tenure{
		owner: owner, state: session.New(ref), ledger: newLedger(ref),
		appender: newAppender(),
		urgent:   make(chan func(), 64),
		stream:   make(chan session.Event, 256),
		commands: map[uint64]bus.StoredCommand{},
		outcomes: map[string]schemas.Outcome{},
		calls:    map[string]*toolCall{},
		began:    time.Now(), appended: time.Now(), marked: time.Now(),
	}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	return t
}

// load stores the key that says the session is in motion here, and folds the log up to its true ends,
// both at once. Once the key is stored the session is found should this engine be lost, so its commands
// may be acknowledged.
func (r *runner) load() error {
	g, ctx := errgroup.WithContext(r.ctx)
	g.Go(func() (err error) {
		r.running, err = r.e.conn.MarkRunning(ctx, r.e.instance, r.ref)
		return err
	})
	g.Go(func() error { return r.fold(ctx) })
	if err := g.Wait(); err != nil {
		return err
	}
	r.spawn(r.clearOthers)
	return nil
}

// clearOthers deletes the keys that owners before have left. It comes after the log was read,
// which shows that the claim is still the last one: an engine that was stopped after it had
// claimed would else delete the key of whoever owns the session by now.
func (r *runner) clearOthers(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.e.conn.ClearOthers(ctx, r.ref, r.e.instance, r.running)
		if err == nil || ctx.Err() != nil {
			return
		}
		r.log.Warn().Err(err).Msg("can't delete the running keys that others left")
		pause(ctx, nakLater)
	}
}

// fold rebuilds the session's state. Fragments matter only since the last point at which
// nothing was open, a request_begin or a checkpoint: up to there the trace's recorded messages
// suffice; from there on all frames are read from the stream. So a long session costs a scan of
// the trace and a short read.
func (r *runner) fold(ctx context.Context) error {
	ends, err := r.owner.Ends(ctx)
	if err != nil {
		return err
	}
	point := uint64(0)
	if head, found, err := r.e.store.Head(r.ref); err != nil {
		return fmt.Errorf("read the trace: %w", err)
	} else if found && head.Epoch == r.e.conn.Epoch(r.ref) && head.Sequence <= ends.Log {
		if point, err = r.foldTrace(ctx); err != nil {
			return fmt.Errorf("read the trace: %w", err)
		}
	}
	var last time.Time
	for f, err := range r.owner.Replay(ctx, bus.Point{Sequence: max(point, 1) - 1}, bus.LogAndLive) {
		if err != nil {
			return err
		}
		r.touch()
		if f.AfterGap && f.Sequence > point {
			r.state.Gap()
		}
		last = f.Time
		for _, m := range f.Messages {
			imported := r.state.Imported(m)
			r.replay(m)
			if p, ok := m.Payload.(*schemas.CommandOutcome); ok && !imported {
				r.outcomes[p.CommandID] = p.Outcome(f.Sequence)
			}
		}
	}
	if !last.IsZero() && r.owner.Claim().Time.Sub(last) >= r.e.conn.Topology().LiveTTL {
		r.state.Gap() // nothing stands behind the fragments that may have been last
	}
	return nil
}

// replay folds a message that was in the log before this tenure. Nobody is told of it again.
func (r *runner) replay(m schemas.Message) {
	r.state.Apply(m)
	r.ledger.read(m, Events{})
}

// foldTrace folds the trace's messages that stand before the last quiet point, and returns that point's
// sequence: from there on frames are read from the stream. It holds back what may be behind the
// last one, since which one is the last shows only at the end.
func (r *runner) foldTrace(ctx context.Context) (point uint64, err error) {
	var open []schemas.Entry // since the last quiet point
	_, err = r.e.store.Load(ctx, r.ref, func(e schemas.Entry) error {
		r.touch()
		switch e.Message.Payload.(type) {
		case *schemas.RequestBegin, *schemas.Checkpoint, *schemas.TaskEnd:
			for len(open) > 0 && open[0].Position.Sequence < e.Position.Sequence {
				r.replay(open[0].Message)
				open = open[1:]
			}
			point = e.Position.Sequence
		}
		open = append(open, e)
		return nil
	})
	return point, err
}

// begin takes the loaded session up where it was left: it tells the core of the takeover, has it give up a
// task that owner after owner was lost with, and reads the commands that rang.
func (r *runner) begin(c claimed) error {
	r.state.Own(r.owner.Fence())
	r.cursor = r.state.Cursor
	lost := r.lostUsage()
	taken := session.TakenOver{To: r.e.instance, Lost: lost, Jitter: r.e.jitter()}
	if r.state.Task != nil && !(c.before.State == bus.ClaimReleased && r.state.Suspendable()) {
		taken.From, taken.Cause = c.before.Instance, schemas.OwnerLost
		if c.before.State == bus.ClaimReleased {
			taken.Cause = schemas.OwnerLetGo
		}
	}
	if c.takeovers >= maxTakeovers {
		r.log.Error().Int("takeovers", c.takeovers).Msg("a session lost its owners again and again; its task is given up")
		r.step(session.GaveUp{Message: "the task was given up: it lost its engine again and again", Lost: lost})
		r.skip = true
	}
	r.step(taken)
	err := r.readCommands(r.takeWakes())
	r.skip = false // what comes later has harmed nobody yet
	return err
}

// letGo releases a session that has nothing to do, and returns why. A command that is stored before the
// release is taken instead; one that comes behind it is found by reading once more.
func (r *runner) letGo(why error) error {
	commands, err := r.storedCommands(0)
	if err != nil {
		return fmt.Errorf("read commands: %w", err)
	}
	if len(commands) > 0 {
		r.idle = time.Time{}
		return r.readCommands(commands[len(commands)-1].Sequence)
	}
	if err := r.owner.PublishTail(); err != nil {
		r.log.Debug().Err(err).Msg("mark the end")
	}
	if err := r.release(); err != nil {
		return err
	}
	r.clearRunning()
	late, err := r.storedCommands(0)
	if err == nil && len(late) > 0 {
		// Its wake-up rings as well; this only saves the wait.
		last := late[len(late)-1]
		r.accept(bus.WakeUp{Session: r.ref, Lane: last.Lane, Sequence: last.Sequence})
	}
	return why
}

// release publishes that nobody owns the session.
func (r *runner) release() error {
	if err := r.owner.Release(r.ctx, bus.ClaimReleased); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	r.released = true
	return nil
}

// clearRunning removes the key that says the session is in motion here. One that stays is found by this
// engine's own housekeeping, see [watcher.keepHouse].
func (r *runner) clearRunning() {
	if err := r.e.conn.ClearRunning(r.ctx, r.e.instance, r.ref, r.running); err != nil {
		r.log.Warn().Err(err).Msg("the session's running key was left behind")
	}
}

// answersOnly leaves of the waiting effects those that tell people the outcome of what they asked for: an
// outcome stands whoever owns the session by then.
func answersOnly(waiting []waitingEffects) (kept []waitingEffects) {
	for _, w := range waiting {
		only := waitingEffects{mark: w.mark}
		for _, e := range w.effects {
			if _, ok := e.(session.Answer); ok {
				only.effects = append(only.effects, e)
			}
		}
		if len(only.effects) > 0 {
			kept = append(kept, only)
		}
	}
	return kept
}

// depart hands the session over: it waits until all that was appended is stored, releases the claim, and
// rings for another engine unless the session is at rest. It returns errLeaving if all went well.
func (r *runner) depart() error {
	r.dropModel()
	r.waiting, r.confirm = answersOnly(r.waiting), nil // other effects are the next owner's
	for !r.quiet() {
		if err := r.flush(); err != nil {
			return err
		}
		select {
		case result := <-r.results:
			if err := r.noteStored(result); err != nil {
				return err
			}
			r.performStored()
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		}
	}
	if err := r.release(); err != nil {
		return err
	}
	if !r.state.AtRest() || r.state.Deleted { // the deletion is still to be carried out
		if err := r.e.conn.Wake(r.ctx, r.ref); err != nil {
			return fmt.Errorf("ring for another engine: %w", err)
		}
		return errLeaving
	}
	r.clearRunning()
	return errLeaving
}
