package bus_test

import (
	"testing"

	"braid/bus"
	"braid/bus/bustest"
)

// A follower without a cursor delivers what is stored after it was opened, however late its
// first Next comes.
func TestFollowFromNowBeginsWhenItIsOpened(t *testing.T) {
	b := bustest.Single(t)
	c := b.Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	f := follow(t, c, ref, bus.FollowOptions{})
	appendMessages(t, o, said("first"))
	expectCaughtUp(t, f)
	expectWords(t, f, "first")
}
