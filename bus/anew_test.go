package bus_test

import (
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
)

// A stream that is made anew holds frames behind the place of a follower that has heard none of them.
// They are not what it has missed.
func TestCase_C03_StreamMadeAnewUnheard(t *testing.T) {
	t.Parallel()
	b := bustest.Single(t)
	c := b.Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	f := follow(t, c, ref, bus.FollowOptions{Beginning: true, CheckEvery: 10 * time.Millisecond})
	expectCaughtUp(t, f)
	appendMessages(t, o, said("one"))
	expectWords(t, f, "one")
	f.Deafen()
	if err := c.JetStream().DeleteStream(testContext(t), c.SessionsStream(ref)); err != nil {
		t.Fatal(err)
	}
	other := b.Conn(t) // makes it
	next := claim(t, other, ref, "b", bus.Claim{})
	for range 5 {
		appendMessages(t, next, said("other"))
	}
	if err := f.Hear(); err != nil {
		t.Fatal(err)
	}
	expectResync(t, f)
}
