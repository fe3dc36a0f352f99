package bus_test

import (
	"errors"
	"os"
	"testing"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// A restart of the broker ends nothing: the owner appends on, followers and the trace's reader
// get every frame once and in order.
func TestCase_B06_BrokerRestart(t *testing.T) {
	t.Parallel()
	b := bustest.Listening(t)
	c := b.Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	k := collect(t, c, c.Shard(ref), 1)
	f := follow(t, c, ref, bus.FollowOptions{Beginning: true})
	appendMessages(t, o, said("0"))
	expectWords(t, f, "0")
	expectCaughtUp(t, f)
	k.await(t, ref, count(1))
	for i := 1; i <= 3; i++ {
		b.Stop(0)
		b.Start(t, 0)
		appendMessages(t, o, said("%d", 2*i-1))
		appendMessages(t, o, said("%d", 2*i))
	}
	for _, want := range []string{"1", "2", "3", "4", "5", "6"} {
		expectWords(t, f, want)
	}
	if got := recordWords(k.await(t, ref, count(7))); got != "0 | 1 | 2 | 3 | 4 | 5 | 6" {
		t.Errorf("handed over %q", got)
	}
	k.audit(t)
}

// While the broker is away another owner takes the session, by another connection. The old one
// comes back and must find out before it appends.
func TestOwnerLooksBeforeItGoesOn(t *testing.T) {
	t.Parallel()
	b := bustest.Listening(t)
	c := b.Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	appendMessages(t, o, said("one"))
	b.Stop(0)
	b.Start(t, 0)
	other := b.Conn(t)
	next := claim(t, other, ref, "b", o.Claim())
	if _, err := o.Append(testContext(t), []schemas.Message{said("late")}, 0); !errors.Is(err, bus.ErrFenced) {
		t.Errorf("append: %v", err)
	}
	appendMessages(t, next, said("two"))
	if got := frameWords(readFrames(t, other, ref, bus.LogAndLive)); got != "one | two" {
		t.Errorf("the session holds %q", got)
	}
}

// lost sets a broker back to an earlier state of its store, as a power loss with lazy sync or a
// restore does: acknowledged messages are gone, and their sequences are given out again.
type lost struct {
	b    *bustest.Broker
	kept string
}

func keepState(t testing.TB, b *bustest.Broker) lost {
	t.Helper()
	l := lost{b: b, kept: t.TempDir()}
	b.Stop(0)
	if err := os.CopyFS(l.kept, os.DirFS(b.StoreDir(0))); err != nil {
		t.Fatal(err)
	}
	b.Start(t, 0)
	return l
}

func (l lost) goBack(t testing.TB) {
	t.Helper()
	l.b.Stop(0)
	if err := os.RemoveAll(l.b.StoreDir(0)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(l.b.StoreDir(0), os.DirFS(l.kept)); err != nil {
		t.Fatal(err)
	}
	l.b.Start(t, 0)
}

// The broker loses acknowledged frames. Their owner, who holds them in memory, stops; followers
// and the trace's reader, who have seen them, say so instead of going on as if nothing happened.
func TestCase_B13_B14_TailLost(t *testing.T) {
	t.Parallel()
	b := bustest.Listening(t)
	c := b.Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	appendMessages(t, o, said("kept"))
	state := keepState(t, b)
	k := collect(t, c, c.Shard(ref), 1)
	f := follow(t, c, ref, bus.FollowOptions{Beginning: true})
	appendMessages(t, o, said("lost"))
	last := appendMessages(t, o, said("lost too"))
	expectWords(t, f, "kept")
	expectWords(t, f, "lost")
	expectWords(t, f, "lost too")
	k.await(t, ref, count(3))
	state.goBack(t)

	if _, err := o.Append(testContext(t), []schemas.Message{said("next")}, 0); !errors.Is(err, bus.ErrTailLost) {
		t.Errorf("append: %v", err)
	}
	expectResync(t, f)
	if err := <-k.err; !errors.Is(err, bus.ErrTailLost) {
		t.Errorf("consume log: %v", err)
	}
	expectResync(t, follow(t, c, ref, bus.FollowOptions{After: cursor(c, ref, last.Sequence, 0)}))

	next := claim(t, c, ref, "b", o.Claim())
	if got := frameWords(replay(t, next, bus.Point{}, bus.LogAndLive)); got != "kept" {
		t.Errorf("the next owner reads %q", got)
	}
}

// The claim itself is lost and its sequence given to another one: two processes hold the same
// fence. The nonce tells them apart.
func TestCase_B14_FenceGivenOutTwice(t *testing.T) {
	t.Parallel()
	b := bustest.Listening(t)
	c := b.Conn(t)
	ref := newSession()
	state := keepState(t, b)
	o := claim(t, c, ref, "a", bus.Claim{})
	appendMessages(t, o, said("lost"))
	state.goBack(t)
	other := b.Conn(t)
	next := claim(t, other, ref, "b", bus.Claim{})
	if next.Fence() != o.Fence() {
		t.Fatalf("fences %d and %d: the sequence was not given out twice", next.Fence(), o.Fence())
	}
	if _, err := o.Append(testContext(t), []schemas.Message{said("late")}, 0); !errors.Is(err, bus.ErrFenced) {
		t.Errorf("append: %v", err)
	}
	appendMessages(t, next, said("one"))
	if got := frameWords(readFrames(t, other, ref, bus.LogAndLive)); got != "one" {
		t.Errorf("the session holds %q", got)
	}
}

// The stream is deleted and made anew while everybody is connected: its sequences begin again,
// and mean something else.
func TestCase_C03_StreamMadeAnew(t *testing.T) {
	t.Parallel()
	b := bustest.Listening(t)
	c := b.Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	k := collect(t, c, c.Shard(ref), 1)
	f := follow(t, c, ref, bus.FollowOptions{Beginning: true})
	ack := appendMessages(t, o, said("one"))
	expectWords(t, f, "one")
	k.await(t, ref, count(1))
	before := cursor(c, ref, ack.Sequence, 0)
	if err := c.JetStream().DeleteStream(testContext(t), c.SessionsStream(ref)); err != nil {
		t.Fatal(err)
	}
	other := b.Conn(t) // makes it
	if other.Epoch(ref) == before.Epoch {
		t.Fatal("the epoch is the same")
	}
	appendMessages(t, claim(t, other, newSession(), "b", bus.Claim{}), said("another session"))
	next := claim(t, other, ref, "b", bus.Claim{})
	for range 5 {
		appendMessages(t, next, said("other"))
	}
	if next.Fence() == o.Fence() {
		claim(t, other, ref, "b", next.Claim())
	}
	if _, err := o.Append(testContext(t), []schemas.Message{said("late")}, 0); !errors.Is(err, bus.ErrFenced) && !errors.Is(err, bus.ErrTailLost) {
		t.Errorf("append: %v", err)
	}
	expectResync(t, f)
	if err := <-k.err; !errors.Is(err, bus.ErrTailLost) {
		t.Errorf("consume log: %v", err)
	}
	expectResync(t, follow(t, other, ref, bus.FollowOptions{After: before}))
}

// Restarting the nodes one after another fails no append and loses nothing.
func TestCase_B23_B28_RollingRestart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a cluster takes seconds to start; left out with -short")
	}
	b := bustest.Cluster(t)
	c := b.Conn(t, 2)
	if got := c.Topology().Replicas; got != 3 {
		t.Fatalf("%d replicas in a cluster", got)
	}
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	f := follow(t, c, ref, bus.FollowOptions{Beginning: true})
	n := 0
	for _, node := range []int{0, 1} { // the third is where this client is
		b.Stop(node)
		for range 20 {
			appendMessages(t, o, said("%d", n))
			n++
		}
		b.Start(t, node)
		for range 20 {
			appendMessages(t, o, said("%d", n))
			n++
		}
	}
	got := 0
	for got < n {
		switch e := next(t, f).(type) {
		case bus.Frame:
			if words(e.Messages...) != words(said("%d", got)) {
				t.Fatalf("frame %d holds %s", got, words(e.Messages...))
			}
			got++
		case bus.CaughtUpEvent:
		default:
			t.Fatalf("got %T %+v", e, e)
		}
	}
}

// Each start of a toolrunner makes a queue of its own. None of them is found again by a broker that was
// stopped, which would have more to start and stop each time; what waits in one is not lost.
func TestPrivateQueuesEndWithTheBroker(t *testing.T) {
	t.Parallel()
	b := bustest.Listening(t)
	c := b.Conn(t)
	ref := newSession()
	q, err := c.ToolQueue(testContext(t), ref.Project, "r-one", bus.ToolQueueOptions{Private: true})
	if err != nil {
		t.Fatal(err)
	}
	openQueue(t, c, ref.Project, "shared", 0)
	queueTool(t, c, "r-one", toolRequest(ref, "waits", 1))
	b.Stop(0)
	b.Start(t, 0)
	other := b.Conn(t)
	stream, err := other.JetStream().Stream(testContext(t), "TOOLS")
	if err != nil {
		t.Fatal(err)
	}
	names := stream.ConsumerNames(testContext(t))
	for name := range names.Name() {
		if name != ref.Project+"=shared" {
			t.Errorf("there is a queue %s", name)
		}
	}
	if names.Err() != nil {
		t.Error(names.Err())
	}
	if got := pullTools(t, q, 1); got[0].Request.ToolCallID != "waits" {
		t.Errorf("its toolrunner got %+v", got)
	}
}
