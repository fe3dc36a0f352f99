package bus_test

import (
	"fmt"
	"strings"
	"testing"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// A new owner reads through a node that was down while thousands of frames were stored and is
// still catching up. Any replica may answer a read; what counts is that none is missing.
func TestTakeoverThroughANodeThatLags(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a cluster takes seconds to start; left out with -short")
	}
	b := bustest.Cluster(t)
	c := b.Conn(t, 0)
	const rounds, frames = 3, 600
	for round := range rounds {
		ref := newSession()
		o := claim(t, c, ref, "a", bus.Claim{})
		filler := strings.Repeat("x", 8<<10)
		appendMessages(t, o, said("first"))
		b.Stop(2)
		for i := range frames {
			appendMessages(t, o, schemas.New(testNow, schemas.TextFragment(schemas.PhaseDelta, filler)), said("%d", i))
		}
		b.Start(t, 2)
		lagging := b.Conn(t, 2)
		next, err := lagging.Claim(testContext(t), ref, bus.ClaimRequest{Instance: "b", After: o.Claim()})
		if err != nil {
			t.Fatal(err)
		}
		got := replay(t, next, bus.Point{}, bus.LogAndLive)
		if len(got) != frames+1 {
			t.Fatalf("round %d: the new owner reads %d frames of %d", round, len(got), frames+1)
		}
		for i, f := range got[1:] {
			if f.AfterGap || words(f.Messages[1]) != fmt.Sprint(i) {
				t.Fatalf("round %d: frame %d holds %s, after a gap: %v", round, i, words(f.Messages[1]), f.AfterGap)
			}
		}
		ack := appendMessages(t, next, said("on"))
		all := readFrames(t, lagging, ref, bus.LogOnly) // a reader that owns nothing
		if len(all) != frames+2 || all[len(all)-1].Sequence != ack.Sequence || all[len(all)-1].Header.Prev != o.Last() {
			t.Errorf("round %d: read %d frames of %d, the last %+v", round, len(all), frames+2, all[len(all)-1].Header)
		}
	}
}

// Reading on from a point gives what follows it, and nothing twice.
func TestReplayFromAPoint(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		ref := newSession()
		o := claim(t, c, ref, "a", bus.Claim{})
		for i := range 6 {
			m := said("%d", i)
			if i%2 == 1 {
				m = delta("%d", i)
			}
			appendMessages(t, o, m)
		}
		o = claim(t, c, ref, "b", o.Claim())
		all := replay(t, o, bus.Point{}, bus.LogAndLive)
		for i, f := range all {
			rest := replay(t, o, f.Point(), bus.LogAndLive)
			if got, want := frameWords(rest), frameWords(all[i+1:]); got != want {
				t.Errorf("after %d: %q, want %q", i, got, want)
			}
			for _, r := range rest {
				if r.AfterGap {
					t.Errorf("after %d: a gap before %d", i, r.Sequence)
				}
			}
		}
		if got := frameWords(replay(t, o, all[1].Point(), bus.LogOnly)); got != "2 | 4" {
			t.Errorf("recorded after the second: %q", got)
		}
		middle := all[3].Sequence
		var got []bus.Frame
		for f, err := range c.ReadFrames(testContext(t), ref, all[0].Sequence, middle, bus.LogAndLive) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, f)
		}
		if frameWords(got) != frameWords(all[1:4]) {
			t.Errorf("a stretch reads %q", frameWords(got))
		}
	})
}

// Every frame carries the sequence of the last command with an outcome, and it never goes back.
func TestCursorInFrames(t *testing.T) {
	b := pool.Single(t)
	c := b.Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	for _, cursor := range []uint64{7, 0, 9} {
		if _, err := o.Append(testContext(t), []schemas.Message{said("x")}, cursor); err != nil {
			t.Fatal(err)
		}
	}
	next := claim(t, c, ref, "b", o.Claim())
	var got []uint64
	for _, f := range replay(t, next, bus.Point{}, bus.LogOnly) {
		got = append(got, f.Header.Cursor)
	}
	appendMessages(t, next, said("y"))
	frames := readFrames(t, c, ref, bus.LogOnly)
	got = append(got, frames[len(frames)-1].Header.Cursor)
	if fmt.Sprint(got) != "[7 7 9 9]" {
		t.Errorf("cursors %v", got)
	}
}

// What somebody else publishes on a session's subject is no frame: readers pass over it.
func TestForeignMessages(t *testing.T) {
	b := pool.Single(t)
	c := b.Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	f := follow(t, c, ref, bus.FollowOptions{Beginning: true})
	expectCaughtUp(t, f)
	appendMessages(t, o, said("one"))
	for _, kind := range []string{"log", "live"} {
		if _, err := c.JetStream().Publish(testContext(t), c.FrameSubject(ref, kind), []byte("foreign")); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.NATS().Publish(bus.FeedSubject(ref, "tail"), []byte("foreign")); err != nil {
		t.Fatal(err)
	}
	appendMessages(t, o, said("two"))
	expectWords(t, f, "one")
	expectWords(t, f, "two")
	if got := frameWords(readFrames(t, c, ref, bus.LogAndLive)); got != "one | two" {
		t.Errorf("read %q", got)
	}
}
