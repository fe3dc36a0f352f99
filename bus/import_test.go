package bus_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// A trace is stored under what it holds, read by its session alone, and dropped once.
func TestTraces(t *testing.T) {
	c := bustest.Single(t).Conn(t)
	ctx, ref := testContext(t), newSession()
	big := strings.Repeat("a line\n", 100_000)
	first, err := c.PutTrace(ctx, ref, strings.NewReader(big))
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.PutTrace(ctx, ref, strings.NewReader(big))
	if err != nil || again != first {
		t.Errorf("the same trace is %q, %v, was %q", again, err, first)
	}
	if other, err := c.PutTrace(ctx, ref, strings.NewReader("other")); err != nil || other == first {
		t.Errorf("another trace is %q, %v", other, err)
	}
	if got, err := c.ReadTrace(ctx, ref, first); err != nil || string(got) != big {
		t.Errorf("read %d bytes, %v, want %d", len(got), err, len(big))
	}
	if _, err := c.ReadTrace(ctx, newSession(), first); !errors.Is(err, bus.ErrBlobMissing) {
		t.Errorf("another session reads it: %v", err)
	}
	if err := c.DropTrace(ctx, newSession(), first, time.Time{}); err != nil {
		t.Error(err)
	}
	if err := c.DropTrace(ctx, ref, first, time.Now().Add(-time.Hour)); err != nil { // as if it had come behind that
		t.Error(err)
	}
	if _, err := c.ReadTrace(ctx, ref, first); err != nil {
		t.Errorf("one that has come since was dropped: %v", err)
	}
	for _, before := range []time.Time{time.Now().Add(time.Hour), {}} {
		if err := c.DropTrace(ctx, ref, first, before); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.ReadTrace(ctx, ref, first); !errors.Is(err, bus.ErrBlobMissing) {
		t.Errorf("read after it was dropped: %v", err)
	}
}

// failing is a trace that can't be imported from some line on.
type failing struct{ left int }

var errLine = errors.New("line 3 is bad")

func (f *failing) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, errLine
	}
	n := min(len(p), f.left)
	f.left -= n
	return n, nil
}

// Of a trace that is refused while it is being stored nothing stays, not even its pieces.
func TestRefusedTraceLeavesNothing(t *testing.T) {
	c := bustest.Single(t).Conn(t)
	ctx, ref := testContext(t), newSession()
	if _, err := c.PutTrace(ctx, ref, &failing{left: 1 << 20}); !errors.Is(err, errLine) {
		t.Fatalf("got %v", err)
	}
	s, err := c.JetStream().Stream(ctx, "OBJ_BLOBS")
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.Msgs; n != 0 {
		t.Errorf("%d messages are left of it", n)
	}
	if _, err := c.PutTrace(ctx, schemas.SessionRef{Project: "p", ID: "*"}, io.LimitReader(nil, 0)); !errors.Is(err, &schemas.Error{Code: schemas.CodeInvalid}) {
		t.Errorf("a session that is none: %v", err)
	}
}
