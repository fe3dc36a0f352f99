package bus_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// An owner that was stopped, and goes on after another has claimed, stores nothing any more.
func TestCase_B04_B26_OldOwnerIsFenced(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c, other := b.Conn(t), b.Conn(t)
		ref := newSession()
		a := claim(t, c, ref, "a", bus.Claim{})
		appendMessages(t, a, said("one"))
		next := claim(t, other, ref, "b", a.Claim())
		for name, stopped := range map[string]*bus.Owner{"recorded": a.Copy(), "live": a.Copy()} {
			m := said("late")
			if name == "live" {
				m = delta("late")
			}
			if _, err := stopped.Append(testContext(t), []schemas.Message{m}, 0); !errors.Is(err, bus.ErrFenced) {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := stopped.Append(testContext(t), nil, 0); !errors.Is(err, bus.ErrFenced) {
				t.Errorf("%s: a spent owner: %v", name, err)
			}
			if err := stopped.PublishTail(); !errors.Is(err, bus.ErrFenced) {
				t.Errorf("%s: tail of a spent owner: %v", name, err)
			}
		}
		if _, err := a.Copy().Confirm(testContext(t)); !errors.Is(err, bus.ErrFenced) {
			t.Errorf("confirm: %v", err)
		}
		if err := a.Release(testContext(t), bus.ClaimReleased); !errors.Is(err, bus.ErrFenced) {
			t.Errorf("release: %v", err)
		}
		appendMessages(t, next, said("two"))
		if got := frameWords(readFrames(t, c, ref, bus.LogAndLive)); got != "one | two" {
			t.Errorf("the session holds %q", got)
		}
		if got, _, err := c.LastClaim(testContext(t), ref); err != nil || got.Sequence != next.Fence() {
			t.Errorf("last claim %+v, %v", got, err)
		}
	})
}

// A frame whose acknowledgement was lost is stored once, whichever way the broker answers the
// retry, and the acknowledgement of a retry starts nothing.
func TestCase_B10_B11_RetryOfAStoredFrame(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		ref := newSession()
		o := claim(t, c, ref, "a", bus.Claim{})
		appendMessages(t, o, said("one"))
		unaware := o.Copy()
		first := appendMessages(t, o, said("two"))
		second := appendMessages(t, unaware, said("two"))
		if second.Sequence != first.Sequence || !second.Duplicate {
			t.Errorf("stored at %d, the retry says %+v", first.Sequence, second)
		}
		if second.Fresh(second.SentAt) {
			t.Error("the acknowledgement of a retry counts as fresh")
		}
		appendMessages(t, unaware, said("three"))
		if got := frameWords(readFrames(t, c, ref, bus.LogAndLive)); got != "one | two | three" {
			t.Errorf("the session holds %q", got)
		}
	})
}

// The same after another has claimed: one replica refuses the retry, three acknowledge it as a
// duplicate. Neither may start an effect, and the frame is stored once.
func TestCase_B11_RetryOfAStoredFrameAfterAClaim(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		ref := newSession()
		o := claim(t, c, ref, "a", bus.Claim{})
		unaware := o.Copy()
		first := appendMessages(t, o, said("one"))
		next := claim(t, c, ref, "b", o.Claim())
		ack, err := unaware.Append(testContext(t), []schemas.Message{said("one")}, 0)
		switch {
		case errors.Is(err, bus.ErrFenced):
		case err == nil && ack.Duplicate && ack.Sequence == first.Sequence && !ack.Fresh(time.Now()):
			if _, err := unaware.Confirm(testContext(t)); !errors.Is(err, bus.ErrFenced) {
				t.Errorf("confirm after a duplicate: %v", err)
			}
		default:
			t.Errorf("the retry: %+v %v", ack, err)
		}
		appendMessages(t, next, said("two"))
		if got := frameWords(readFrames(t, c, ref, bus.LogAndLive)); got != "one | two" {
			t.Errorf("the session holds %q", got)
		}
	})
}

// Past the time the broker remembers message ids, a frame is looked for before it is sent again.
func TestCase_B10_ReadBack(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		ref := newSession()
		o := claim(t, c, ref, "a", bus.Claim{})
		appendMessages(t, o, said("one"))
		unaware := o.Copy()
		if ack, found, err := unaware.ReadBack(testContext(t), []schemas.Message{said("two")}); found || err != nil {
			t.Errorf("before it is stored: %+v %v %v", ack, found, err)
		}
		first := appendMessages(t, o, said("two"))
		ack, found, err := unaware.ReadBack(testContext(t), []schemas.Message{said("two")})
		if !found || err != nil || ack.Sequence != first.Sequence || !ack.Duplicate {
			t.Errorf("after: %+v %v %v", ack, found, err)
		}
	})
}

// The broker knows message ids by stream, not by subject: frames of two sessions with the same
// number must not meet.
func TestCase_B09_EqualNumbersInTwoSessions(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		seen := map[string]bool{}
		for range 6 {
			ref := newSession()
			o := claim(t, c, ref, "a", bus.Claim{})
			appendMessages(t, o, said("one")) // it may be a duplicate of its own first try
			frames := readFrames(t, c, ref, bus.LogAndLive)
			if len(frames) != 1 || seen[frames[0].ID] {
				t.Fatalf("%s: %d frames, ids %v", ref, len(frames), seen)
			}
			seen[frames[0].ID] = true
		}
	})
}

// A session whose claim is gone takes no frame: whatever removed it, nobody owns the session.
func TestAppendWithoutAClaim(t *testing.T) {
	t.Parallel()
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		ref := newSession()
		o := claim(t, c, ref, "a", bus.Claim{})
		appendMessages(t, o, said("one"))
		s, err := c.JetStream().Stream(testContext(t), c.SessionsStream(ref))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.DeleteMsg(testContext(t), o.Fence()); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Append(testContext(t), []schemas.Message{said("two")}, 0); !errors.Is(err, bus.ErrFenced) {
			t.Errorf("append: %v", err)
		}
		// A claimer that still has the old claim in mind is told that it is gone.
		var lost *bus.ClaimLostError
		if _, err := c.Claim(testContext(t), ref, bus.ClaimRequest{Instance: "b", After: o.Claim()}); !errors.As(err, &lost) || lost.Winner.Sequence != 0 {
			t.Errorf("claim over it: %v", err)
		}
		next := claim(t, c, ref, "b", bus.Claim{})
		if got := frameWords(replay(t, next, bus.Point{}, bus.LogAndLive)); got != "one" {
			t.Errorf("the next owner reads %q", got)
		}
	})
}

// A takeover reads what stood in the log when it claimed: the old owner can't add to it. A replica that
// has the newer claim says so.
func TestEndsOfASupersededClaim(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		ref := newSession()
		a := claim(t, c, ref, "a", bus.Claim{})
		claim(t, c, ref, "b", a.Claim())
		eventually(t, "a replica that is asked has the newer claim", func() bool {
			_, err := a.Copy().Ends(testContext(t))
			if err != nil && !errors.Is(err, bus.ErrFenced) {
				t.Fatalf("ends: %v", err)
			}
			return err != nil
		})
	})
}

// No part of Braid subscribes to the subjects of a stream: then a change of leader shows as "no
// responders" at once, and the feed is all that watchers see, so refused frames reach none.
func TestCase_B24_RefusedFramesReachNoWatcher(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		ref := newSession()
		heard := make(chan *nats.Msg, 10)
		sub, err := c.NATS().ChanSubscribe(bus.FeedSubject(ref, "*"), heard)
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Unsubscribe()
		if err := c.NATS().Flush(); err != nil {
			t.Fatal(err)
		}
		a := claim(t, c, ref, "a", bus.Claim{})
		appendMessages(t, a, said("one"))
		next := claim(t, c, ref, "b", a.Claim())
		if _, err := a.Append(testContext(t), []schemas.Message{said("refused")}, 0); !errors.Is(err, bus.ErrFenced) {
			t.Fatal(err)
		}
		appendMessages(t, next, said("two"))
		for _, want := range []string{"one", "two"} {
			m := receive(t, heard)
			got, err := schemas.Decode(m.Data)
			if err != nil || words(got) != want {
				t.Errorf("heard %q %v, want %q", m.Data, err, want)
			}
		}
	})
}
