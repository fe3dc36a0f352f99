package bus_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// The feed loses frames in the middle: the next one shows it, whichever subject it is on.
func TestFollowFillsGaps(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		ref := newSession()
		o := claim(t, c, ref, "a", bus.Claim{})
		f := follow(t, c, ref, bus.FollowOptions{CheckEvery: time.Hour})
		expectCaughtUp(t, f)
		appendMessages(t, o, said("one"))
		expectWords(t, f, "one")
		f.Deafen()
		appendMessages(t, o, said("two"))
		appendMessages(t, o, said("three"))
		if err := f.Hear(); err != nil {
			t.Fatal(err)
		}
		appendMessages(t, o, schemas.New(testNow, schemas.TextFragment(schemas.PhaseStart, "")))
		expectWords(t, f, "two")
		expectWords(t, f, "three")
		expectWords(t, f, "~")
		f.Deafen() // over a change of owners
		appendMessages(t, o, said("four"))
		o = claim(t, c, ref, "b", o.Claim())
		appendMessages(t, o, said("five"))
		if err := f.Hear(); err != nil {
			t.Fatal(err)
		}
		appendMessages(t, o, said("six"))
		for _, want := range []string{"four", "five", "six"} {
			expectWords(t, f, want)
		}
	})
}

// The feed loses the session's last frames: the tail mark shows it, or the follower's own look.
func TestFollowFindsALostTail(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		ref := newSession()
		o := claim(t, c, ref, "a", bus.Claim{})
		marked := follow(t, c, ref, bus.FollowOptions{CheckEvery: time.Hour})
		looking := follow(t, c, ref, bus.FollowOptions{CheckEvery: 20 * time.Millisecond})
		expectCaughtUp(t, marked)
		expectCaughtUp(t, looking)
		marked.Deafen()
		looking.Deafen()
		appendMessages(t, o, said("one"))
		appendMessages(t, o, schemas.New(testNow, schemas.TextFragment(schemas.PhaseStart, "last")))
		if err := marked.Hear(); err != nil {
			t.Fatal(err)
		}
		if err := o.PublishTail(); err != nil {
			t.Fatal(err)
		}
		for _, f := range []*bus.Follower{marked, looking} {
			expectWords(t, f, "one")
			expectWords(t, f, "~last")
		}
	})
}

// A reader that is slow makes the feed drop frames. It gets them all from the stream, in order,
// and meanwhile no more waits for it than its options allow.
func TestCase_B02_SlowFollower(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c, writer := b.Conn(t), b.Conn(t)
		ref := newSession()
		o := claim(t, writer, ref, "a", bus.Claim{})
		f := follow(t, c, ref, bus.FollowOptions{PendingMessages: 8, CheckEvery: time.Hour})
		expectCaughtUp(t, f)
		const frames = 400
		for i := range frames {
			appendMessages(t, o, said("%d", i))
		}
		for i := range frames {
			expectWords(t, f, fmt.Sprint(i))
		}
		appendMessages(t, o, said("on"))
		expectWords(t, f, "on")
	})
}

// shortLived is a broker whose live frames expire after a second.
func shortLived(t *testing.T) *bus.Conn {
	b := bustest.Custom(t, bus.ServerOptions{}, bus.Topology{LiveTTL: time.Second})
	return b.Connect(t, bus.Options{Topology: bus.Topology{LiveTTL: time.Second}})
}

// awaitExpiry waits until a session holds that many frames.
func awaitExpiry(t testing.TB, c *bus.Conn, ref schemas.SessionRef, left int) {
	t.Helper()
	for len(readFrames(t, c, ref, bus.LogAndLive)) > left {
		select {
		case <-testContext(t).Done():
			t.Fatal("nothing expires")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Live frames expire. Readers that come later are told, get what is recorded, and no fragment
// without its beginning; a cursor in the stretch is refused.
func TestCase_C04_ExpiredFrames(t *testing.T) {
	t.Parallel()
	c := shortLived(t)
	ref := newSession()
	start := schemas.New(testNow, schemas.TextFragment(schemas.PhaseStart, ""))
	stop := schemas.New(testNow, schemas.TextFragment(schemas.PhaseStop, ""))
	o := claim(t, c, ref, "a", bus.Claim{})
	early := appendMessages(t, o, said("one"))
	watching := follow(t, c, ref, bus.FollowOptions{Beginning: true, CheckEvery: 20 * time.Millisecond})
	expectWords(t, watching, "one")
	expectCaughtUp(t, watching)
	lost := appendMessages(t, o, start, delta("gone"))
	expectWords(t, watching, "~ ~gone")
	appendMessages(t, o, delta("too"), stop, said("gone too"))
	expectWords(t, watching, "~too ~ gone too")
	last := appendMessages(t, o, start) // the last frame is live and expires as well
	expectWords(t, watching, "~")
	awaitExpiry(t, c, ref, 2)

	f := follow(t, c, ref, bus.FollowOptions{Beginning: true})
	expectWords(t, f, "one")
	if gap := expectGap(t, f); gap.After != early.Sequence {
		t.Errorf("gap %+v", gap)
	}
	expectWords(t, f, "gone too")
	expectCaughtUp(t, f)
	for _, sequence := range []uint64{lost.Sequence, last.Sequence} {
		expectResync(t, follow(t, c, ref, bus.FollowOptions{After: cursor(c, ref, sequence, 0)}))
	}
	resumed := follow(t, c, ref, bus.FollowOptions{After: cursor(c, ref, early.Sequence, 0)})
	expectGap(t, resumed) // said, not skipped
	expectWords(t, resumed, "gone too")

	// A new owner finds the last live frame expired: its first frame names the one before, below
	// what the watcher has seen.
	next := claim(t, c, ref, "b", o.Claim())
	frames := replay(t, next, bus.Point{}, bus.LogAndLive)
	if got := frameWords(frames); got != "one | ~too ~ gone too" || !frames[1].AfterGap || frames[0].AfterGap {
		t.Errorf("the next owner reads %q, %v", got, frames)
	}
	if got := frameWords(replay(t, next, bus.Point{}, bus.LogOnly)); got != "one | ~too ~ gone too" {
		t.Errorf("the next owner reads %q", got)
	}
	appendMessages(t, next, said("on"))
	expectGap(t, watching)
	expectWords(t, watching, "on")
	expectWords(t, f, "on")
}

// A frame is lost by the feed and has expired by the time it is missed.
func TestFollowHoleThatCannotBeFilled(t *testing.T) {
	t.Parallel()
	c := shortLived(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	f := follow(t, c, ref, bus.FollowOptions{CheckEvery: time.Hour})
	expectCaughtUp(t, f)
	appendMessages(t, o, said("one"))
	expectWords(t, f, "one")
	f.Deafen()
	lost := appendMessages(t, o, schemas.New(testNow, schemas.TextFragment(schemas.PhaseStart, "")))
	awaitExpiry(t, c, ref, 1)
	if err := f.Hear(); err != nil {
		t.Fatal(err)
	}
	if err := o.PublishTail(); err != nil { // of a frame that is nowhere any more
		t.Fatal(err)
	}
	appendMessages(t, o, delta("orphan"), said("two"))
	if gap := expectGap(t, f); gap.Before <= lost.Sequence {
		t.Errorf("gap %+v, lost %d", gap, lost.Sequence)
	}
	expectWords(t, f, "two")
	if got := c.Stats().GapsLost; got != 1 {
		t.Errorf("%d lost gaps are counted", got)
	}
	appendMessages(t, o, schemas.New(testNow, schemas.TextFragment(schemas.PhaseStart, "")), delta("new"))
	expectWords(t, f, "~ ~new")
}

// Whatever happens to feed and owners, what a follower delivers is what the stream holds.
func TestFollowerSeesTheStream(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c, writer := b.Conn(t), b.Conn(t)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		ref := newSession()
		o := claim(t, writer, ref, "a", bus.Claim{})
		f := follow(t, c, ref, bus.FollowOptions{Beginning: true, PendingMessages: 4, CheckEvery: 50 * time.Millisecond})
		var seen []bus.Frame
		take := func() {
			if frame, ok := next(t, f).(bus.Frame); ok {
				seen = append(seen, frame)
			}
		}
		deaf := false
		for i := range 300 {
			switch random.IntN(20) {
			case 0:
				o = claim(t, writer, ref, fmt.Sprintf("e%d", i), o.Claim())
			case 1:
				if deaf {
					if err := f.Hear(); err != nil {
						t.Fatal(err)
					}
				} else {
					f.Deafen()
				}
				deaf = !deaf
			case 2:
				take()
			}
			m := said("%d", i)
			if random.IntN(2) == 0 {
				m = schemas.New(testNow, schemas.TextFragment(schemas.PhaseStart, fmt.Sprint(i)))
			}
			appendMessages(t, o, m)
		}
		if deaf {
			if err := f.Hear(); err != nil {
				t.Fatal(err)
			}
		}
		want := readFrames(t, c, ref, bus.LogAndLive)
		for len(seen) < len(want) {
			take()
		}
		same := slices.EqualFunc(seen, want, func(a, b bus.Frame) bool {
			return a.Sequence == b.Sequence && words(a.Messages...) == words(b.Messages...)
		})
		if !same {
			t.Errorf("followed\n%s\nthe stream holds\n%s", frameWords(seen), frameWords(want))
		}
	})
}
