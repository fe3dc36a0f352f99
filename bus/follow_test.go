package bus_test

import (
	"context"
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

func follow(t testing.TB, c *bus.Conn, ref schemas.SessionRef, o bus.FollowOptions) *bus.Follower {
	t.Helper()
	f, err := c.Follow(testContext(t), ref, o)
	if err != nil {
		t.Fatalf("follow: %v", err)
	}
	t.Cleanup(f.Close)
	return f
}

func next(t testing.TB, f *bus.Follower) bus.Event {
	t.Helper()
	e, err := f.Next(testContext(t))
	if err != nil {
		t.Fatalf("next event: %v", err)
	}
	return e
}

// nextFrame expects a frame that holds messages; frames that hold none are passed over.
func nextFrame(t testing.TB, f *bus.Follower) bus.Frame {
	t.Helper()
	for {
		frame, ok := next(t, f).(bus.Frame)
		if !ok {
			t.Fatalf("got another event, want a frame")
		}
		if len(frame.Messages) > 0 {
			return frame
		}
	}
}

func expectWords(t testing.TB, f *bus.Follower, want string) bus.Frame {
	t.Helper()
	frame := nextFrame(t, f)
	if got := words(frame.Messages...); got != want {
		t.Fatalf("frame %d holds %q, want %q", frame.Sequence, got, want)
	}
	return frame
}

func expectCaughtUp(t testing.TB, f *bus.Follower) bus.CaughtUpEvent {
	t.Helper()
	e, ok := next(t, f).(bus.CaughtUpEvent)
	if !ok {
		t.Fatal("want to be caught up")
	}
	return e
}

func expectGap(t testing.TB, f *bus.Follower) bus.GapEvent {
	t.Helper()
	e, ok := next(t, f).(bus.GapEvent)
	if !ok {
		t.Fatal("want a gap")
	}
	return e
}

func expectResync(t testing.TB, f *bus.Follower) {
	t.Helper()
	for {
		switch e := next(t, f).(type) {
		case bus.ResyncEvent:
			if _, err := f.Next(testContext(t)); err != bus.ErrFollowerEnded {
				t.Errorf("after a resync: %v", err)
			}
			return
		case bus.CaughtUpEvent:
		default:
			t.Fatalf("got %T %+v, want a resync", e, e)
		}
	}
}

func cursor(c *bus.Conn, ref schemas.SessionRef, sequence uint64, line int) schemas.Cursor {
	return schemas.Cursor{Epoch: c.Epoch(ref), Position: schemas.Position{Sequence: sequence, Line: line}}
}

func TestFollow(t *testing.T) {
	bustest.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		t.Run("from the beginning", func(t *testing.T) {
			ref := newSession()
			o := claim(t, c, ref, "a", bus.Claim{})
			appendMessages(t, o, said("one"))
			appendMessages(t, o, delta("t"), said("two"))
			f := follow(t, c, ref, bus.FollowOptions{Beginning: true})
			expectWords(t, f, "one")
			expectWords(t, f, "~t two")
			expectCaughtUp(t, f)
			appendMessages(t, o, delta("three"))
			expectWords(t, f, "~three")
		})
		t.Run("from now, an empty session", func(t *testing.T) {
			ref := newSession()
			f := follow(t, c, ref, bus.FollowOptions{})
			expectCaughtUp(t, f)
			o := claim(t, c, ref, "a", bus.Claim{})
			appendMessages(t, o, said("one"))
			expectWords(t, f, "one")
		})
		t.Run("from now, amid a segment", func(t *testing.T) {
			ref := newSession()
			o := claim(t, c, ref, "a", bus.Claim{})
			appendMessages(t, o, schemas.New(testNow, schemas.TextFragment(schemas.PhaseStart, "")), delta("half"))
			f := follow(t, c, ref, bus.FollowOptions{})
			expectCaughtUp(t, f)
			appendMessages(t, o, delta("other half"))
			appendMessages(t, o, schemas.New(testNow, schemas.TextFragment(schemas.PhaseStop, "")), said("half other half"))
			appendMessages(t, o, schemas.New(testNow, schemas.TextFragment(schemas.PhaseStart, "")), delta("new"))
			if frame := expectWords(t, f, "half other half"); frame.Entries()[0].Position.Line != 1 {
				t.Errorf("the complete message is at %s", frame.Entries()[0].Position)
			}
			expectWords(t, f, "~ ~new")
		})
	})
}

// The id of an event is its place in the stream: several of one clock tick differ, and resuming
// after one gives the rest once.
func TestCase_C01_C02_CursorInsideAFrame(t *testing.T) {
	b := bustest.Single(t)
	c := b.Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	first := appendMessages(t, o, said("one"), said("two"), said("three"))
	f := follow(t, c, ref, bus.FollowOptions{After: cursor(c, ref, first.Sequence, 0)})
	frame := expectWords(t, f, "two three")
	if e := frame.Entries(); e[0].Position.Line != 1 || e[1].Position.Line != 2 {
		t.Errorf("positions %s and %s", e[0].Position, e[1].Position)
	}
	at := expectCaughtUp(t, f).Cursor
	appendMessages(t, o, said("four"))
	expectWords(t, f, "four")

	for _, after := range []schemas.Cursor{cursor(c, ref, first.Sequence, 2), at} {
		f = follow(t, c, ref, bus.FollowOptions{After: after})
		expectWords(t, f, "four") // nothing is replayed
		expectCaughtUp(t, f)
	}
}

func TestCase_C02_C03_CursorOfAnotherStream(t *testing.T) {
	t.Parallel()
	b := bustest.Single(t)
	c := b.Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	ack := appendMessages(t, o, said("one"))
	for name, after := range map[string]schemas.Cursor{
		"larger than the head": cursor(c, ref, ack.Sequence+57, 0),
		"of another epoch":     {Epoch: "older", Position: schemas.Position{Sequence: ack.Sequence}},
		"between frames":       cursor(c, ref, ack.Sequence-1, 0), // the claim's own sequence
	} {
		t.Run(name, func(t *testing.T) { expectResync(t, follow(t, c, ref, bus.FollowOptions{After: after})) })
	}
}

// Ids come from the log, not from a process: they go on after everything was restarted.
func TestCase_C03_CursorOutlivesRestart(t *testing.T) {
	b := bustest.Listening(t)
	ref := newSession()
	c := b.Conn(t)
	o := claim(t, c, ref, "a", bus.Claim{})
	ack := appendMessages(t, o, said("57"))
	last := o.Claim()
	b.Stop(0)
	b.Start(t, 0)
	c = b.Conn(t)
	o = claim(t, c, ref, "b", last)
	for _, s := range []string{"58", "59", "60"} {
		appendMessages(t, o, said("%s", s))
	}
	f := follow(t, c, ref, bus.FollowOptions{After: cursor(c, ref, ack.Sequence, 0)})
	for _, s := range []string{"58", "59", "60"} {
		expectWords(t, f, s)
	}
}

func TestFollowClose(t *testing.T) {
	b := bustest.Single(t)
	c := b.Conn(t)
	f := follow(t, c, newSession(), bus.FollowOptions{})
	expectCaughtUp(t, f)
	ended := make(chan error)
	go func() {
		_, err := f.Next(context.Background())
		ended <- err
	}()
	f.Close()
	f.Close()
	select {
	case err := <-ended:
		if err != bus.ErrFollowerEnded {
			t.Errorf("got %v", err)
		}
	case <-time.After(testTime):
		t.Fatal("Next did not return")
	}
}
