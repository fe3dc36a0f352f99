package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rs/zerolog"

	"braid/bus"
	"braid/llm"
	"braid/trace"
)

// Reader keeps a trace up to date with the sessions' logs, and answers questions about it. It is what an
// engine has that only looks: it takes no wake-up, claims no session, asks no model, and is no instance
// that engines would reckon with when they judge who owns what. Make it with [StartReader].
type Reader struct {
	conn      *bus.Conn
	store     *trace.Store
	models    *llm.Catalog
	prices    Prices
	projector *projector

	cancel context.CancelFunc // nil in an engine, which ends what it runs
	work   sync.WaitGroup
	unbind func()
}

// ReaderOptions says what a reader works with.
type ReaderOptions struct {
	// Conn is the broker, Trace the reader's own store.
	Conn  *bus.Conn
	Trace *trace.Store
	// Models are what sessions may run on, Prices what these cost: to be told of. Default: none.
	Models *llm.Catalog
	Prices Prices
	Log    zerolog.Logger
}

// StartReader brings up a reader. When it returns, the trace has everything that was recorded before, and
// questions are answered; the context bounds how long that may take. [Reader.Stop] ends the reader.
func StartReader(ctx context.Context, o ReaderOptions) (*Reader, error) {
	r, err := newReader(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("start reader: %w", err)
	}
	running, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.work.Go(func() { r.projector.run(running) })
	if err = r.projector.catchUp(ctx); err == nil {
		r.unbind, err = r.conn.ServeQueries(r.answer)
	}
	if err != nil {
		r.Stop()
		return nil, errors.Join(fmt.Errorf("start reader: %w", err), r.store.Degraded())
	}
	return r, nil
}

// newReader makes a reader that nothing runs for yet.
func newReader(ctx context.Context, o ReaderOptions) (*Reader, error) {
	if o.Models == nil {
		o.Models = new(llm.Catalog)
	}
	p, err := newProjector(ctx, o.Conn, o.Trace, o.Log)
	if err != nil {
		return nil, err
	}
	return &Reader{conn: o.Conn, store: o.Trace, models: o.Models, prices: o.Prices, projector: p}, nil
}

// Stop ends the reader, and waits until nothing of it runs.
func (r *Reader) Stop() {
	if r.unbind != nil {
		r.unbind()
	}
	r.cancel()
	r.work.Wait()
}
