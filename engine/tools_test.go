package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"braid/bus"
	"braid/engine/internal/timelinetest"
	"braid/schemas"
)

// hand is a toolrunner whose tools do what the test says, when it says so: the records and
// fragments are real, the work is not.
type hand struct {
	t     *testing.T
	conn  *bus.Conn
	name  string
	queue *bus.ToolQueue
	beat  *bus.Beat
	stop  context.CancelFunc
	done  sync.WaitGroup

	mu      sync.Mutex
	calls   map[string]*handCall // by arguments
	starts  int                  // of calls, ever
	changed chan struct{}
}

// handCall is one call in the test's hands.
type handCall struct {
	h       *hand
	request schemas.ToolRequest
	started uint64
	text    string
	cancel  chan struct{}
	once    sync.Once
}

// toolrunner starts a hand.
func (h *house) toolrunner(name string) *hand {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &hand{t: h.t, conn: h.broker.Conn(h.t), name: name, stop: cancel, calls: map[string]*handCall{}, changed: make(chan struct{})}
	var err error
	if r.beat, err = r.conn.StartBeat(ctx, bus.KindToolrunner, name, nil); err != nil {
		h.t.Fatal(err)
	}
	if err := r.conn.Announce(ctx, bus.Announcement{Project: ref.Project, Instance: name, Pools: []string{schemas.DefaultPool, "empty"}, Tools: timelinetest.Tools(), Slots: 8}); err != nil {
		h.t.Fatal(err)
	}
	stopControl, err := r.conn.ServeControl(name, r.control)
	if err != nil {
		h.t.Fatal(err)
	}
	if r.queue, err = r.conn.ToolQueue(ctx, ref.Project, schemas.DefaultPool, bus.ToolQueueOptions{AckWait: time.Second}); err != nil {
		h.t.Fatal(err)
	}
	r.done.Go(func() { r.pull(ctx) })
	h.t.Cleanup(func() {
		cancel()
		r.done.Wait()
		stopControl()
		_ = r.beat.Stop(context.Background())
	})
	return r
}

func (r *hand) pull(ctx context.Context) {
	for ctx.Err() == nil {
		queued, err := r.queue.Pull(ctx, 8)
		if err != nil {
			continue
		}
		for _, q := range queued {
			r.take(ctx, q)
		}
	}
}

func (r *hand) take(ctx context.Context, q bus.QueuedTool) {
	seq, err := r.conn.WriteRecord(ctx, q.Request.Session, q.Request.ToolCallID, q.Request.Queued, schemas.ToolRecord{
		State: schemas.RecordStarted, Attempt: q.Request.Attempt, Toolrunner: r.name, Nonce: fmt.Sprint(q.Sequence),
	})
	if err == nil {
		r.mu.Lock()
		r.starts++
		r.calls[q.Request.Arguments] = &handCall{h: r, request: q.Request, started: seq, cancel: make(chan struct{})}
		close(r.changed)
		r.changed = make(chan struct{})
		r.mu.Unlock()
	}
	_ = r.queue.Ack(ctx, q)
}

func (r *hand) control(c bus.Control) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, call := range r.calls {
		if call.request.ToolCallID != c.ToolCallID {
			continue
		}
		switch c.Op {
		case bus.ControlCancel:
			call.once.Do(func() { close(call.cancel) })
		case bus.ControlResend:
			if int(c.From) < len(call.text) {
				return r.conn.PublishFragment(call.request.Session, schemas.ToolFragment{
					ToolCallID: c.ToolCallID, Attempt: call.request.Attempt, Offset: c.From, Text: call.text[c.From:],
				})
			}
		}
		return nil
	}
	return schemas.Errorf(schemas.CodeNotFound, "no such call")
}

// call waits for the call with these arguments to start.
func (r *hand) call(arguments string) *handCall {
	r.t.Helper()
	limit := time.After(testTime)
	for {
		r.mu.Lock()
		c, changed := r.calls[arguments], r.changed
		r.mu.Unlock()
		if c != nil {
			return c
		}
		select {
		case <-changed:
		case <-limit:
			r.t.Fatalf("the call %s does not start", arguments)
		}
	}
}

// startedOnce wants that one call was started, once.
func (r *hand) startedOnce() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.starts != 1 {
		r.t.Errorf("calls were started %d times", r.starts)
	}
}

// say streams output.
func (c *handCall) say(text string) {
	c.h.t.Helper()
	c.h.mu.Lock()
	offset := len(c.text)
	c.text += text
	c.h.mu.Unlock()
	err := c.h.conn.PublishFragment(c.request.Session, schemas.ToolFragment{
		ToolCallID: c.request.ToolCallID, Attempt: c.request.Attempt, Offset: int64(offset), Text: text,
	})
	if err != nil {
		c.h.t.Error(err)
	}
}

// end writes the result.
func (c *handCall) end(reason schemas.StopReason) error {
	_, err := c.h.conn.WriteRecord(context.Background(), c.request.Session, c.request.ToolCallID, c.started, schemas.ToolRecord{
		State: schemas.RecordDone, Attempt: c.request.Attempt, Toolrunner: c.h.name,
		Result: &schemas.ToolResult{Output: c.text, StopReason: reason},
	})
	return err
}

// callScript is a model that makes calls of tools, each a name and arguments, and then is done if
// it is fed their outputs in call order.
func callScript(calls ...[2]string) string {
	script := "turns:\n  - steps:\n      - text: working\n"
	for _, c := range calls {
		script += fmt.Sprintf("      - tool_call: {name: %s, arguments: %q}\n", c[0], c[1])
	}
	script += "  - expect:\n      input:\n"
	for range calls {
		script += "        - {kind: tool_call_output}\n"
	}
	return script + "    steps: [{text: finished}]\n"
}
