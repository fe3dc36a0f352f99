package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// raw is a toolrunner that the test plays itself, step by step, so that it can stop anywhere.
func raw(t *testing.T, conn *bus.Conn) (*bus.ToolQueue, bus.QueuedTool) {
	t.Helper()
	calls, err := conn.ToolQueue(t.Context(), "default", schemas.DefaultPool, bus.ToolQueueOptions{AckWait: shortAck})
	if err != nil {
		t.Fatal(err)
	}
	return calls, pullOne(t, calls)
}

// pullOne waits for a call of a queue.
func pullOne(t *testing.T, calls *bus.ToolQueue) bus.QueuedTool {
	t.Helper()
	var pulled []bus.QueuedTool
	waitUntil(t, "a call is handed out", func() bool {
		var err error
		if pulled, err = calls.Pull(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		return len(pulled) > 0
	})
	return pulled[0]
}

// A toolrunner that dies with a call it has not started leaves it to another one.
func TestServeRunsWhatAnotherTookAndDidNotStart(t *testing.T) {
	t.Parallel()
	bustest.Each(t, func(t *testing.T, b *bustest.Broker) {
		conn := b.Conn(t)
		o := newOwner(t, conn)
		o.call("c1", "echo", "hi")
		raw(t, conn) // and never heard of again
		serve(t, b.Conn(t), ServeOptions{Instance: "b", Tools: []Tool{echoTool("echo")}, ackWait: shortAck})
		if rec := o.done("c1", schemas.StopCompleted, "echo says hi"); rec.Toolrunner != "b" {
			t.Errorf("record %+v", rec)
		}
		awaitEmpty(t, conn, schemas.DefaultPool)
	})
}

// One that dies after the start, but before the message left the queue, must not have the call
// run again: only its owner can decide that.
func TestServeLeavesWhatAnotherHasStarted(t *testing.T) {
	t.Parallel()
	bustest.Each(t, func(t *testing.T, b *bustest.Broker) {
		conn := b.Conn(t)
		o := newOwner(t, conn)
		request := o.call("c1", "gate", "hi")
		raw(t, conn)
		o.record("c1", request.Queued, schemas.ToolRecord{State: schemas.RecordStarted, Attempt: 1, Toolrunner: "a", Nonce: "n"})
		runs := &counter{}
		serve(t, b.Conn(t), ServeOptions{Instance: "b", Tools: []Tool{gateTool("gate", runs, nil)}, ackWait: shortAck})
		awaitEmpty(t, conn, schemas.DefaultPool) // b got it, and took it off the queue
		if rec := o.await("c1", schemas.RecordStarted); runs.of("c1") != 0 || rec.Toolrunner != "a" {
			t.Errorf("%d runs, record %+v", runs.of("c1"), rec)
		}
	})
}

func TestServeDoesNotStartWhatWasWithdrawn(t *testing.T) {
	t.Parallel()
	b := bustest.Single(t)
	conn := b.Conn(t)
	o := newOwner(t, conn)
	request := o.call("c1", "gate", "hi")
	o.record("c1", request.Queued, schemas.ToolRecord{State: schemas.RecordWithdrawn})
	runs := &counter{}
	serve(t, conn, ServeOptions{Instance: "a", Tools: []Tool{gateTool("gate", runs, nil), echoTool("echo")}})
	awaitEmpty(t, conn, schemas.DefaultPool)
	if rec := o.last("c1"); runs.of("c1") != 0 || rec.State != schemas.RecordWithdrawn {
		t.Errorf("%d runs, record %+v", runs.of("c1"), rec)
	}
	// One whose queued record is not there, or is not the one that is named, can't be started either.
	request.ToolCallID, request.Name = "c2", "gate"
	o.queue(schemas.DefaultPool, request)
	awaitEmpty(t, conn, schemas.DefaultPool)
	if rec := o.last("c2"); runs.of("c2") != 0 || rec.State != "" {
		t.Errorf("%d runs, record %+v", runs.of("c2"), rec)
	}
	o.call("c3", "echo", "hi")
	o.done("c3", schemas.StopCompleted, "echo says hi")
}

// However often a call is queued, it starts once.
func TestServeRunsCopiesOnce(t *testing.T) {
	t.Parallel()
	b := bustest.Single(t)
	conn := b.Conn(t)
	o := newOwner(t, conn)
	runs, gate := &counter{}, make(chan struct{})
	for _, name := range []string{"a", "b"} {
		serve(t, b.Conn(t), ServeOptions{Instance: name, Tools: []Tool{gateTool("gate", runs, gate)}, ackWait: shortAck})
	}
	request := o.call("c1", "gate", "hi")
	pools := []string{PrivatePool("a"), PrivatePool("b"), schemas.DefaultPool}
	for _, pool := range pools { // the broker drops only the last, by its id
		o.queue(pool, request)
	}
	o.await("c1", schemas.RecordStarted)
	for _, pool := range pools {
		awaitEmpty(t, conn, pool)
	}
	close(gate)
	o.done("c1", schemas.StopCompleted, "hi\nlet go\n")
	if runs.of("c1") != 1 {
		t.Errorf("it ran %d times", runs.of("c1"))
	}
}

// syncBuffer is a log to be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A result that comes after the owner has settled the call changes nothing.
func TestServeDropsALateResult(t *testing.T) {
	t.Parallel()
	conn := bustest.Single(t).Conn(t)
	o := newOwner(t, conn)
	runs, gate, log := &counter{}, make(chan struct{}), &syncBuffer{}
	serve(t, conn, ServeOptions{Instance: "a", Tools: []Tool{gateTool("gate", runs, gate)}, Log: zerolog.New(log)})
	o.call("c1", "gate", "hi")
	started := o.await("c1", schemas.RecordStarted)
	o.record("c1", started.Sequence, schemas.ToolRecord{State: schemas.RecordDone, Attempt: 1, Result: &schemas.ToolResult{
		Output: "the toolrunner was lost", Appends: true, StopReason: schemas.StopFailed,
	}})
	close(gate)
	waitUntil(t, "the result is dropped", func() bool { return strings.Contains(log.String(), "its result is dropped") })
	if rec := o.last("c1"); rec.Result.Output != "the toolrunner was lost" {
		t.Errorf("record %+v", rec)
	}
	if strings.Contains(log.String(), "let go") {
		t.Error("the log holds output")
	}
}

// restartable starts a broker that comes back at the same address, with what it had stored.
func restartable(t *testing.T) (conn func() *bus.Conn, restart func(while func())) {
	t.Helper()
	b := bustest.Listening(t)
	restart = func(while func()) {
		b.Stop(0)
		while()
		b.Start(t, 0)
	}
	return func() *bus.Conn { return b.Conn(t) }, restart
}

// A call goes on while the broker is away, and its result is complete afterwards.
func TestServeOutlivesTheBroker(t *testing.T) {
	t.Parallel()
	connect, restart := restartable(t)
	conn := connect()
	o := newOwner(t, conn)
	ended := make(chan struct{})
	more := make(chan struct{})
	tool := Tool{Definition: schemas.ToolDefinition{Name: "tool"}, Run: func(_ context.Context, _ Call, out *Output) Result {
		defer close(ended)
		fmt.Fprintf(out, "before\n")
		<-more
		fmt.Fprintf(out, "meanwhile\n")
		return Result{}
	}}
	serve(t, connect(), ServeOptions{Instance: "a", Tools: []Tool{tool, echoTool("echo")}})
	o.call("c1", "tool", "")
	waitUntil(t, "the call runs", func() bool { return o.merged("c1", 1) == "before\n" })
	restart(func() {
		close(more)
		<-ended
	})
	rec := o.await("c1", schemas.RecordDone)
	wantResult(t, *rec.Result, schemas.StopCompleted, "before\nmeanwhile\n")
	waitUntil(t, "it answers", func() bool { return conn.RequestResend(t.Context(), "a", o.ref, "c1", 1, 7) == nil })
	waitUntil(t, "the rest has come", func() bool { return o.merged("c1", 1) == "before\nmeanwhile\n" })
	o.call("c2", "echo", "hi")
	o.done("c2", schemas.StopCompleted, "echo says hi")
}

// While it can't prove that it lives it starts nothing; what runs goes on. A result that could
// not be stored is reported when it ends.
func TestServeEndsWithoutTheBroker(t *testing.T) {
	t.Parallel()
	connect, restart := restartable(t)
	o := newOwner(t, connect())
	runs := &counter{}
	s := serve(t, connect(), ServeOptions{Instance: "a", Tools: []Tool{gateTool("gate", runs, nil)}, closeBound: 200 * time.Millisecond})
	o.call("c1", "gate", "one")
	waitUntil(t, "the call runs", func() bool { return o.merged("c1", 1) == "one\n" })
	restart(func() {
		if err := s.stop(); err == nil {
			t.Error("it ended as if the result had been stored")
		}
	})
	if rec := o.last("c1"); rec.State != schemas.RecordStarted {
		t.Errorf("record %+v", rec)
	}
}

// An owner that is slow loses fragments, sees the gap, asks, and gets everything.
func TestCase_B02_SlowOwnerGetsEverything(t *testing.T) {
	t.Parallel()
	b := bustest.Single(t)
	conn := b.Conn(t)
	o := newOwner(t, b.Conn(t))
	const chunks, size = 6_000, 200 // half as many again as wait for a reader at most
	tool := Tool{Definition: schemas.ToolDefinition{Name: "flood"}, Run: func(_ context.Context, _ Call, out *Output) Result {
		for i := range chunks {
			fmt.Fprintf(out, "%0*d\n", size-1, i)
		}
		return Result{}
	}}
	serve(t, conn, ServeOptions{Instance: "a", Tools: []Tool{tool}, Limits: Limits{FragmentSize: size}})

	slow := newOwner(t, b.Conn(t)) // has its own connection, takes nothing until all has come
	slow.mu.Lock()
	request := o.request("c1", "flood", "", 0, 1)
	request.OutputCap = chunks * size
	o.queue(schemas.DefaultPool, request)
	rec := o.await("c1", schemas.RecordDone)
	slow.last("c1") // the answer comes behind all that was sent before
	slow.mu.Unlock()
	asked, before, still := 0, -1, 0
	waitUntil(t, "everything has come", func() bool {
		have := slow.have("c1", 1)
		if still++; have != before {
			still = 0
		}
		if have < chunks*size && still == 20 { // what was asked for has come
			still = 0
			if err := conn.RequestResend(t.Context(), "a", o.ref, "c1", 1, int64(have)); err != nil {
				t.Fatal(err)
			}
			asked++
		}
		before = have
		return have == chunks*size
	})
	if got := slow.merged("c1", 1); got != rec.Result.Output {
		t.Errorf("%d bytes came, the result has %d", len(got), len(rec.Result.Output))
	}
	if asked == 0 {
		t.Error("nothing was lost, so this test has shown nothing")
	}
}

// No call is fetched ahead of its turn: those that wait behind a long one do not expire unseen.
func TestCase_B03_NothingRunsTwice(t *testing.T) {
	t.Parallel()
	b := bustest.Single(t)
	conn := b.Conn(t)
	o := newOwner(t, conn)
	runs, begun, two := &counter{}, atomic.Int32{}, make(chan struct{})
	tool := Tool{Definition: schemas.ToolDefinition{Name: "long"}, Run: func(ctx context.Context, call Call, _ *Output) Result {
		runs.add(call)
		if begun.Add(1) == 2 {
			close(two)
		}
		// Longer than the broker waits for an acknowledgement, and the first until both have one.
		for busy, alone := time.After(shortAck*3/2), two; busy != nil || alone != nil; {
			select {
			case <-busy:
				busy = nil
			case <-alone:
				alone = nil
			case <-ctx.Done():
				return Result{}
			}
		}
		return Result{}
	}}
	for _, name := range []string{"a", "b"} {
		serve(t, b.Conn(t), ServeOptions{Instance: name, Slots: 1, Tools: []Tool{tool}, ackWait: shortAck})
	}
	const calls = 6
	for i := range calls {
		o.call(fmt.Sprint("c", i), "long", "")
	}
	by := map[string]int{}
	for i := range calls {
		by[o.done(fmt.Sprint("c", i), schemas.StopCompleted, "[no output]").Toolrunner]++
		if n := runs.of(fmt.Sprint("c", i)); n != 1 {
			t.Errorf("call %d ran %d times", i, n)
		}
	}
	if by["a"] == 0 || by["b"] == 0 {
		t.Errorf("calls by toolrunner: %v; one waited while the other held on to calls", by)
	}
}

// A toolrunner that was stopped with a call in its hands, and comes back after another has got
// it, can't start it any more; nor does its late acknowledgement harm the one who did.
func TestCase_B04_LateStartIsRefused(t *testing.T) {
	t.Parallel()
	b := bustest.Single(t)
	conn := b.Conn(t)
	o := newOwner(t, conn)
	runs, gate := &counter{}, make(chan struct{})
	request := o.call("c1", "gate", "hi")
	calls, late := raw(t, conn)
	serve(t, b.Conn(t), ServeOptions{Instance: "b", Tools: []Tool{gateTool("gate", runs, gate)}, ackWait: shortAck})
	o.await("c1", schemas.RecordStarted)
	_, err := conn.WriteRecord(t.Context(), o.ref, "c1", request.Queued, schemas.ToolRecord{State: schemas.RecordStarted, Attempt: 1, Toolrunner: "a", Nonce: "n"})
	var conflict *bus.RecordConflict
	if !errors.As(err, &conflict) || conflict.Record == nil || conflict.Record.Toolrunner != "b" {
		t.Errorf("the late start: %v", err)
	}
	if err := calls.Ack(t.Context(), late); err != nil {
		t.Error(err)
	}
	close(gate)
	if rec := o.done("c1", schemas.StopCompleted, "hi\nlet go\n"); rec.Toolrunner != "b" || runs.of("c1") != 1 {
		t.Errorf("%d runs, record %+v", runs.of("c1"), rec)
	}
}

// A safe call whose toolrunner was thought lost runs again. Its second message is no duplicate of
// the first to the broker, and what the first attempt still brings counts for nothing.
func TestCase_B04_B08_SecondAttempt(t *testing.T) {
	t.Parallel()
	b := bustest.Single(t)
	conn := b.Conn(t)
	o := newOwner(t, conn)
	runs, gate := &counter{}, make(chan struct{})
	log := &syncBuffer{}
	first := serve(t, b.Conn(t), ServeOptions{Instance: "a", Tools: []Tool{gateTool("gate", runs, gate)}, Log: zerolog.New(log), Drain: time.Minute})
	request := o.request("c1", "gate", "hi", 0, 1)
	message := o.queue(schemas.DefaultPool, request)
	started := o.await("c1", schemas.RecordStarted)
	waitUntil(t, "the first attempt runs", func() bool { return o.merged("c1", 1) == "hi\n" })
	first.cancel() // it takes no more calls, and holds on to this one
	waitUntil(t, "a is no longer announced", func() bool { return !announced(t, conn, "a") })
	serve(t, b.Conn(t), ServeOptions{Instance: "b", Tools: []Tool{echoTool("gate")}})
	again := o.queue(schemas.DefaultPool, o.request("c1", "gate", "hi", started.Sequence, 2))
	if again == message {
		t.Error("the second message was taken for the first")
	}
	if rec := o.done("c1", schemas.StopCompleted, "gate says hi"); rec.Toolrunner != "b" || rec.Attempt != 2 {
		t.Errorf("record %+v", rec)
	}
	close(gate)
	if err := first.stop(); err != nil {
		t.Error(err)
	}
	if rec := o.last("c1"); rec.Attempt != 2 || !strings.Contains(log.String(), "its result is dropped") {
		t.Errorf("record %+v, log %s", rec, log)
	}
	waitUntil(t, "the first attempt's last word has come", func() bool { return o.merged("c1", 1) == "hi\nlet go\n" })
}

// While it can't prove that it lives it takes no calls: they would be thought lost as soon as
// they had started.
func TestServeTakesNothingWhileItMayBeThoughtGone(t *testing.T) {
	t.Parallel()
	b := bustest.Single(t)
	conn := b.Conn(t)
	o := newOwner(t, conn)
	calls, err := conn.ToolQueue(t.Context(), "default", schemas.DefaultPool, bus.ToolQueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	failing := b.Conn(t) // only its proof of life fails
	beat, err := failing.StartBeat(t.Context(), bus.KindToolrunner, "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	q := &queue{s: &server{conn: conn, beat: beat, log: zerolog.Nop()}, calls: calls}
	o.call("c1", "echo", "")
	waitUntil(t, "it takes a call", func() bool {
		got, err := q.Pull(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		return len(got) == 1
	})
	failing.Close()
	waitUntil(t, "its proof of life has failed", func() bool { return !beat.Healthy() })
	o.call("c2", "echo", "")
	short, cancel := context.WithTimeout(t.Context(), 5*healthPause)
	defer cancel()
	if got, err := q.Pull(short, 1); !errors.Is(err, context.DeadlineExceeded) || len(got) != 0 {
		t.Errorf("it took %d calls, %v", len(got), err)
	}
	if waiting, _, err := conn.QueueDepth(t.Context(), "default", schemas.DefaultPool); err != nil || waiting != 1 {
		t.Errorf("%d calls wait, %v", waiting, err)
	}
	if err := beat.Stop(t.Context()); err == nil {
		t.Error("the proof of life ended well")
	}
}
