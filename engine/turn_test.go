package engine

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/llm"
	"braid/schemas"
)

// transcript renders what happened in few words, for comparison.
func transcript(messages []schemas.Message) []string {
	var out []string
	for _, m := range messages {
		switch p := m.Payload.(type) {
		case *schemas.ToolCall:
			out = append(out, "call "+p.Name+" "+p.Arguments)
		case *schemas.ApprovalRequest:
			out = append(out, "ask "+p.Name)
		case *schemas.ApprovalDecision:
			out = append(out, string(p.Decision))
		case *schemas.ToolCallOutput:
			out = append(out, strings.TrimSpace("output "+p.Output+" "+string(p.StopReason)))
		case *schemas.OwnerChanged:
			out = append(out, "owner "+p.Cause)
		case *schemas.RequestEnd:
			out = append(out, "end "+string(p.Status))
		case *schemas.Abort:
			out = append(out, "abort "+p.Reason)
		case *schemas.TaskEnd:
			out = append(out, "task "+string(p.Status))
		}
	}
	return out
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// request sends a command that may be refused.
func (h *house) approve(id, call string, d schemas.Decision, hash string) schemas.Outcome {
	h.t.Helper()
	return h.send(schemas.Command{ID: id, Type: schemas.CommandApprove, Session: ref, Approve: &schemas.ApproveBody{ToolCallID: call, Decision: d, Hash: hash}})
}

func (h *house) abort(reason string) schemas.Outcome {
	h.t.Helper()
	return h.send(schemas.Command{ID: "abort", Type: schemas.CommandAbort, Session: ref, Abort: &schemas.AbortBody{Reason: reason}})
}

// asked waits for the nth approval request, and until the model has ended the answer that asks: a decision
// may come before that as well.
func (h *house) asked(n int) *schemas.ApprovalRequest {
	h.t.Helper()
	var last *schemas.ApprovalRequest
	speaks := false
	h.follow(func(m schemas.Message) bool {
		switch p := m.Payload.(type) {
		case *schemas.RequestBegin:
			speaks = true
		case *schemas.RequestEnd:
			speaks = false
		case *schemas.ApprovalRequest:
			if n > 0 {
				last = p
				n--
			}
		}
		return n == 0 && !speaks
	})
	return last
}

// answered waits until the model has ended its first answer: the calls in it may have begun, and ended,
// before that.
func (h *house) answered() {
	h.t.Helper()
	h.follow(func(m schemas.Message) bool { return m.Kind() == schemas.KindRequestEnd })
}

// released waits until nobody owns the session.
func (h *house) released() {
	h.t.Helper()
	h.eventually("the session is not released", func() bool {
		c, found, err := h.conn.LastClaim(context.Background(), ref)
		return err == nil && found && c.State == bus.ClaimReleased
	})
}

func (h *house) eventually(what string, ok func() bool) {
	h.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(testTime)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			h.t.Fatal(what)
		}
	}
}

// Tools finish in any order; the stream shows that order, the model gets them in call order.
func TestCompletionOrderAndCallOrder(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"look", `{"n":1}`}, [2]string{"write", `{"n":2}`})})
	h.engine("e1")
	hands := h.toolrunner("r1")
	h.create("scripted/m", schemas.ApproveAll)
	h.task("t", "go")
	h.answered()
	one, two := hands.call(`{"n":1}`), hands.call(`{"n":2}`)
	two.say("second")
	if err := two.end(schemas.StopCompleted); err != nil {
		t.Fatal(err)
	}
	h.follow(func(m schemas.Message) bool { return m.Kind() == schemas.KindToolCallOutput })
	one.say("fir")
	one.say("st")
	if err := one.end(schemas.StopCompleted); err != nil {
		t.Fatal(err)
	}
	expect(t, transcript(h.follow(taskEnded)),
		`call look {"n":1}`, "allow", `call write {"n":2}`, "allow", "end completed",
		"output second", "output first", "end completed", "task completed")
}

// A call that needs a person suspends the task: nobody owns the session, nothing is kept in
// memory, no key says it is in motion. The decision wakes it on another engine.
func TestCase_C13_ApprovalSurvivesEverything(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"write", `{"n":1}`}, [2]string{"write", `{"n":2}`})})
	first := h.killable("e1")
	hands := h.toolrunner("r1")
	h.create("scripted/m", schemas.ApproveReadOnly)
	h.task("t", "go")
	ask := h.asked(1)
	h.released()
	h.eventually("the running key stays", func() bool {
		keys, err := h.conn.RunningAll(context.Background())
		return err == nil && len(keys) == 0
	})
	if first.runs(ref) {
		h.eventually("the runner stays", func() bool { return !first.runs(ref) })
	}
	first.kill()
	h.engine("e2")
	if o := h.approve("a0", ask.ToolCallID, schemas.DecisionAllow, "0000"); o.Code != schemas.CodeHashMismatch {
		t.Errorf("another hash: %+v", o)
	}
	if o := h.approve("a1", ask.ToolCallID, schemas.DecisionAllow, ask.Hash); o.Code != schemas.CodeApplied {
		t.Fatalf("allow: %+v", o)
	}
	if o := h.approve("a2", ask.ToolCallID, schemas.DecisionDeny, ""); o.Code != schemas.CodeNotPending || !strings.Contains(o.Message, "allow") {
		t.Errorf("the second decision: %+v", o)
	}
	second := h.asked(2)
	call := hands.call(`{"n":1}`)
	call.say("written")
	if err := call.end(schemas.StopCompleted); err != nil {
		t.Fatal(err)
	}
	if o := h.approve("a3", second.ToolCallID, schemas.DecisionDeny, second.Hash); o.Code != schemas.CodeApplied {
		t.Fatalf("deny: %+v", o)
	}
	got := transcript(h.follow(taskEnded))
	// The first output and the second decision are free to come in either order.
	want := []string{
		`call write {"n":1}`, "ask write", `call write {"n":2}`, "end completed", "allow", "ask write",
		"output written", "deny", "output Tool call denied by user. aborted", "end completed", "task completed",
	}
	either := []string{
		`call write {"n":1}`, "ask write", `call write {"n":2}`, "end completed", "allow", "ask write",
		"deny", "output Tool call denied by user. aborted", "output written", "end completed", "task completed",
	}
	if strings.Join(got, "\n") != strings.Join(either, "\n") {
		expect(t, got, want...)
	}
}

func TestDenyAll(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"write", `{}`})})
	h.engine("e1")
	h.toolrunner("r1")
	h.create("scripted/m", schemas.ApproveNone)
	h.task("t", "go")
	expect(t, transcript(h.follow(taskEnded)),
		"call write {}", "deny", "output Tool call denied by user. aborted", "end completed", "end completed", "task completed")
}

// What can't be run is answered without asking anybody, and the model goes on.
func TestCase_D22_D23_UnusableCalls(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript(
		[2]string{"Look", `{}`}, [2]string{"look", `[1]`}, [2]string{"look", `{"a":1,}`}, [2]string{"look", `{"a":1}{"b":2}`})})
	h.engine("e1")
	h.toolrunner("r1")
	h.create("scripted/m", schemas.ApproveAsk)
	h.task("t", "go")
	var outputs []string
	for _, m := range h.follow(taskEnded) {
		switch p := m.Payload.(type) {
		case *schemas.ApprovalRequest:
			t.Errorf("somebody was asked about %s %s", p.Name, p.Arguments)
		case *schemas.ToolCallOutput:
			outputs = append(outputs, p.Output)
			if p.StopReason != schemas.StopFailed {
				t.Errorf("stop reason %q", p.StopReason)
			}
		}
	}
	for i, part := range []string{`no tool named "Look". Available tools: look`, "must be a JSON object", "not valid JSON", "not valid JSON"} {
		if i >= len(outputs) || !strings.Contains(outputs[i], part) {
			t.Errorf("output %d of %q lacks %q", i, outputs, part)
		}
	}
}

// A tool that nobody runs fails by itself, naming the tool and the pool.
func TestNoToolrunner(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"nobody", `{}`})})
	h.engine("e1")
	h.toolrunner("r1")
	h.create("scripted/m", schemas.ApproveAll)
	h.task("t", "go")
	got := slices.DeleteFunc(transcript(h.follow(taskEnded)), func(line string) bool {
		return line == "end completed" // the model may take longer than the call waits
	})
	expect(t, got, "call nobody {}", "allow",
		`output [no toolrunner of pool "empty" took the call of tool "nobody" within 100ms; it was not run] failed`, "task completed")
}

// The engine dies while a tool runs. Another one attaches to the call: it runs once, and nothing
// of its output is lost or doubled.
func TestTakeoverWhileAToolRuns(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"write", `{}`})})
	first := h.killable("e1")
	hands := h.toolrunner("r1")
	h.create("scripted/m", schemas.ApproveAll)
	h.task("t", "go")
	h.answered()
	call := hands.call(`{}`)
	call.say("before ")
	h.follow(func(m schemas.Message) bool { return m.Kind() == schemas.KindPartialToolCallOutput })
	first.kill()
	call.say("between ") // nobody hears it
	h.engine("e2")
	h.follow(func(m schemas.Message) bool { return m.Kind() == schemas.KindOwnerChanged })
	call.say("after")
	if err := call.end(schemas.StopCompleted); err != nil {
		t.Fatal(err)
	}
	expect(t, transcript(h.follow(taskEnded)),
		"call write {}", "allow", "end completed", "owner lost", "output before between after", "end completed", "task completed")
}

// A toolrunner that is lost with a call it had started: a call that must not run twice fails, its
// outcome unknown; one that may runs again, as a new attempt.
func TestCase_D17_ToolrunnerLost(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"write", `{}`}, [2]string{"look", `{"n":2}`})})
	h.engine("e1")
	lost := h.toolrunner("r1")
	h.create("scripted/m", schemas.ApproveAll)
	h.task("t", "go")
	lost.call(`{}`).say("half")
	h.says("half")
	lost.call(`{"n":2}`).say("looked at ")
	h.says("looked at ")
	lost.stop()
	lost.done.Wait()
	if err := lost.beat.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	again := h.toolrunner("r2").call(`{"n":2}`)
	if again.request.Attempt != 2 {
		t.Errorf("attempt %d", again.request.Attempt)
	}
	again.say("it all")
	if err := again.end(schemas.StopCompleted); err != nil {
		t.Fatal(err)
	}
	got := transcript(h.follow(taskEnded))
	all := strings.Join(got, "\n")
	for _, part := range []string{
		"output half\n[the toolrunner was lost after it had started the call; whether the call took effect is unknown] failed",
		"output looked at \n[the toolrunner was lost; attempt 2 follows]\nit all",
	} {
		if !strings.Contains(all, part) {
			t.Errorf("%q lacks %q", all, part)
		}
	}
}

// An abort waits for the model and for the tools side by side; even one after the other they leave room
// for the rest of the second that an abort may take.
func TestAbortBounds(t *testing.T) {
	if d := llm.Grace + (Timing{}).withDefaults().CancelBound; d >= time.Second {
		t.Errorf("a model and then a tool that ignore an abort take %s of it", d)
	}
}

// Abort frees the session at every point, and the next prompt goes on from there: the model answers it
// only if it reads before it what the row says.
func TestAbort(t *testing.T) {
	const (
		streams = "attempts: [{steps: [{text: [one, {wait: never}]}]}]"
		stuck   = "attempts: [{steps: [{text: [one, {hang: forever}]}]}]"
		retries = "attempts: [{steps: [{text: [half, {fail: {message: overloaded, status_code: 529}}]}]}, {steps: [{text: done}]}]"
		calls   = "steps: [{tool_call: {name: write, arguments: {}}}]"

		aborted = `sender: harness, contains: ["[turn_aborted]", "go", `
		output  = `kind: tool_call_output, contains: [`
	)
	tests := map[string]struct {
		turn string
		mode schemas.ApprovalMode
		// until is what the abort waits for: of fragments one with a text.
		until schemas.Kind
		reads string
		want  []string
	}{
		"while the model streams":        {streams, schemas.ApproveAll, schemas.KindPartialText, aborted + "one]", []string{"end aborted", "abort enough", "task aborted"}},
		"while the provider ignores it":  {stuck, schemas.ApproveAll, schemas.KindPartialText, aborted + "one]", []string{"end aborted", "abort enough", "task aborted"}},
		"while it waits for a retry":     {retries, schemas.ApproveAll, schemas.KindRequestEnd, aborted + "half]", []string{"end failed", "abort enough", "task aborted"}},
		"while a person is asked":        {calls, schemas.ApproveAsk, schemas.KindRequestEnd, output + "was not run]", []string{"call write {}", "ask write", "end completed", "abort enough", "task aborted"}},
		"while a tool runs, and obeys":   {calls, schemas.ApproveAll, schemas.KindRequestEnd, output + "stopped]", []string{"call write {}", "allow", "end completed", "output stopped aborted", "abort enough", "task aborted"}},
		"while a tool runs, and is deaf": {calls, schemas.ApproveAll, schemas.KindRequestEnd, output + "still be running]", []string{"call write {}", "allow", "end completed", "output [aborted; the tool did not end in time and may still be running] aborted", "abort enough", "task aborted"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := "  - when: {input: [{" + tt.reads + "}, {role: user, equals: and on}]}\n    steps: [{text: I see.}]\n"
			h := newHouse(t, bustest.Single(t), map[string]string{"m": "turns:\n" + next + "  - " + tt.turn + "\n"})
			t.Cleanup(func() { // behind the engine, which does not wait for what is stuck
				h.script("m").Release("forever")
				if err := h.models.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			h.engine("e1", func(o *Options) {
				o.Timing.Retry = 1000 // the abort comes before
				if strings.Contains(name, "obeys") {
					o.Timing.CancelBound = time.Hour
				}
			})
			hands := h.toolrunner("r1")
			h.create("scripted/m", tt.mode)
			h.task("t", "go")
			h.follow(func(m schemas.Message) bool {
				p, streams := m.Payload.(*schemas.PartialText)
				return m.Kind() == tt.until && (!streams || p.Text != "")
			})
			if strings.Contains(name, "tool runs") {
				call := hands.call(`{}`)
				if strings.Contains(name, "obeys") {
					hands.done.Go(func() {
						<-call.cancel
						call.say("stopped")
						if err := call.end(schemas.StopAborted); err != nil {
							t.Error(err)
						}
					})
				}
			}
			if o := h.abort("enough"); o.Code != schemas.CodeApplied {
				t.Fatalf("abort: %+v", o)
			}
			messages := h.follow(taskEnded)
			expect(t, transcript(messages), tt.want...)
			h.task("t2", "and on")
			ends := 0
			all := h.follow(func(m schemas.Message) bool {
				if taskEnded(m) {
					ends++
				}
				return ends == 2
			})
			expect(t, transcript(all[len(messages):]), "end completed", "task completed")
		})
	}
}
