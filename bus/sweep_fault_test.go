package bus_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// A blob whose description can't be read is left alone, keeps no other from being swept, and goes with
// its session.
func TestSweepPastABadDescription(t *testing.T) {
	t.Parallel()
	c := bustest.Single(t).Conn(t)
	ctx := testContext(t)
	s := newSwept(t, c)
	bad := "p/" + s.ref.ID + "/1.1.9"
	if err := c.PutBlob(ctx, bad, []byte("data")); err != nil {
		t.Fatal(err)
	}
	describe(t, c, bad, func([]byte) []byte { return []byte("no JSON") })
	got, err := c.SweepBlobs(ctx, bus.Sweep{Before: tomorrow()})
	if want := len(s.dropped) + 1; got.Removed != want || got.Next != "" || err != nil { // and its pieces
		t.Errorf("%+v, %v, want %d removed", got, err, want)
	}
	if err := c.DeleteSession(ctx, s.ref, "a"); err != nil {
		t.Fatal(err)
	}
	if left := s.left(t); len(left) != 0 {
		t.Errorf("the session left %v", left)
	}
}

// A pass that comes to nothing is not the end of the blobs: the next one goes on where it should have.
func TestSweepGoesOnAfterAnError(t *testing.T) {
	t.Parallel()
	b := bustest.Single(t)
	c := b.Conn(t)
	newSwept(t, c)
	restore, err := b.Nodes[0].Divert("$JS.API.STREAM.INFO.OBJ_BLOBS", "nobody", 100)
	if err != nil {
		t.Fatal(err)
	}
	defer restore()
	ctx, cancel := context.WithTimeout(testContext(t), 300*time.Millisecond)
	defer cancel()
	if got, err := c.SweepBlobs(ctx, bus.Sweep{Before: tomorrow(), After: "p/x"}); got.Next != "p/x" || err == nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// A pass in the midst of the blobs reads no more descriptions than it looks at blobs.
func TestSweepReadsWhatItLooksAt(t *testing.T) {
	t.Parallel()
	c := bustest.Single(t).Conn(t)
	newSwept(t, c)
	reads, err := c.NATS().SubscribeSync("$JS.API.STREAM.MSG.GET.OBJ_BLOBS")
	if err != nil {
		t.Fatal(err)
	}
	defer reads.Unsubscribe()
	waiting := func() int {
		n, _, err := reads.Pending()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	pass := func(after string) int {
		before := waiting()
		if _, err := c.SweepBlobs(testContext(t), bus.Sweep{After: after, Most: 2}); err != nil {
			t.Fatal(err)
		}
		if err := c.NATS().Flush(); err != nil {
			t.Fatal(err)
		}
		return waiting() - before
	}
	if n := pass("p/"); n != 2 {
		t.Errorf("%d descriptions are read for two blobs", n)
	}
	if n := pass(""); n <= 2 {
		t.Errorf("at the beginning %d are read, not all", n)
	}
}

// A trace that is sent again is as young as one that is new: neither a sweep that comes later takes it
// for forgotten, nor one that had judged it before.
func TestSweepLeavesATraceThatIsSentAgain(t *testing.T) {
	t.Parallel()
	c := bustest.Single(t).Conn(t)
	ctx, ref := testContext(t), newSession()
	name, pieces := largeTrace(t, c, ref)
	_, removeOld, err := c.Described(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := blobStream(t, c).GetLastMsgForSubject(ctx, bus.Description(name))
	if err != nil {
		t.Fatal(err)
	}
	if again, now := largeTrace(t, c, ref); again != name || now != pieces {
		t.Errorf("sent again it is %q at %s, was %q at %s", again, now, name, pieces)
	}
	if err := removeOld(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.SweepBlobs(ctx, bus.Sweep{Before: m.Time.Add(time.Nanosecond)}); got.Removed != 0 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := c.ReadTrace(ctx, ref, name); err != nil {
		t.Errorf("it is gone: %v", err)
	}
	if n := blobStream(t, c).CachedInfo().State.Msgs; n != 4 {
		t.Errorf("%d messages are stored, want three pieces and a description", n)
	}
}

// What a pass has learnt of a session's commands for one trace says nothing about another one.
func TestSweepJudgesEachTrace(t *testing.T) {
	t.Parallel()
	c := bustest.Single(t).Conn(t)
	ctx, ref := testContext(t), newSession()
	first, err := c.PutTrace(ctx, ref, strings.NewReader("one"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.PutTrace(ctx, ref, strings.NewReader("two"))
	if err != nil {
		t.Fatal(err)
	}
	inUse := c.SweepOf(ctx)
	if used, err := inUse(first); used || err != nil {
		t.Errorf("the first: %v, %v", used, err)
	}
	send(t, c, schemas.Command{ID: "i", Type: schemas.CommandImport, Session: ref, Import: &schemas.ImportBody{Trace: second}})
	if used, err := inUse(second); !used || err != nil {
		t.Errorf("the second: %v, %v", used, err)
	}
}
