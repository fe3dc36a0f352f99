package bus_test

import (
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// What a connection counts: nothing while all goes well, and each thing that does not.
func TestStats(t *testing.T) {
	t.Parallel()
	b := bustest.Listening(t)
	c := b.Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	f := follow(t, c, ref, bus.FollowOptions{CheckEvery: time.Hour})
	expectCaughtUp(t, f)
	for _, s := range []string{"one", "two"} {
		appendMessages(t, o, said("%s", s))
		expectWords(t, f, s)
	}
	if got, want := c.Stats(), (bus.Stats{Connected: true}); got != want {
		t.Errorf("all is well: %+v", got)
	}
	f.Deafen()
	appendMessages(t, o, said("three"))
	if err := f.Hear(); err != nil {
		t.Fatal(err)
	}
	appendMessages(t, o, said("four"))
	expectWords(t, f, "three")
	expectWords(t, f, "four")
	expectResync(t, follow(t, c, ref, bus.FollowOptions{After: schemas.Cursor{Epoch: "older", Position: schemas.Position{Sequence: 1}}}))
	if got, want := c.Stats(), (bus.Stats{Connected: true, GapsMended: 1, Resyncs: 1}); got != want {
		t.Errorf("one frame was lost, and one cursor of no use: %+v", got)
	}
	b.Stop(0)
	b.Start(t, 0)
	for c.Stats().Reconnects == 0 {
		select {
		case <-testContext(t).Done():
			t.Fatal("the broker is never reached again")
		case <-time.After(20 * time.Millisecond):
		}
	}
}
