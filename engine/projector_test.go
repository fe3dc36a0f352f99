package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"braid/bus/bustest"
	"braid/schemas"
	"braid/trace"
)

// Who wants a current list waits for whatever was stored when it was asked for, be it a claim that no trace
// keeps; and is told if that can't be awaited.
func TestProjectorIsAwaited(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), nil)
	store, err := trace.Open(t.TempDir(), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	p, err := newProjector(t.Context(), h.conn, store, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	h.takes("nobody", 0)
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := p.awaitNow(short); !errors.Is(err, &schemas.Error{Code: schemas.CodeUnavailable}) {
		t.Errorf("a trace that nobody writes has all: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	if err := p.awaitNow(t.Context()); err != nil {
		t.Error(err)
	}
}
