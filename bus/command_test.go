package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

var commandTests = []workTest{
	{"commands are read in order of both lanes", testCommandOrder},
	{"a repeat is stored once", testCommandRepeat},
	{"a command says where it comes from", testCommandCaller},
	{"TestCase_B09_two_sessions_use_the_same_id", testCaseB09EqualIDs},
	{"TestCase_C22_another_body_under_the_same_id_is_a_conflict", testCaseC22Conflict},
	{"TestCase_B16_names_never_reach_a_subject", testCaseB16Names},
	{"what is no command becomes an invalid one", testInvalidCommands},
	{"commands are read up to where the wake-up says", testCommandReach},
	{"a reach whose message is gone does not hide the others", testCommandReachGone},
	{"many commands are read in pages", testCommandPages},
	{"a command over the max payload", testCommandLarge},
	{"a command that names another's body", testCommandForeignBody},
	{"a command too large is refused at the edge", testCommandTooLarge},
	{"the outcome comes as a reply", testSendAndWait},
	{"a lost reply is asked for", testSendAndWaitAsks},
	{"a duplicate asks for the outcome", testSendAndWaitDuplicate},
	{"nobody answers", testSendAndWaitSilence},
	{"a reply goes to an inbox only", testReplySubject},
}

func testCommandOrder(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	other := schemas.SessionRef{Project: project, ID: "other"}
	var last uint64
	var want []string
	for i := range 6 {
		id := fmt.Sprintf("c%d", i)
		if i%2 == 0 {
			last = send(t, c, task(ref, id, "do it"))
		} else {
			last = send(t, c, abort(ref, id))
		}
		send(t, c, task(other, id, "elsewhere"))
		want = append(want, id)
	}
	for _, reach := range []uint64{last, 0} {
		got, err := c.ReadCommands(testContext(t), ref, 0, reach)
		if err != nil {
			t.Fatal(err)
		}
		if ids(got) != strings.Join(want, " ") {
			t.Errorf("reach %d: got %s, want %s", reach, ids(got), want)
		}
		if got[1].Lane != bus.LaneControl || got[0].Lane != bus.LaneRun || got[0].Task.Prompt != "do it" || got[0].Time.IsZero() {
			t.Errorf("reach %d: got %+v", reach, got[:2])
		}
	}
	if err := c.Wake(testContext(t), ref); err != nil {
		t.Fatal(err)
	}
	got, err := c.ReadCommands(testContext(t), ref, last, 0)
	if err != nil || len(got) != 0 {
		t.Errorf("after the last one, with a wake: got %v, %v, want nothing", got, err)
	}
}

func testCommandRepeat(t *testing.T, b *bustest.Broker, project string) {
	c, again := b.Conn(t), b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	first, err := c.SendCommand(testContext(t), task(ref, "c", "once"))
	if err != nil {
		t.Fatalf("got %+v, %v", first, err)
	}
	second, err := again.SendCommand(testContext(t), task(ref, "c", "once"))
	if err != nil || !second.Duplicate || second.Sequence != first.Sequence {
		t.Fatalf("got %+v, %v, want a duplicate of %d", second, err, first.Sequence)
	}
	got, err := c.ReadCommands(testContext(t), ref, 0, 0)
	if err != nil || ids(got) != "c" {
		t.Fatalf("got %s, %v", ids(got), err)
	}
}

var somewhere = schemas.TraceContext{TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", TraceState: "vendor=1"}

// Where a command comes from is beside it: a repeat may come from elsewhere, and what is malformed is left
// out, whoever sends it.
func testCommandCaller(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	cmd := task(ref, "c", "once")
	cmd.Caller = somewhere
	send(t, c, cmd)
	cmd.Caller.TraceParent = strings.Replace(cmd.Caller.TraceParent, "b7ad", "b7ae", 1)
	if r, err := c.SendCommand(testContext(t), cmd); err != nil || !r.Duplicate {
		t.Errorf("a repeat from elsewhere: %+v, %v", r, err)
	}
	bad := task(ref, "bad", "x")
	bad.Caller = schemas.TraceContext{TraceParent: "a\r\nBraid-Reply: b", TraceState: "c\r\nd: e"}
	send(t, c, bad)
	large := task(ref, "large", strings.Repeat("x", schemas.MaxPrompt))
	large.Caller = schemas.TraceContext{TraceParent: somewhere.TraceParent, TraceState: strings.Repeat("s", schemas.MaxTraceState)}
	send(t, c, large)
	got, err := c.ReadCommands(testContext(t), ref, 0, 0)
	if err != nil || ids(got) != "c bad large" {
		t.Fatalf("got %s, %v", ids(got), err)
	}
	for i, want := range []schemas.TraceContext{somewhere, {}, large.Caller} {
		if got[i].Caller != want {
			t.Errorf("%s comes from %+v, want %+v", got[i].ID, got[i].Caller, want)
		}
	}
}

// The broker's memory of ids spans the stream: without more in the id, the second is swallowed.
func testCaseB09EqualIDs(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	for _, ref := range []schemas.SessionRef{{Project: project, ID: "a"}, {Project: project, ID: "b"}, {Project: project + "x", ID: "a"}} {
		r, err := c.SendCommand(testContext(t), task(ref, "c", "for "+ref.String()))
		if err != nil { // it may be a duplicate of its own first try
			t.Fatalf("%s: got %+v, %v", ref, r, err)
		}
		got, err := c.ReadCommands(testContext(t), ref, 0, r.Sequence)
		if err != nil || len(got) != 1 || got[0].Task.Prompt != "for "+ref.String() {
			t.Fatalf("%s: got %+v, %v", ref, got, err)
		}
	}
}

func testCaseC22Conflict(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	send(t, c, task(ref, "k", "first"))
	for _, other := range []schemas.Command{task(ref, "k", "second"), abort(ref, "k")} {
		r, err := c.SendCommand(testContext(t), other)
		if !errors.Is(err, &schemas.Error{Code: schemas.CodeConflict}) {
			t.Errorf("%s: got %+v, %v, want a conflict", other.Type, r, err)
		}
		if _, _, err := c.SendAndWait(testContext(t), other, testTime); !errors.Is(err, &schemas.Error{Code: schemas.CodeConflict}) {
			t.Errorf("%s: got %v, want a conflict", other.Type, err)
		}
	}
}

func testCaseB16Names(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ctx := testContext(t)
	good := schemas.SessionRef{Project: project, ID: "s"}
	send(t, c, task(good, "secret", "of another session"))
	for _, name := range hostileNames {
		byID := schemas.SessionRef{Project: project, ID: name}
		byProject := schemas.SessionRef{Project: name, ID: "s"}
		request := schemas.ToolRequest{Session: good, ToolCallID: "c", Name: "t", Queued: 1}
		named := request
		named.Name = name
		edges := map[string]func() error{
			"send, session":   func() error { _, err := c.SendCommand(ctx, task(byID, "c", "x")); return err },
			"send, project":   func() error { _, err := c.SendCommand(ctx, task(byProject, "c", "x")); return err },
			"send, id":        func() error { _, err := c.SendCommand(ctx, task(good, name, "x")); return err },
			"read":            func() error { _, err := c.ReadCommands(ctx, byID, 0, 0); return err },
			"wake":            func() error { return c.Wake(ctx, byID) },
			"deliver":         func() error { _, err := c.Deliver(ctx, name, bus.WakeUp{}); return err },
			"serve deliver":   func() error { _, err := c.ServeDeliver(name, nil); return err },
			"beat":            func() error { _, err := c.StartBeat(ctx, bus.KindEngine, name, nil); return err },
			"mark, instance":  func() error { _, err := c.MarkRunning(ctx, name, good); return err },
			"mark, session":   func() error { _, err := c.MarkRunning(ctx, "i", byID); return err },
			"clear":           func() error { return c.ClearRunning(ctx, name, good, 1) },
			"clear others":    func() error { return c.ClearOthers(ctx, byID, "i", 1) },
			"running of":      func() error { _, err := c.RunningOf(ctx, name); return err },
			"schedule":        func() error { return c.Schedule(ctx, good, name, time.Now(), abort(good, "c")) },
			"unschedule":      func() error { return c.Unschedule(ctx, byID, "c") },
			"write record":    func() error { _, err := c.WriteRecord(ctx, good, name, 0, queued(1)); return err },
			"last record":     func() error { _, _, err := c.LastRecord(ctx, byID, "c"); return err },
			"watch records":   func() error { _, err := c.WatchRecords(byID, nil); return err },
			"queue, pool":     func() error { _, err := c.QueueTool(ctx, name, request); return err },
			"queue, tool":     func() error { _, err := c.QueueTool(ctx, "p", named); return err },
			"tool queue":      func() error { _, err := c.ToolQueue(ctx, project, name, bus.ToolQueueOptions{}); return err },
			"fragment":        func() error { return c.PublishFragment(good, schemas.ToolFragment{ToolCallID: name}) },
			"fragments":       func() error { _, err := c.SubscribeFragments(byID, nil, nil); return err },
			"serve control":   func() error { _, err := c.ServeControl(name, nil); return err },
			"cancel":          func() error { return c.CancelCall(ctx, name, good, "c") },
			"announce":        func() error { return c.Announce(ctx, bus.Announcement{Project: project, Instance: name}) },
			"tools":           func() error { _, _, err := c.Tools(ctx, name, nil); return err },
			"query":           func() error { _, err := c.Query(ctx, bus.Query{Op: bus.QuerySession, Project: name}); return err },
			"queue depth":     func() error { _, _, err := c.QueueDepth(ctx, project, name); return err },
			"unannounce":      func() error { return c.Unannounce(ctx, project, name) },
			"resend, session": func() error { return c.RequestResend(ctx, "i", byID, "c", 1, 0) },
		}
		for edge, call := range edges {
			if err := call(); !errors.Is(err, &schemas.Error{Code: schemas.CodeInvalid}) {
				t.Errorf("%s of %q: got %v, want invalid", edge, name, err)
			}
		}
	}
}

func testInvalidCommands(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	run := "braid." + project + ".command.run.s"
	elsewhere := `{"id":"mine","type":"task","session":{"project":"` + project + `","id":"t"},"task":{"prompt":"x"}}`
	first := raw(t, c, run, []byte("no JSON"))
	raw(t, c, run, []byte(`{"id":"known","type":"nonsense","session":{"project":"`+project+`","id":"s"}}`))
	raw(t, c, run, []byte(elsewhere))
	raw(t, c, run, nil)
	last := send(t, c, task(ref, "good", "x"))
	got, err := c.ReadCommands(testContext(t), ref, 0, last)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("invalid-%d known mine invalid-%d good", first, last-1)
	if b.Nodes != nil && ids(got) != want && len(got) != 5 {
		t.Fatalf("got %s, want %s", ids(got), want)
	}
	for i, cmd := range got {
		if bad := i < 4; bad != (cmd.Invalid != nil) {
			t.Errorf("%s: invalid is %v", cmd.ID, cmd.Invalid)
		}
		if cmd.Session != ref || !schemas.ValidName(cmd.ID) {
			t.Errorf("%s: session %s", cmd.ID, cmd.Session)
		}
	}
}

func testCommandReach(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	var seqs []uint64
	for i := range 5 {
		seqs = append(seqs, send(t, c, task(ref, fmt.Sprintf("c%d", i), "x")))
	}
	for _, row := range []struct {
		why          string
		after, reach uint64
		want         string
	}{
		{"a stretch in the middle", seqs[0], seqs[2], "c1 c2"},
		{"the last one", seqs[3], seqs[4], "c4"},
		{"an old wake-up", seqs[3], seqs[1], ""},
		{"a wake-up for what was read", seqs[2], seqs[2], ""},
		{"no wake-up: what is there", seqs[2], 0, "c3 c4"},
	} {
		got, err := c.ReadCommands(testContext(t), ref, row.after, row.reach)
		if err != nil || ids(got) != row.want {
			t.Errorf("%s: got %q, %v, want %q", row.why, ids(got), err, row.want)
		}
	}
}

// No replica can show a message that was removed; the leader's word that it is at that sequence
// settles it.
func testCommandReachGone(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ctx := testContext(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	send(t, c, task(ref, "a", "x"))
	send(t, c, abort(ref, "b"))
	gone := send(t, c, task(ref, "c", "x"))
	stream, err := c.JetStream().Stream(ctx, "COMMANDS")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(ctx, gone); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the message is gone", func() bool { // a replica may still have it
		got, err := c.ReadCommands(ctx, ref, 0, gone)
		if err != nil || ids(got) != "a b" && ids(got) != "a b c" {
			t.Fatalf("got %q, %v, want a and b", ids(got), err)
		}
		return ids(got) == "a b"
	})
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	// A sequence the stream has not reached must not be taken for an empty session.
	if _, err := c.ReadCommands(short, ref, 0, gone+1_000_000); !errors.Is(err, &schemas.Error{Code: schemas.CodeUnavailable}) {
		t.Fatalf("beyond the end: got %v, want unavailable", err)
	}
}

func testCommandPages(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	var want []string
	for i := range 200 {
		cmd := task(ref, fmt.Sprintf("c%d", i), "x")
		if i%3 == 0 {
			cmd = abort(ref, cmd.ID)
		}
		send(t, c, cmd)
		want = append(want, cmd.ID)
	}
	got, err := c.ReadCommands(testContext(t), ref, 0, 0)
	if err != nil || ids(got) != strings.Join(want, " ") {
		t.Fatalf("got %d commands, %v", len(got), err)
	}
}

// answerCommands plays an engine for one session: it hears wake-ups by reading, and gives each
// command an outcome.
func applied(cmd bus.StoredCommand) schemas.Outcome {
	return schemas.Outcome{CommandID: cmd.ID, Sequence: cmd.Sequence, Code: schemas.CodeApplied}
}

func testSendAndWait(t *testing.T, b *bustest.Broker, project string) {
	sender, engine := b.Conn(t), b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		cmd := awaitCommand(t, engine, ref)
		// A reply to another command of the same inbox must not be taken for ours.
		if err := engine.Reply(cmd, schemas.Outcome{CommandID: "other", Code: schemas.CodeInternal}); err != nil {
			t.Error(err)
		}
		if err := engine.Reply(cmd, applied(cmd)); err != nil {
			t.Error(err)
		}
	})
	o, r, err := sender.SendAndWait(testContext(t), task(ref, "c", "x"), testTime)
	if err != nil || o.Code != schemas.CodeApplied || o.CommandID != "c" || r.Sequence != o.Sequence {
		t.Fatalf("got %+v, %+v, %v", o, r, err)
	}
}

// awaitCommand waits for the session's first command.
func awaitCommand(t *testing.T, c *bus.Conn, ref schemas.SessionRef) bus.StoredCommand {
	var got []bus.StoredCommand
	eventually(t, "a command of "+ref.String(), func() bool {
		var err error
		if got, err = c.ReadCommands(t.Context(), ref, 0, 0); err != nil {
			t.Error(err)
		}
		return len(got) > 0
	})
	return got[0]
}

// serveOutcomes answers outcome queries of one project; brokers are shared, so others' questions
// are answered as unknown.
func serveOutcomes(t *testing.T, c *bus.Conn, ref schemas.SessionRef, known func(id string) (schemas.Outcome, bool)) {
	t.Helper()
	queryGate.Lock()
	stop, err := c.ServeQueries(func(_ context.Context, q bus.Query) (any, error) {
		var args bus.OutcomeArgs
		if err := q.DecodeArgs(&args); err != nil {
			return nil, err
		}
		if q.Ref() == ref && q.Op == bus.QueryOutcome {
			if o, ok := known(args.CommandID); ok {
				return o, nil
			}
		}
		return nil, schemas.Errorf(schemas.CodeNotFound, "no outcome yet")
	})
	if err != nil {
		queryGate.Unlock()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		queryGate.Unlock()
	})
}

// queryGate lets one test at a time answer queries: all engines share one subject.
var queryGate sync.Mutex

// The engine recorded the outcome and died before it replied.
func testSendAndWaitAsks(t *testing.T, b *bustest.Broker, project string) {
	sender, engine := b.Conn(t), b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	serveOutcomes(t, engine, ref, func(id string) (schemas.Outcome, bool) {
		return schemas.Outcome{CommandID: id, Code: schemas.CodeTaskInProgress}, true
	})
	o, _, err := sender.SendAndWait(testContext(t), task(ref, "c", "x"), testTime)
	if err != nil || o.Code != schemas.CodeTaskInProgress {
		t.Fatalf("got %+v, %v", o, err)
	}
}

// The stored message carries the first sender's inbox: who only listens waits for ever.
func testSendAndWaitDuplicate(t *testing.T, b *bustest.Broker, project string) {
	sender, engine := b.Conn(t), b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	seq := send(t, sender, task(ref, "c", "x"))
	serveOutcomes(t, engine, ref, func(id string) (schemas.Outcome, bool) {
		return schemas.Outcome{CommandID: id, Sequence: seq, Code: schemas.CodeApplied}, true
	})
	o, r, err := sender.SendAndWait(testContext(t), task(ref, "c", "x"), testTime)
	if err != nil || o.Sequence != seq || !r.Duplicate {
		t.Fatalf("got %+v, %+v, %v", o, r, err)
	}
}

func testSendAndWaitSilence(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	// Who asks for the outcome knows that the command is stored.
	listening, err := c.NATS().Subscribe("braid.query", func(m *nats.Msg) {
		if bytes.Contains(m.Data, []byte(`"`+project+`"`)) {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Unsubscribe()
	_, r, err := c.SendAndWait(ctx, task(ref, "c", "x"), testTime)
	if !errors.Is(err, &schemas.Error{Code: schemas.CodeUnavailable}) {
		t.Fatalf("got %v, want unavailable", err)
	}
	if r.Sequence == 0 {
		t.Error("the receipt does not say that the command is stored")
	}
}

func testReplySubject(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	sub, err := c.NATS().SubscribeSync("elsewhere." + project)
	if err != nil {
		t.Fatal(err)
	}
	body, err := schemas.EncodeJSON(task(ref, "c", "x"))
	if err != nil {
		t.Fatal(err)
	}
	rawWithReply(t, c, ref, body, "elsewhere."+project)
	cmd := awaitCommand(t, c, ref)
	if err := c.Reply(cmd, applied(cmd)); err != nil {
		t.Fatal(err)
	}
	settle(t, c)
	if n, _, _ := sub.Pending(); n != 0 {
		t.Error("an outcome was sent to a subject that is no inbox")
	}
}
