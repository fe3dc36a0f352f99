package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"braid/bus"
	"braid/engine/internal/session"
	"braid/schemas"
)

// runner owns one session while it is in motion. Its loop is the only goroutine that touches the
// session's state; everything else reports to it. It ends when the session has come to rest or
// waits for a person, when it is handed over, and when another engine has claimed the session.
type runner struct {
	e   *Engine
	ref schemas.SessionRef
	log zerolog.Logger

	bell    chan struct{} // rings when mu.wakes grew
	leave   chan struct{} // closed to hand the session over
	born    time.Time     // when the runner was made, by the monotonic clock
	round   atomic.Int64  // when the loop last came round, in nanoseconds after born
	reading atomic.Bool   // the loop waits for commands that it reads
	motion  atomic.Int32  // what the session does, one of motionRunning, motionWaiting and motionIdle

	mu struct {
		sync.Mutex
		wakes   []bus.WakeUp // not yet seen by the loop
		closed  bool         // takes no more wake-ups
		leaving bool
	}

	claim    bus.Claim               // the session's last one, as far as this engine has seen
	released bool                    // our own release has replaced it
	abandon  context.CancelCauseFunc // ends the tenure at once, without letting go of the session
	*tenure
}

// tenure is one stretch of ownership: from a claim to letting go of it. A runner has one after the
// other, since commands may come while it lets go. All its fields are the loop's, except where a
// comment says otherwise.
type tenure struct {
	owner   *bus.Owner
	state   *session.State
	ledger  ledger // of what is stored
	running uint64 // revision of the RUNNING key

	ctx     context.Context //nolint:containedctx // the tenure's own life, not a caller's
	cancel  context.CancelCauseFunc
	helpers sync.WaitGroup // goroutines that work for the tenure, see [runner.spawn]

	appender
	urgent chan func()        // run by the loop: timers, ends; never held back
	stream chan session.Event // from the model and tools: held back while frames pile up

	commands map[uint64]bus.StoredCommand // read, without an answer yet, by sequence
	outcomes map[string]schemas.Outcome   // given or found lately, by command id
	wakes    []bus.WakeUp                 // to acknowledge once what they rang for is stored
	read     uint64                       // commands are read up to here
	skip     bool                         // refuse the next command: engines did not survive it
	model    modelCall
	calls    map[string]*toolCall
	desk     *toolDesk

	stopReading context.CancelFunc // the trace that is being imported

	deadlines []session.Effect // deadlines that the broker is still to be told of, in order

	began    time.Time // when the claim was acknowledged
	appended time.Time // when the last frame was stored
	marked   time.Time // when the end was last marked on the feed
	idle     time.Time // since when there is nothing to do; zero while there is something
	saved    time.Time // when the last checkpoint was due, or since when something is open; zero if nothing is
}

// Reasons for which a tenure ends.
var (
	errAtRest    = errors.New("the session is at rest")
	errSuspended = errors.New("the session waits for a person")
	errLeaving   = errors.New("the session is handed over")
	errDeleted   = errors.New("the session is deleted")
	errLost      = errors.New("the session's loop did not come round in time")

	errPanicked    = errors.New("panic")
	errTenureEnded = errors.New("the tenure has ended")
)

func newRunner(e *Engine, ref schemas.SessionRef, claim bus.Claim) *runner {
	r := &runner{
		e: e, ref: ref, claim: claim,
		log:  e.log.With().Str("session", ref.String()).Logger(),
		bell: make(chan struct{}, 1), leave: make(chan struct{}),
		born: time.Now(),
	}
	return r
}

// accept queues a wake-up for the loop. It refuses once the runner is about to end.
func (r *runner) accept(w bus.WakeUp) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed || r.mu.leaving {
		return false
	}
	r.mu.wakes = append(r.mu.wakes, w)
	select {
	case r.bell <- struct{}{}:
	default:
	}
	return true
}

// handOver has the runner let go of the session as soon as it can.
func (r *runner) handOver() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.mu.leaving {
		r.mu.leaving = true
		close(r.leave)
	}
}

// touch notes that the loop came round, or that loading the session made progress.
func (r *runner) touch() { r.round.Store(int64(time.Since(r.born))) }

// stuck reports that the loop has not come round for d, and not because it reads commands. It goes by the
// monotonic clock: a wall clock that is set forward must not make all loops of an engine look stuck at once.
func (r *runner) stuck(d time.Duration) bool {
	return !r.reading.Load() && time.Since(r.born)-time.Duration(r.round.Load()) > d
}

// run owns the session until there is nothing left to do for it. If the session could not be let go
// of in order, run rings for it: commands that are acknowledged ring no more, so without that nobody
// would take the session up.
func (r *runner) run(ctx context.Context) {
	err := r.ownSafely(ctx)
	for (errors.Is(err, errAtRest) || errors.Is(err, errSuspended)) && r.wokenMeanwhile() {
		err = r.ownSafely(ctx)
	}
	r.close()
	r.e.forget(r)
	switch {
	case errors.Is(err, errAtRest), errors.Is(err, errSuspended), errors.Is(err, errLeaving), errors.Is(err, errDeleted):
	case errors.Is(err, bus.ErrFenced), errors.Is(err, bus.ErrClaimLost):
		r.log.Info().Err(err).Msg("another engine owns the session now")
	case errors.Is(err, errLost): // rung by who gave it up
	default:
		if ctx.Err() == nil {
			r.log.Error().Err(err).Msg("a session was dropped")
		}
		r.e.ringLater(ctx, r.ref)
	}
}

// ownSafely is own; a panic ends the tenure, not the engine, and the session is recovered like any
// other that was lost.
func (r *runner) ownSafely(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = r.panicked(p)
		}
	}()
	return r.own(ctx)
}

// panicked logs a panic where it is recovered, and is the error that ends the tenure.
func (r *runner) panicked(p any) error {
	r.log.Error().Str("panic", fmt.Sprint(p)).Bytes("stack", debug.Stack()).Msg("a session failed")
	return fmt.Errorf("%w: %v", errPanicked, p)
}

// wokenMeanwhile reports whether a wake-up came while the session was let go. If none did it closes the
// runner, under the same lock, so that no wake-up slips in between.
func (r *runner) wokenMeanwhile() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.mu.wakes) > 0 && !r.mu.leaving {
		return true
	}
	r.mu.closed = true
	return false
}

// close takes no more wake-ups, and gives those that the loop never saw back to the broker.
func (r *runner) close() {
	r.mu.Lock()
	r.mu.closed = true
	wakes := r.mu.wakes
	r.mu.wakes = nil
	r.mu.Unlock()
	for _, w := range wakes {
		r.e.delay(w, nakSoon)
	}
}

// takeWakes moves the queued wake-ups to the tenure and returns the furthest command they name.
func (r *runner) takeWakes() (reach uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.mu.wakes {
		reach = max(reach, w.Sequence)
	}
	r.tenure.wakes = append(r.tenure.wakes, r.mu.wakes...)
	r.mu.wakes = nil
	return reach
}

// loop drives the session until the tenure ends, and says why.
func (r *runner) loop() error {
	tick := time.NewTicker(r.e.tickEvery())
	defer tick.Stop()
	for {
		r.touch()
		r.noteMotion()
		if err := r.flush(); err != nil {
			return err
		}
		stream := r.stream
		if r.backlog() {
			stream = nil
		}
		select {
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		case <-r.leave:
			return errLeaving
		case <-r.bell:
			if err := r.readCommands(r.takeWakes()); err != nil {
				return err
			}
		case result := <-r.results:
			if err := r.stored(result); err != nil {
				return err
			}
		case f := <-r.urgent:
			f()
		case event := <-stream:
			r.step(event)
		case <-tick.C:
			if err := r.onTick(); err != nil {
				return err
			}
		}
	}
}

// tickEvery is how often a loop looks whether something is due: often enough for the shortest wait.
func (e *Engine) tickEvery() time.Duration {
	return max(min(e.timing.Tail, e.timing.Rest, e.timing.Suspend)/2, 5*time.Millisecond)
}

// step takes one event through the core, and queues what the core asks for.
func (r *runner) step(event session.Event) {
	r.add(r.state.Step(time.Now(), event))
}

// onTick does what is due by the clock: mark the end of the stream, write a checkpoint, let go of a
// session that has had nothing to do for a while. It returns why the tenure ends, if it does.
func (r *runner) onTick() error {
	now := time.Now()
	r.markEnd(now)
	if r.state.Busy() {
		if r.saved.IsZero() {
			r.saved = now
		}
		if now.Sub(r.saved) >= r.e.conn.Topology().LiveTTL/4 {
			r.saved = now
			r.step(session.CheckpointDue{})
		}
	} else {
		r.saved = time.Time{}
	}
	switch {
	case !r.settled():
		r.idle = time.Time{}
	case r.state.Deleted:
		return r.deleteSession()
	case r.idle.IsZero():
		r.idle = now
	case r.state.AtRest() && now.Sub(r.idle) >= r.e.timing.Rest:
		return r.letGo(errAtRest)
	case r.state.Suspendable() && now.Sub(r.idle) >= r.e.timing.Suspend:
		return r.letGo(errSuspended)
	}
	return nil
}

// settled reports that nothing is on its way to the log, and that nothing runs whose end the session
// waits for, but perhaps a person.
func (r *runner) settled() bool {
	return r.quiet() && len(r.calls) == 0 && len(r.deadlines) == 0 && (r.state.AtRest() || r.state.Suspendable())
}

// markEnd tells watchers where the session's stream ends, so that they notice if its last frame did not
// reach them: once when the session has gone quiet, and from time to time. While a frame is in flight
// it does nothing: r.owner then belongs to the goroutine that appends the frame, and the end is about
// to be another one.
func (r *runner) markEnd(now time.Time) {
	if r.flying {
		return
	}
	wentQuiet := now.Sub(r.appended) >= r.e.timing.Tail && r.marked.Before(r.appended)
	if !wentQuiet && now.Sub(r.marked) < r.e.timing.Mark {
		return
	}
	r.marked = now
	if err := r.owner.PublishTail(); err != nil {
		r.log.Debug().Err(err).Msg("mark the end")
	}
	if now.Sub(r.appended) >= r.e.timing.Mark {
		r.spawn(r.stillMine)
	}
}

// stillMine reads the claim of a session that has appended nothing for a while, and ends the tenure if
// it is another's: that proves that this engine was taken for lost. It gives up before the next one
// is due, or they would pile up while the broker is away.
func (r *runner) stillMine(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.e.timing.Mark)
	defer cancel()
	claim, found, err := r.e.conn.LastClaim(ctx, r.ref)
	if err == nil && (!found || claim.Sequence > r.owner.Fence()) {
		r.cancel(bus.ErrFenced)
	}
}

// spawn runs f on a goroutine of the tenure, whose context f gets: the tenure ends that context and then
// waits for f. A panic in f ends the tenure, not the engine.
func (r *runner) spawn(f func(context.Context)) {
	t := r.tenure
	t.helpers.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				t.cancel(r.panicked(p))
			}
		}()
		f(t.ctx)
	})
}

// onLoop has the loop run f, and waits until the loop has room for it. If the tenure ends first f is
// never run.
func (t *tenure) onLoop(f func()) {
	select {
	case t.urgent <- f:
	case <-t.ctx.Done():
	}
}

// report has the loop take an event through the core, ahead of what the model and the tools stream.
func (r *runner) report(event session.Event) { r.onLoop(func() { r.step(event) }) }
