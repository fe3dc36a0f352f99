package scripted

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"braid/llm"
	"braid/schemas"

	"github.com/go-json-experiment/json/jsontext"
)

// run is one request being answered.
type run struct {
	*llm.Emitter
	ctx    context.Context //nolint:containedctx // of the one request the run lives for
	script *Script
	number int // of the turn, from 0
	usage  *schemas.TokenCounts
	end    llm.Outcome // set when an op returns errEnd
}

// errEnd ends a run as its script says.
var errEnd = errors.New("the script ends the request")

// op is one thing a script lets happen.
type op interface {
	do(*run) error
}

func (r *run) do(ops []op) llm.Outcome {
	for _, o := range ops {
		err := context.Cause(r.ctx)
		if err == nil {
			err = o.do(r)
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, errEnd):
			r.end.Usage = r.usage
			return r.End(r.end)
		case r.ctx.Err() != nil:
			o := llm.Interrupted(r.ctx)
			o.Usage = r.usage
			return r.End(o)
		}
		// The only other error is that of emit, which End knows.
		return r.End(llm.Completed(r.usage))
	}
	return r.End(llm.Completed(r.usage))
}

// opOpen opens a segment; a call without an id gets one made of the turn and the call's place.
type opOpen struct {
	kind     schemas.Kind
	id, name string
	index    int
}

func (o *opOpen) do(r *run) error {
	switch o.kind {
	case schemas.KindThinking:
		return r.ThinkingStart()
	case schemas.KindToolCall:
		id := o.id
		if id == "" {
			id = fmt.Sprintf("call_%d_%d", r.number+1, o.index)
		}
		return r.ToolCallStart(id, o.name)
	}
	return r.TextStart()
}

// opDelta adds to the open segment.
type opDelta struct {
	kind  schemas.Kind
	delta string
}

func (o *opDelta) do(r *run) error {
	switch o.kind {
	case schemas.KindThinking:
		return r.Thinking(o.delta)
	case schemas.KindToolCall:
		return r.ToolCallArgs(o.delta)
	}
	return r.Text(o.delta)
}

// opFidelity gives the open segment its fidelity.
type opFidelity struct{ raw jsontext.Value }

func (o *opFidelity) do(r *run) error {
	r.Fidelity(o.raw)
	return nil
}

// opClose closes the open segment.
type opClose struct{}

func (opClose) do(r *run) error { return r.Close() }

// opPause waits for a time.
type opPause struct{ d time.Duration }

func (o *opPause) do(r *run) error {
	timer := time.NewTimer(o.d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

// opWait waits at a gate.
type opWait struct{ gate string }

func (o *opWait) do(r *run) error {
	if r.script.Wait != nil {
		return r.script.Wait(r.ctx, o.gate)
	}
	g := r.script.gates[o.gate]
	g.arrive()
	select {
	case <-g.open:
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

// opHang waits at a gate and does not hear that its request was cancelled.
type opHang struct{ gate string }

func (o *opHang) do(r *run) error {
	if r.script.Wait != nil {
		return r.script.Wait(context.WithoutCancel(r.ctx), o.gate)
	}
	g := r.script.gates[o.gate]
	g.arrive()
	<-g.open
	return nil
}

// opUsage sets what the outcome reports.
type opUsage struct{ counts schemas.TokenCounts }

func (o *opUsage) do(r *run) error {
	counts := o.counts
	r.usage = &counts
	return nil
}

// opEnd ends the request.
type opEnd struct {
	status schemas.StopReason
	err    llm.Error
}

func (o *opEnd) do(r *run) error {
	e := o.err
	r.end = llm.Outcome{Status: o.status, Error: &e}
	return errEnd
}

// opPanic panics.
type opPanic struct{ message string }

func (o *opPanic) do(*run) error { panic(o.message) }

// gate is where requests wait until it is opened. Once open, it stays open.
type gate struct {
	open, reached   chan struct{}
	release, arrive func()
}

func newGate() *gate {
	g := &gate{open: make(chan struct{}), reached: make(chan struct{})}
	g.release = sync.OnceFunc(func() { close(g.open) })
	g.arrive = sync.OnceFunc(func() { close(g.reached) })
	return g
}
