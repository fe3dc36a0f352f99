package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
)

// A trace that was stored for a command that never came is removed by whichever engine's turn it is.
func TestEnginesSweepBlobs(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), nil)
	name, err := h.conn.PutTrace(context.Background(), ref, strings.NewReader("a trace"))
	if err != nil {
		t.Fatal(err)
	}
	often := func(o *Options) { o.Timing.Sweep, o.Timing.Orphan = 20*time.Millisecond, time.Millisecond }
	h.engine("e1", often)
	h.engine("e2", often)
	h.eventually("the trace is still there", func() bool {
		_, err := h.conn.ReadTrace(context.Background(), ref, name)
		return errors.Is(err, bus.ErrBlobMissing)
	})
}
