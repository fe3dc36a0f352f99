package bus_test

import (
	"slices"
	"strings"
	"testing"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// Messages over the broker's limit are stored whole, at their place, and every reader gets them;
// the connection stays up.
func TestCase_B01_MessageOverTheLimit(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		ref := newSession()
		o := claim(t, c, ref, "a", bus.Claim{})
		f := follow(t, c, ref, bus.FollowOptions{})
		expectCaughtUp(t, f)
		k := collect(t, c, c.Shard(ref), 1)
		big := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB, the limit itself
		appendMessages(t, o, said("before"), said("%s", big), said("after"))
		half := big[:600<<10]
		appendMessages(t, o, said("%s", half), said("%s", half), said("%s", half)) // together over it
		want := strings.Join([]string{"before " + big + " after", half + " " + half + " " + half}, " | ")

		if got := frameWords(readFrames(t, c, ref, bus.LogAndLive)); got != want {
			t.Errorf("read %d bytes, want %d", len(got), len(want))
		}
		first := nextFrame(t, f)
		if got := frameWords([]bus.Frame{first, nextFrame(t, f)}); got != want {
			t.Errorf("followed %d bytes, want %d", len(got), len(want))
		}
		if e := first.Entries(); e[2].Position.Line != 2 {
			t.Errorf("the third message is at %s", e[2].Position)
		}
		if got := recordWords(k.await(t, ref, count(2))); got != want {
			t.Errorf("handed over %d bytes, want %d", len(got), len(want))
		}
		next := claim(t, c, ref, "b", o.Claim())
		if got := frameWords(replay(t, next, bus.Point{}, bus.LogOnly)); got != want {
			t.Errorf("replayed %d bytes, want %d", len(got), len(want))
		}
		names, err := c.BlobNames(testContext(t), ref)
		if err != nil || len(names) != 3 { // one of the first frame, two of three of the second
			t.Errorf("blobs %v, %v", names, err)
		}
		if err := c.DeleteSession(testContext(t), ref, "gateway"); err != nil {
			t.Fatal(err)
		}
		if names, err := c.BlobNames(testContext(t), ref); err != nil || len(names) != 0 {
			t.Errorf("after the session was deleted: blobs %v, %v", names, err)
		}
	})
}

// A frame of exactly the largest size passes without a blob: what a Batch takes, Append stores.
func TestLargestFrame(t *testing.T) {
	b := pool.Single(t)
	c := b.Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	var batch bus.Batch
	text := strings.Repeat("x\"\n世", 400_000)
	if _, err := batch.Add(delta("%s", text)); err != nil {
		t.Fatal(err)
	}
	for !batch.Empty() {
		messages, _ := batch.Take(c.MaxFrame())
		appendMessages(t, o, messages...)
	}
	got := ""
	for _, f := range readFrames(t, c, ref, bus.LogAndLive) {
		for _, m := range f.Messages {
			got += m.Payload.(*schemas.PartialText).Text
		}
	}
	if got != text {
		t.Errorf("%d bytes came back of %d", len(got), len(text))
	}
	if names, err := c.BlobNames(testContext(t), ref); err != nil || len(names) != 0 {
		t.Errorf("blobs %v, %v", names, err)
	}
}

// A blob that is gone costs its message, not the session: readers go on, and can tell.
func TestLostBlob(t *testing.T) {
	t.Parallel()
	b := pool.Single(t)
	c := b.Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	appendMessages(t, o, said("before"), said("%s", strings.Repeat("x", 2<<20)), said("after"))
	names, err := c.BlobNames(testContext(t), ref)
	if err != nil || len(names) != 1 {
		t.Fatalf("blobs %v, %v", names, err)
	}
	if err := c.DeleteBlob(testContext(t), names[0]); err != nil {
		t.Fatal(err)
	}
	frames := readFrames(t, c, ref, bus.LogAndLive)
	if got := frameWords(frames); got != "before lost_message after" || !slices.Equal(frames[0].Lost, []int{1}) {
		t.Errorf("read %q, lost lines %v", got, frames[0].Lost)
	}
}
