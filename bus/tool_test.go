package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

var toolTests = []workTest{
	{"a call goes to its pool once", testToolQueue},
	{"TestCase_B03_slow_toolrunners_run_each_call_once", testCaseB03Runners},
	{"TestCase_B08_a_second_attempt_is_not_swallowed", testCaseB08SecondAttempt},
	{"a call not started goes to another toolrunner", testToolRedelivery},
	{"a withdrawn call is taken off the queue", testUnqueue},
	{"pools do not share", testPools},
	{"a call over the max payload", testLargeCall},
	{"a message that is no call is dropped", testMalformedCall},
	{"a cancelled pull holds nothing back", testCancelledToolPull},
}

var names atomic.Int64

// freshName is a name that no other call returns.
func freshName() string { return fmt.Sprintf("n%d", names.Add(1)) }

func purgeSubject(subject string) jetstream.StreamPurgeOpt {
	return jetstream.WithPurgeSubject(subject)
}

func outputStreams(t *testing.T, c *bus.Conn) []jetstream.Stream {
	t.Helper()
	var out []jetstream.Stream
	for shard := range c.Shards() {
		s, err := c.JetStream().Stream(testContext(t), fmt.Sprintf("OUTPUTS-%d", shard))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

func toolRequest(ref schemas.SessionRef, call string, queued uint64) schemas.ToolRequest {
	return schemas.ToolRequest{Session: ref, ToolCallID: call, Name: "bash", Arguments: `{"cmd":"ls"}`,
		Queued: queued, Attempt: 1, Retry: schemas.RetryNever, TimeoutMS: 1000, OutputCap: 1000}
}

func openQueue(t *testing.T, c *bus.Conn, project, pool string, ackWait time.Duration) *bus.ToolQueue {
	t.Helper()
	q, err := c.ToolQueue(testContext(t), project, pool, bus.ToolQueueOptions{AckWait: ackWait})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func queueTool(t *testing.T, c *bus.Conn, pool string, req schemas.ToolRequest) uint64 {
	t.Helper()
	seq, err := c.QueueTool(testContext(t), pool, req)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func pullTools(t *testing.T, q *bus.ToolQueue, most int) []bus.QueuedTool {
	t.Helper()
	var got []bus.QueuedTool
	eventually(t, "a call", func() bool {
		var err error
		if got, err = q.Pull(testContext(t), most); err != nil {
			t.Fatal(err)
		}
		return len(got) > 0
	})
	return got
}

func noTools(t *testing.T, q *bus.ToolQueue, why string) {
	t.Helper()
	if got, err := q.Pull(testContext(t), 10); err != nil || len(got) != 0 {
		t.Errorf("%s: got %+v, %v, want nothing", why, got, err)
	}
}

func testToolQueue(t *testing.T, b *bustest.Broker, project string) {
	c, runner := b.Conn(t), b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	want := toolRequest(ref, "call", 7)
	want.TraceContext = somewhere
	first := queueTool(t, c, "shell", want)
	if again := queueTool(t, c, "shell", want); again != first {
		t.Errorf("queued twice: %d and %d", first, again)
	}
	q := openQueue(t, runner, project, "shell", 0)
	got := pullTools(t, q, 10)
	if len(got) != 1 || !cmp.Equal(got[0].Request, want) || got[0].Deliveries < 1 || got[0].Sequence != first {
		t.Fatalf("got %+v", got)
	}
	if err := q.Ack(testContext(t), got[0]); err != nil {
		t.Fatal(err)
	}
	noTools(t, q, "acknowledged")
}

// Two toolrunners with room for one call each, and one of them is busy with its first until all others
// have run: whoever fetches ahead keeps others from calls, for as long as the queue waits for an answer.
func testCaseB03Runners(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	const calls = 6
	for i := range calls {
		call := fmt.Sprintf("call-%d", i)
		queueTool(t, c, "slow", toolRequest(ref, call, write(t, c, ref, call, 0, queued(1))))
	}
	runs := &runsOfCalls{want: calls, starts: map[string]int{}, others: make(chan struct{})}
	ctx, finished := context.WithCancel(testContext(t))
	defer finished()
	var wg sync.WaitGroup
	for i := range 2 {
		conn := b.Conn(t)
		q := openQueue(t, conn, project, "slow", time.Hour)
		wg.Go(func() {
			for ctx.Err() == nil {
				got, err := q.Pull(ctx, 1)
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				for _, call := range got {
					name := fmt.Sprintf("r%d", i)
					_, err := conn.WriteRecord(ctx, ref, call.Request.ToolCallID, call.Request.Queued, started(name, freshName()))
					if err := q.Ack(ctx, call); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
					if err != nil {
						t.Errorf("%s was handed out after it started: %v", call.Request.ToolCallID, err)
						continue
					}
					if runs.run(ctx, call.Request.ToolCallID) {
						finished()
					}
				}
			}
		})
	}
	wg.Wait()
	for call, n := range runs.starts {
		if n != 1 {
			t.Errorf("%s started %d times", call, n)
		}
	}
	if len(runs.starts) != calls {
		t.Errorf("%d calls ran, want %d", len(runs.starts), calls)
	}
}

// runsOfCalls counts how often each call runs; the first one ends last.
type runsOfCalls struct {
	want   int
	mu     sync.Mutex
	starts map[string]int
	others chan struct{} // closed when all but the first have run
}

// run runs a call, and reports whether it is the last to end.
func (r *runsOfCalls) run(ctx context.Context, call string) (last bool) {
	r.mu.Lock()
	first := len(r.starts) == 0
	r.starts[call]++
	if r.starts[call] == 1 && len(r.starts) == r.want {
		close(r.others)
	}
	r.mu.Unlock()
	if first {
		select {
		case <-r.others:
		case <-ctx.Done():
		}
	}
	return first
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func testCaseB08SecondAttempt(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	other := schemas.SessionRef{Project: project, ID: "other"}
	q := openQueue(t, c, project, "p", 0)
	seqs := map[uint64]bool{}
	for _, req := range []schemas.ToolRequest{toolRequest(ref, "call", 5), toolRequest(ref, "call", 9), toolRequest(other, "call", 5)} {
		seqs[queueTool(t, c, "p", req)] = true
		got := pullTools(t, q, 1)
		if !cmp.Equal(got[0].Request, req) {
			t.Fatalf("got %+v, want %+v", got[0].Request, req)
		}
		if err := q.Ack(testContext(t), got[0]); err != nil {
			t.Fatal(err)
		}
	}
	if len(seqs) != 3 {
		t.Errorf("three calls are %d messages", len(seqs))
	}
}

func testToolRedelivery(t *testing.T, b *bustest.Broker, project string) {
	dead, alive := b.Conn(t), b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	queueTool(t, dead, "p", toolRequest(ref, "call", 1))
	pullTools(t, openQueue(t, dead, project, "p", time.Second), 1) // and dies before it starts the call
	q := openQueue(t, alive, project, "p", time.Second)
	got := pullTools(t, q, 1)[0]
	if got.Deliveries < 2 {
		t.Errorf("got %+v", got)
	}
	if err := q.Nak(got, 0); err != nil {
		t.Fatal(err)
	}
	again := pullTools(t, q, 1)[0]
	if again.Deliveries <= got.Deliveries {
		t.Errorf("got %+v after %+v", again, got)
	}
	if err := q.Ack(testContext(t), again); err != nil {
		t.Fatal(err)
	}
}

func testUnqueue(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	seq := queueTool(t, c, "p", toolRequest(ref, "call", 1))
	for range 2 { // also when it is gone already
		if err := c.UnqueueTool(testContext(t), seq); err != nil {
			t.Fatal(err)
		}
	}
	noTools(t, openQueue(t, c, project, "p", 0), "withdrawn")
}

func testPools(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	// Names that would meet if project and pool were joined by a character of names.
	a, bb := openQueue(t, c, project+"_", "p", 0), openQueue(t, c, project, "_p", 0)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	queueTool(t, c, "_p", toolRequest(ref, "call", 1))
	noTools(t, a, "another pool")
	if got := pullTools(t, bb, 1); got[0].Request.ToolCallID != "call" {
		t.Errorf("got %+v", got)
	}
	if waiting, out, err := c.QueueDepth(testContext(t), project, "_p"); err != nil || waiting != 0 || out != 1 {
		t.Errorf("got %d, %d, %v, want 0 and 1", waiting, out, err)
	}
	if waiting, out, err := c.QueueDepth(testContext(t), project, "nobody"); err != nil || waiting != 0 || out != 0 {
		t.Errorf("got %d, %d, %v, want 0 and 0", waiting, out, err)
	}
}

func testLargeCall(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	want := toolRequest(ref, "call", 1)
	want.Arguments = strings.Repeat("x", 2<<20)
	queueTool(t, c, "p", want)
	got := pullTools(t, openQueue(t, c, project, "p", 0), 1)
	if !cmp.Equal(got[0].Request, want) {
		t.Error("the call is not what was queued")
	}
}

func testMalformedCall(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	raw(t, c, "braid."+project+".tool.p.bash", []byte("no JSON"))
	raw(t, c, "braid."+project+".tool.p.bash", []byte(`{"session":{"project":"*","id":"s"}}`))
	queueTool(t, c, "p", toolRequest(ref, "call", 1))
	q := openQueue(t, c, project, "p", time.Second)
	got := pullTools(t, q, 10)
	if len(got) != 1 || got[0].Request.ToolCallID != "call" {
		t.Fatalf("got %+v", got)
	}
	if err := q.Ack(testContext(t), got[0]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the queue is empty", func() bool {
		waiting, out, err := c.QueueDepth(testContext(t), project, "p")
		if err != nil {
			t.Fatal(err)
		}
		return waiting+out == 0
	})
}

func testCancelledToolPull(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	q := openQueue(t, c, project, "p", time.Hour) // what is held back is lost for the test
	for i := range 6 {
		ctx, cancel := context.WithCancel(testContext(t))
		var wg sync.WaitGroup
		var kept []bus.QueuedTool
		wg.Go(func() {
			got, err := q.Pull(ctx, 3)
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			kept = got
		})
		queueTool(t, c, "p", toolRequest(ref, fmt.Sprintf("call-%d", i), 1))
		cancel()
		wg.Wait()
		if len(kept) == 0 {
			kept = pullTools(t, q, 1)
		}
		if err := q.Ack(testContext(t), kept[0]); err != nil {
			t.Fatal(err)
		}
	}
}
