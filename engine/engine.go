package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"braid/bus"
	"braid/engine/policy"
	"braid/llm"
	"braid/schemas"
	"braid/trace"
)

// Options says what an engine works with.
type Options struct {
	// Conn is the broker, Trace the engine's own store, Models what sessions may run on. All are
	// required, and stay the caller's to close once the engine has stopped.
	Conn   *bus.Conn
	Trace  *trace.Store
	Models *llm.Catalog
	// Prices are what the models cost. What a model without a price costs is not counted.
	Prices Prices
	// Instance names the engine; it must be new at each start. Default: random.
	Instance string
	// MaxSessions is how many sessions may be in motion here at once; default 1024.
	MaxSessions int
	// Policy judges tool calls before anybody is asked; nil: there are no rules.
	Policy *policy.Policy
	// Jitter spreads retries and sweeps: it returns numbers from 0 up to 1, and is called by many
	// goroutines. Default: random ones.
	Jitter func() float64
	// Events are told what becomes of sessions.
	Events Events
	// TraceContext, if set, returns the trace context that the tool calls of a task carry to their
	// toolrunners, so that these can draw them as parts of the task. Many goroutines call it.
	TraceContext func(TaskOf) schemas.TraceContext
	// Timing overrides waits; the zero value is right for everything but tests.
	Timing Timing
	// Log gets what operators should know; message content only at debug level.
	Log zerolog.Logger
}

// Timing holds the engine's waits. Zero fields mean the defaults.
type Timing struct {
	// Rest is how long an owner keeps a session that has come to rest; default 200 ms.
	Rest time.Duration
	// Suspend is how long a task waits for a person in memory; default 2 s.
	Suspend time.Duration
	// CancelBound is how long a toolrunner has to end a cancelled call; default 600 ms.
	CancelBound time.Duration
	// Records is how often records of open calls are read; default 2 s.
	Records time.Duration
	// Tail is how long a session is quiet before its end is marked on the feed; default 200 ms.
	Tail time.Duration
	// Mark is how often the end is marked again; default 5 s.
	Mark time.Duration
	// Ring is how often sessions of a lost engine are rung; default 3 s.
	Ring time.Duration
	// Watch is how often the liveness of others is looked at; default 500 ms.
	Watch time.Duration
	// Sweep is how often blobs are looked for that nothing refers to, on average; default 1 h.
	Sweep time.Duration
	// Orphan is how old such a blob must be to be removed; default 24 h.
	Orphan time.Duration
	// Retry is the share of an announced wait for a retry that is really waited; default 1, all of it.
	Retry float64
}

func (t Timing) withDefaults() Timing {
	set := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	set(&t.Rest, 200*time.Millisecond)
	set(&t.Suspend, 2*time.Second)
	set(&t.CancelBound, 600*time.Millisecond)
	set(&t.Records, 2*time.Second)
	set(&t.Tail, 200*time.Millisecond)
	set(&t.Mark, 5*time.Second)
	set(&t.Ring, 3*time.Second)
	set(&t.Watch, 500*time.Millisecond)
	set(&t.Sweep, time.Hour)
	set(&t.Orphan, 24*time.Hour)
	if t.Retry <= 0 {
		t.Retry = 1
	}
	return t
}

const defaultMaxSessions = 1024

// Engine runs sessions until it is stopped. Make it with [Start].
type Engine struct {
	conn     *bus.Conn
	store    *trace.Store
	models   *llm.Catalog
	prices   Prices
	policy   *policy.Policy
	log      zerolog.Logger
	instance string
	room     int // how many sessions may be in motion here
	jitter   func() float64
	events   Events
	above    func(TaskOf) schemas.TraceContext
	timing   Timing

	beat   *bus.Beat
	reader *Reader

	cancel  context.CancelCauseFunc // ends everything at once
	drain   context.CancelFunc      // stops taking work
	work    sync.WaitGroup          // pulls, watch, sweep, projection
	closers []func()                // services on the bus

	mu struct {
		sync.Mutex
		runners  map[schemas.SessionRef]*runner
		routing  int // wake-ups that were taken and may begin a runner
		draining bool
		changed  chan struct{} // closed and renewed when there may be more room
	}
}

var (
	errStopped = errors.New("the engine was stopped")
	errKilled  = errors.New("the engine was killed")
)

// Start brings up an engine; when it returns, the engine takes sessions. The context bounds starting
// only: the engine has goroutines of its own, which [Engine.Stop] ends and waits for.
func Start(ctx context.Context, o Options) (*Engine, error) {
	if o.Instance == "" {
		o.Instance = newInstance()
	}
	if o.Jitter == nil {
		o.Jitter = mathrand.Float64
	}
	if o.MaxSessions <= 0 {
		o.MaxSessions = defaultMaxSessions
	}
	e := &Engine{
		conn: o.Conn, store: o.Trace, models: o.Models, prices: o.Prices, policy: o.Policy, instance: o.Instance, room: o.MaxSessions,
		jitter: o.Jitter, events: o.Events, above: o.TraceContext, timing: o.Timing.withDefaults(), log: o.Log.With().Str("engine", o.Instance).Logger(),
	}
	e.mu.runners = map[schemas.SessionRef]*runner{}
	e.mu.changed = make(chan struct{})
	var err error
	if e.reader, err = newReader(ctx, ReaderOptions{Conn: e.conn, Trace: e.store, Models: e.models, Prices: e.prices, Log: e.log}); err != nil {
		return nil, fmt.Errorf("start engine: %w", err)
	}
	if e.beat, err = e.conn.StartBeat(ctx, bus.KindEngine, e.instance, nil); err != nil {
		return nil, fmt.Errorf("start engine: %w", err)
	}
	if err := e.serve(); err != nil {
		e.close()
		return nil, errors.Join(fmt.Errorf("start engine: %w", err), e.beat.Stop(ctx))
	}
	running, cancel := context.WithCancelCause(context.Background())
	taking, drain := context.WithCancel(running)
	e.cancel, e.drain = cancel, drain
	e.work.Go(func() { e.reader.projector.run(running) })
	e.work.Go(func() { e.pull(running, taking, bus.LaneRun) })
	e.work.Go(func() { e.pull(running, taking, bus.LaneControl) })
	e.work.Go(func() { e.watch(taking) })
	e.work.Go(func() { e.sweep(taking) })
	e.logPolicy()
	e.log.Info().Int("shards", e.conn.Shards()).Int("room", e.room).Msg("engine started")
	return e, nil
}

// serve opens the engine's services on the bus.
func (e *Engine) serve() error {
	stop, err := e.conn.ServeDeliver(e.instance, e.deliver)
	if err != nil {
		return err
	}
	e.closers = append(e.closers, stop)
	stop, err = e.conn.ServeQueries(e.reader.answer)
	if err != nil {
		return err
	}
	e.closers = append(e.closers, stop)
	return nil
}

// close ends the engine's services on the bus.
func (e *Engine) close() {
	for _, stop := range e.closers {
		stop()
	}
}

// Stop hands every session over and ends the engine: no more work is taken, each session appends
// what it has, is released, and rings for another engine. When ctx ends first, what is left is
// dropped as a crash would drop it, and recovered by others the same way.
func (e *Engine) Stop(ctx context.Context) error {
	e.mu.Lock()
	e.mu.draining = true
	runners := make([]*runner, 0, len(e.mu.runners))
	for _, r := range e.mu.runners {
		runners = append(runners, r)
	}
	e.mu.Unlock()
	e.drain()
	for _, r := range runners {
		r.handOver()
	}
	err := e.awaitRunners(ctx)
	e.cancel(errStopped)
	e.work.Wait()
	e.close()
	if err != nil {
		// Whoever is left has seen the cancellation; it ends without another append.
		_ = e.awaitRunners(context.WithoutCancel(ctx))
	}
	e.log.Info().Int("handed_over", len(runners)).Msg("engine stopped")
	return errors.Join(err, e.beat.Stop(ctx))
}

// kill drops everything, as close to a crash as a process can do to itself: the connection goes
// first, so nothing is handed over, released or removed.
func (e *Engine) kill() {
	e.conn.Close()
	e.cancel(errKilled)
	e.work.Wait()
	e.close()
	_ = e.awaitRunners(context.Background())
	_ = e.beat.Stop(context.Background()) // only ends its goroutine: the key stays
}

// awaitRunners waits until no session runs here.
func (e *Engine) awaitRunners(ctx context.Context) error {
	for {
		e.mu.Lock()
		n, changed := len(e.mu.runners), e.mu.changed
		e.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("hand over %d sessions: %w", n, ctx.Err())
		}
	}
}

// newInstance is a name that no engine has had before.
func newInstance() string {
	var b [6]byte
	rand.Read(b[:])
	return "e" + hex.EncodeToString(b[:])
}
