package toolrunner

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"braid/bus"
	"braid/schemas"
)

// owner plays the owner of a session: it queues calls and follows them.
type owner struct {
	t    *testing.T
	conn *bus.Conn
	ref  schemas.SessionRef

	mu   sync.Mutex
	text map[CallKey][]byte // the output of each attempt, merged without gaps
}

func newOwner(t *testing.T, conn *bus.Conn) *owner {
	t.Helper()
	o := &owner{t: t, conn: conn, ref: schemas.SessionRef{Project: "default", ID: "s1"}, text: map[CallKey][]byte{}}
	stop, err := conn.SubscribeFragments(o.ref, o.take, func() {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return o
}

// take merges a fragment. What lies behind a gap is dropped, as somebody must ask for it.
func (o *owner) take(f schemas.ToolFragment) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := o.key(f.ToolCallID, f.Attempt)
	have := int64(len(o.text[key]))
	if f.Offset <= have && f.Offset+int64(len(f.Text)) > have {
		o.text[key] = append(o.text[key], f.Text[have-f.Offset:]...)
	}
}

func (o *owner) key(call string, attempt int) CallKey {
	return CallKey{Session: o.ref, ToolCallID: call, Attempt: attempt}
}

func (o *owner) merged(call string, attempt int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text[o.key(call, attempt)])
}

// have is how much there is of it.
func (o *owner) have(call string, attempt int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.text[o.key(call, attempt)])
}

func (o *owner) record(call string, after uint64, rec schemas.ToolRecord) uint64 {
	o.t.Helper()
	seq, err := o.conn.WriteRecord(o.t.Context(), o.ref, call, after, rec)
	if err != nil {
		o.t.Fatal(err)
	}
	return seq
}

// request writes the queued record of a call's next attempt and makes the request that names it.
func (o *owner) request(call, tool, arguments string, after uint64, attempt int) schemas.ToolRequest {
	o.t.Helper()
	return schemas.ToolRequest{
		Session: o.ref, ToolCallID: call, Name: tool, Arguments: arguments, Attempt: attempt,
		Queued:    o.record(call, after, schemas.ToolRecord{State: schemas.RecordQueued, Attempt: attempt}),
		TimeoutMS: 60_000, OutputCap: 1 << 20,
	}
}

func (o *owner) queue(pool string, request schemas.ToolRequest) uint64 {
	o.t.Helper()
	seq, err := o.conn.QueueTool(o.t.Context(), pool, request)
	if err != nil {
		o.t.Fatal(err)
	}
	return seq
}

// call queues the first attempt of a call in the default pool.
func (o *owner) call(call, tool, arguments string) schemas.ToolRequest {
	o.t.Helper()
	request := o.request(call, tool, arguments, 0, 1)
	o.queue(schemas.DefaultPool, request)
	return request
}

func (o *owner) last(call string) schemas.ToolRecord {
	o.t.Helper()
	rec, _, err := o.conn.LastRecord(o.t.Context(), o.ref, call)
	if err != nil {
		o.t.Fatal(err)
	}
	return rec
}

// await waits for a call's record of that state.
func (o *owner) await(call string, state schemas.RecordState) schemas.ToolRecord {
	o.t.Helper()
	var rec schemas.ToolRecord
	waitUntil(o.t, fmt.Sprintf("%s is %s", call, state), func() bool {
		rec = o.last(call)
		return rec.State == state
	})
	return rec
}

// done waits for a call's result and checks that the fragments add up to it.
func (o *owner) done(call string, reason schemas.StopReason, output string) schemas.ToolRecord {
	o.t.Helper()
	rec := o.await(call, schemas.RecordDone)
	wantResult(o.t, *rec.Result, reason, output)
	waitUntil(o.t, "the fragments of "+call+" have come", func() bool { return o.merged(call, rec.Attempt) == output })
	return rec
}

// awaitEmpty waits until nothing is queued in a pool, or handed out.
func awaitEmpty(t *testing.T, conn *bus.Conn, pool string) {
	t.Helper()
	waitUntil(t, "the queue of "+pool+" is empty", func() bool {
		waiting, out, err := conn.QueueDepth(t.Context(), "default", pool)
		return err == nil && waiting == 0 && out == 0
	})
}

// served is a toolrunner of a test.
type served struct {
	cancel context.CancelFunc
	ended  chan error
}

// serve runs a toolrunner until the end of the test, or until stop.
func serve(t *testing.T, conn *bus.Conn, o ServeOptions) *served {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &served{cancel: cancel, ended: make(chan error, 1)}
	var wg sync.WaitGroup
	wg.Go(func() { s.ended <- Serve(ctx, conn, o) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	if o.Instance != "" {
		waitUntil(t, o.Instance+" is announced", func() bool { return announced(t, conn, o.Instance, o.Projects...) })
	}
	return s
}

// stop ends the toolrunner and waits for it.
func (s *served) stop() error {
	s.cancel()
	return <-s.ended
}

func announced(t *testing.T, conn *bus.Conn, instance string, project ...string) bool {
	t.Helper()
	all, err := conn.Announcements(t.Context(), append(project, "default")[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if a.Instance == instance {
			return true
		}
	}
	return false
}

func alive(t *testing.T, conn *bus.Conn, instance string) bool {
	t.Helper()
	all, err := conn.Instances(t.Context(), bus.KindToolrunner)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Name == instance {
			return true
		}
	}
	return false
}

// counter counts runs by call.
type counter struct {
	mu   sync.Mutex
	runs map[string]int
}

func (c *counter) add(call Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil {
		c.runs = map[string]int{}
	}
	c.runs[call.ToolCallID]++
}

func (c *counter) of(call string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs[call]
}

// gateTool prints its arguments, waits until it is let go or stopped, and prints a last word.
func gateTool(name string, runs *counter, gate <-chan struct{}) Tool {
	return Tool{Definition: schemas.ToolDefinition{Name: name}, Run: func(ctx context.Context, call Call, out *Output) Result {
		runs.add(call)
		fmt.Fprintf(out, "%s\n", call.Arguments)
		select {
		case <-gate:
			fmt.Fprintf(out, "let go\n")
		case <-ctx.Done():
		}
		return Result{}
	}}
}

// shortAck is an acknowledgement wait that a test can wait for.
const shortAck = 500 * time.Millisecond

func readAll(r io.Reader) (string, error) {
	b, err := io.ReadAll(r)
	return string(b), err
}
