package llm

import (
	"context"
	"fmt"
	"sync"
	"time"

	"braid/schemas"
)

// Grace is how long a model may go on after its request is over, to say what it used. It bounds
// how long an abort takes, whatever the provider does.
const Grace = 200 * time.Millisecond

// Guarded is a model that can be trusted, whatever the one behind it does. See [Guard].
type Guarded struct {
	model Model
	calls *calls
	now   func() time.Time
}

// Guard wraps any model so that its caller need not trust it:
//
//   - A panic ends the request as failed.
//   - Messages that break the rules of segments, or that a model may not say, end it as
//     malformed; so does an outcome that is none.
//   - A segment that is open when the request ends is closed: stop, then the complete message of
//     what was said, both marked with the status.
//   - A complete message that comes without fragments gets them.
//   - Of pictures it gets those it sees, as [Request.For] says, and a note in the place of others.
//   - A request that does not fit into the model's window is not made, and the answer is bounded by what is
//     left of it, as [Request.Fit] says.
//   - Once ctx has ended nothing the model says gets through, and the outcome is not completed.
//     If the model then does not return within 200 ms it is left behind; [Guarded.Abandoned]
//     counts it and [Guarded.Close] waits for it.
//
// The model runs on a goroutine of its own, on which emit is called too; emit is never called
// after Stream has returned. A guarded model is not guarded twice.
func Guard(m Model) *Guarded { return guard(m, &calls{}) }

func guard(m Model, c *calls) *Guarded {
	if g, ok := m.(*Guarded); ok {
		return g
	}
	return &Guarded{model: m, calls: c, now: time.Now}
}

// Abandoned counts the requests that were given up and whose model still has not returned.
func (g *Guarded) Abandoned() int { return g.calls.abandoned() }

// Close waits until every request has returned, the abandoned ones included, or ctx ends.
func (g *Guarded) Close(ctx context.Context) error { return g.calls.wait(ctx) }

// Info implements [Model]. A model that can't even say what it can do can do nothing.
func (g *Guarded) Info() (i Info) {
	defer func() {
		if recover() != nil {
			i = Info{}
		}
	}()
	return g.model.Info()
}

// Stream implements [Model].
func (g *Guarded) Stream(ctx context.Context, req Request, emit func(schemas.Message) error) Outcome {
	if ctx.Err() != nil {
		return Interrupted(ctx)
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &filter{ctx: ctx, emit: emit, now: g.now, broken: make(chan struct{})}
	done := make(chan Outcome, 1)
	call := g.calls.begin()
	// It ends when the model returns. Usually that is waited for below, else by Close.
	go func() {
		o := crashed("ended its goroutine")
		defer func() { call.end(); done <- o }()
		o = g.run(inner, req, f.take)
	}()

	select {
	case o := <-done:
		return f.finish(o)
	case <-ctx.Done():
	case <-f.broken:
		cancel()
	}
	// The request is over, only the model does not know yet. What was said is closed at once;
	// of what the model still returns, only its usage counts.
	o := f.finish(Interrupted(inner))
	timer := time.NewTimer(Grace)
	defer timer.Stop()
	select {
	case late := <-done:
		o.Usage = late.Usage
	case <-timer.C:
		call.abandon()
	}
	return o
}

// run calls the model and turns a panic into an outcome.
func (g *Guarded) run(ctx context.Context, req Request, emit func(schemas.Message) error) (o Outcome) {
	defer func() {
		if p := recover(); p != nil {
			o = crashed(fmt.Sprintf("panicked: %v", p))
		}
	}()
	info := g.Info()
	req, refused := req.For(info).Fit(info)
	if refused != nil {
		return *refused
	}
	return g.model.Stream(ctx, req, emit)
}

// crashed is the outcome of a request whose adapter is broken.
func crashed(how string) Outcome {
	return Outcome{Status: schemas.StopFailed, Error: &Error{
		Kind: KindEngine, Message: "the model's adapter " + how, Retryable: true,
	}}
}

// calls counts the requests whose models have not returned.
type calls struct {
	mu struct {
		sync.Mutex
		running int
		left    int
		idle    chan struct{} // closed when running falls to 0
	}
}

// call is one of them.
type call struct {
	of   *calls
	done bool // guarded by of.mu, as left
	left bool
}

func (c *calls) begin() *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.running == 0 {
		c.mu.idle = make(chan struct{})
	}
	c.mu.running++
	return &call{of: c}
}

func (k *call) end() {
	c := k.of
	c.mu.Lock()
	defer c.mu.Unlock()
	k.done = true
	if k.left {
		c.mu.left--
	}
	if c.mu.running--; c.mu.running == 0 {
		close(c.mu.idle)
	}
}

func (k *call) abandon() {
	c := k.of
	c.mu.Lock()
	defer c.mu.Unlock()
	if !k.done {
		k.left = true
		c.mu.left++
	}
}

func (c *calls) abandoned() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.left
}

func (c *calls) wait(ctx context.Context) error {
	c.mu.Lock()
	running, idle := c.mu.running, c.mu.idle
	c.mu.Unlock()
	if running == 0 {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the models' requests: %w", context.Cause(ctx))
	}
}
