package bus_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// swept is what there is to sweep in one session: blobs that something refers to, and others.
type swept struct {
	c             *bus.Conn
	ref           schemas.SessionRef
	kept, dropped []string
}

// newSwept stores blobs of every kind, one that is needed and one that is not.
func newSwept(t *testing.T, c *bus.Conn) *swept {
	t.Helper()
	ctx := testContext(t)
	s := &swept{c: c, ref: newSession()}
	o := claim(t, c, s.ref, "a", bus.Claim{})
	appendMessages(t, o, said("%s", strings.Repeat("x", 2<<20)))
	s.keep(t) // of a frame
	send(t, c, pictures(s.ref, "c", 1, 3<<20))
	s.keep(t) // of a command
	steer := pictures(s.ref, "steer", 1, 3<<20)
	steer.Type = schemas.CommandSteer
	send(t, c, steer)
	s.keep(t) // of a command on the other lane
	for _, text := range []string{"wanted", "forgotten"} {
		name, err := c.PutTrace(ctx, s.ref, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if text == "wanted" {
			send(t, c, schemas.Command{ID: "i", Type: schemas.CommandImport, Session: s.ref, Import: &schemas.ImportBody{Trace: name}})
			s.kept = append(s.kept, name)
		} else {
			s.dropped = append(s.dropped, name)
		}
	}
	names := "p/" + s.ref.ID + "/"
	s.put(t, &s.dropped, strings.Replace(s.kept[0], ".1.", ".2.", 1)) // of a frame that was never stored
	s.put(t, &s.dropped, names+"command.c.0000", names+"body.call.0000")
	s.put(t, &s.kept, names+"another.kind")
	return s
}

// keep notes the blobs that were stored last as needed.
func (s *swept) keep(t *testing.T) {
	t.Helper()
	s.kept = s.left(t)
}

func (s *swept) put(t *testing.T, into *[]string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := s.c.PutBlob(testContext(t), name, []byte("data")); err != nil {
			t.Fatal(err)
		}
		*into = append(*into, name)
	}
}

func (s *swept) left(t *testing.T) []string {
	t.Helper()
	names, err := s.c.BlobNames(testContext(t), s.ref)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// tomorrow is what the clock of a sweep says when all there is has become old enough.
func tomorrow() time.Time { return time.Now().Add(time.Hour) }

func TestSweepBlobs(t *testing.T) {
	c := bustest.Single(t).Conn(t) // a broker of its own: the sweep sees every blob
	s := newSwept(t, c)
	ctx := testContext(t)
	all := s.left(t)
	if got, err := c.SweepBlobs(ctx, bus.Sweep{Before: time.Now().Add(-time.Hour)}); got != (bus.Swept{}) || err != nil {
		t.Errorf("of young blobs: %+v, %v", got, err)
	}
	if left := s.left(t); !slices.Equal(left, all) {
		t.Errorf("young blobs: left %v, want %v", left, all)
	}
	if got, err := c.SweepBlobs(ctx, bus.Sweep{Before: tomorrow()}); got != (bus.Swept{Removed: len(s.dropped)}) || err != nil {
		t.Errorf("of old ones: %+v, %v, want %d removed", got, err, len(s.dropped))
	}
	slices.Sort(s.kept)
	if left := s.left(t); !slices.Equal(left, s.kept) {
		t.Errorf("left %v, want %v", left, s.kept)
	}
	if got := readFrames(t, c, s.ref, bus.LogOnly); len(got) != 1 || len(got[0].Lost) != 0 {
		t.Error("the sweep took the blob of a frame")
	}
	if got, err := c.ReadCommands(ctx, s.ref, 0, 0); err != nil || len(got) != 3 || slices.ContainsFunc(got, func(c bus.StoredCommand) bool { return c.Invalid != nil }) {
		t.Errorf("the sweep took the body of a command: %+v, %v", got, err)
	}
}

// What kept a blob goes: a sweep takes it when its command has expired.
func TestSweepBodiesOfExpiredCommands(t *testing.T) {
	c := bustest.Single(t).Conn(t)
	ctx, ref := testContext(t), newSession()
	send(t, c, pictures(ref, "c", 1, 3<<20))
	commands, err := c.JetStream().Stream(ctx, "COMMANDS")
	if err != nil {
		t.Fatal(err)
	}
	if err := commands.Purge(ctx); err != nil {
		t.Fatal(err)
	}
	if got, err := c.SweepBlobs(ctx, bus.Sweep{Before: tomorrow()}); got.Removed != 1 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// A pass looks at so many blobs, and the next one goes on behind it; the end is followed by the
// beginning.
func TestSweepInPasses(t *testing.T) {
	c := bustest.Single(t).Conn(t)
	s := newSwept(t, c)
	ctx := testContext(t)
	removed, passes := 0, 0
	for after := ""; passes == 0 || after != ""; passes++ {
		got, err := c.SweepBlobs(ctx, bus.Sweep{Before: tomorrow(), After: after, Most: 2})
		if err != nil {
			t.Fatal(err)
		}
		removed, after = removed+got.Removed, got.Next
	}
	if n := len(s.kept) + len(s.dropped); removed != len(s.dropped) || passes != (n+1)/2 {
		t.Errorf("removed %d in %d passes, want %d of %d", removed, passes, len(s.dropped), n)
	}
	if got, err := c.SweepBlobs(ctx, bus.Sweep{Before: tomorrow()}); got != (bus.Swept{}) || err != nil {
		t.Errorf("once more: %+v, %v", got, err)
	}
}

// Several engines may sweep at once: together they remove what one would.
func TestSweepTogether(t *testing.T) {
	b := bustest.Single(t)
	s := newSwept(t, b.Conn(t))
	ctx := testContext(t)
	errs := make(chan error)
	const engines = 3
	for range engines {
		c := b.Conn(t)
		go func() {
			_, err := c.SweepBlobs(ctx, bus.Sweep{Before: tomorrow()})
			errs <- err
		}()
	}
	for range engines {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	slices.Sort(s.kept)
	if left := s.left(t); !slices.Equal(left, s.kept) {
		t.Errorf("left %v, want %v", left, s.kept)
	}
}

// stopping is a trace whose sender is lost in the middle of it: nobody tidies up.
type stopping struct {
	left int
	stop context.CancelFunc
}

func (s *stopping) Read(p []byte) (int, error) {
	if s.left == 0 {
		s.stop()
		return 0, context.Canceled
	}
	n := min(len(p), s.left)
	s.left -= n
	return n, nil
}

// Pieces of a blob that was never completed, and the mark of one whose deletion was interrupted,
// are nobody's.
func TestSweepPieces(t *testing.T) {
	b := bustest.Single(t)
	c, lost := b.Conn(t), b.Conn(t)
	ctx, ref := testContext(t), newSession()
	if _, err := lost.PutTrace(ctx, ref, &stopping{left: 300 << 10, stop: lost.Close}); err == nil {
		t.Fatal("a trace was stored that did not end")
	}
	if err := c.PutBlob(ctx, "p/"+ref.ID+"/1.1.0", []byte("data")); err != nil {
		t.Fatal(err)
	}
	blobs, err := c.JetStream().ObjectStore(ctx, "BLOBS")
	if err != nil {
		t.Fatal(err)
	}
	if err := blobs.Delete(ctx, "p/"+ref.ID+"/1.1.0"); err != nil {
		t.Fatal(err)
	}
	messages := func() uint64 {
		t.Helper()
		s, err := c.JetStream().Stream(ctx, "OBJ_BLOBS")
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().State.Msgs
	}
	if n := messages(); n != 3 {
		t.Fatalf("%d messages, want two pieces and a mark", n)
	}
	if got, err := c.SweepBlobs(ctx, bus.Sweep{Before: time.Now().Add(-time.Hour)}); got != (bus.Swept{}) || err != nil || messages() != 3 {
		t.Errorf("young ones: %+v, %v, %d messages", got, err, messages())
	}
	if got, err := c.SweepBlobs(ctx, bus.Sweep{Before: tomorrow()}); got.Removed != 2 || err != nil || messages() != 0 {
		t.Errorf("%+v, %v, %d messages are left", got, err, messages())
	}
}
