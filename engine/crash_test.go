package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"braid/bus/bustest"
	"braid/schemas"
)

// rests keeps a toolrunner from taking further calls; those it has go on.
func (r *hand) rests() {
	r.stop()
	r.done.Wait()
}

// dies drops a toolrunner, with whatever it runs.
func (r *hand) dies() {
	r.t.Helper()
	r.rests()
	if err := r.beat.Stop(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

// started is how many calls the toolrunner has started.
func (r *hand) started() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.starts
}

// says waits until a tool has said this on the stream, and returns the stream up to there.
func (h *house) says(text string) []schemas.Message {
	h.t.Helper()
	var said strings.Builder
	return h.follow(func(m schemas.Message) bool {
		if p, ok := m.Payload.(*schemas.PartialToolCallOutput); ok {
			said.WriteString(p.Output)
		}
		return strings.Contains(said.String(), text)
	})
}

// unknown is the output of a call that was lost with its toolrunner.
const unknown = "[the toolrunner was lost after it had started the call; whether the call took effect is unknown]"

// What was allowed and may have been executed is not asked about again, nor executed again, when all
// that ran it is lost before its result. The answer itself can be repeated.
func TestCase_C16_ApprovedAndLostBeforeTheResult(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"write", `{}`})})
	first := h.killable("e1")
	lost := h.toolrunner("r1")
	h.create("scripted/m", schemas.ApproveAsk)
	h.task("t", "go")
	ask := h.asked(1)
	if o := h.approve("a", ask.ToolCallID, schemas.DecisionAllow, ask.Hash); o.Code != schemas.CodeApplied {
		t.Fatalf("allow: %+v", o)
	}
	lost.call(`{}`).say("executed")
	h.says("executed")
	first.kill()
	lost.dies()
	h.engine("e2")
	again := h.toolrunner("r2")
	all := h.follow(taskEnded)
	got := slices.DeleteFunc(transcript(all), func(line string) bool { return line == "owner lost" }) // also when e1 suspends first
	expect(t, got, "call write {}", "ask write", "end completed", "allow",
		"output executed\n"+unknown+" failed", "end completed", "task completed")
	if n := again.started(); n != 0 {
		t.Errorf("%d calls were started again", n)
	}
	if o := h.approve("a", ask.ToolCallID, schemas.DecisionAllow, ask.Hash); o.Code != schemas.CodeApplied {
		t.Errorf("the same answer again: %+v", o)
	}
	if o := h.approve("b", ask.ToolCallID, schemas.DecisionAllow, ask.Hash); o.Code != schemas.CodeNotRunning && o.Code != schemas.CodeNotPending {
		t.Errorf("another answer: %+v", o)
	}
}

// The owner is lost when the decision is stored and nobody has started the call: it is executed, once,
// and nobody is asked again.
func TestCase_C16_ApprovedAndLostBeforeTheStart(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"write", `{}`})})
	first := h.killable("e1")
	h.toolrunner("r0").rests() // it announces the tool, and takes no call
	h.create("scripted/m", schemas.ApproveAsk)
	h.task("t", "go")
	ask := h.asked(1)
	if o := h.approve("a", ask.ToolCallID, schemas.DecisionAllow, ask.Hash); o.Code != schemas.CodeApplied {
		t.Fatalf("allow: %+v", o)
	}
	first.kill()
	h.engine("e2")
	hands := h.toolrunner("r1")
	if err := hands.call(`{}`).end(schemas.StopCompleted); err != nil {
		t.Fatal(err)
	}
	expect(t, transcript(h.follow(taskEnded)), "call write {}", "ask write", "end completed", "allow",
		"owner lost", "output", "end completed", "task completed")
	hands.startedOnce()
}

// Two of three calls are without a result when engine and toolrunner are lost, and a person says
// something. The next input has one output a call, in call order, and what was said behind them; the
// log only grows.
func TestCase_D07_UnansweredCallsAfterACrash(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": `
turns:
  - steps:
      - tool_call: {name: write, arguments: {n: 1}}
      - tool_call: {name: write, arguments: {n: 2}}
      - tool_call: {name: write, arguments: {n: 3}}
  - expect:
      input:
        - {kind: tool_call, contains: "1"}
        - {kind: tool_call, contains: "2"}
        - {kind: tool_call, contains: "3"}
        - {kind: tool_call_output, contains: [half, unknown], stop_reason: failed}
        - {kind: tool_call_output, equals: second}
        - {kind: tool_call_output, contains: unknown, stop_reason: failed}
        - {kind: text, role: user, equals: what now}
    steps: [{text: Let me look.}]
`})
	first := h.killable("e1")
	lost := h.toolrunner("r1")
	h.create("scripted/m", schemas.ApproveAll)
	h.task("t", "go")
	h.answered()
	lost.call(`{"n":3}`)
	two := lost.call(`{"n":2}`)
	two.say("second")
	if err := two.end(schemas.StopCompleted); err != nil {
		t.Fatal(err)
	}
	h.follow(func(m schemas.Message) bool { return m.Kind() == schemas.KindToolCallOutput })
	lost.call(`{"n":1}`).say("half")
	before := dump(h.says("half"))
	first.kill()
	steer := schemas.Command{ID: "s", Type: schemas.CommandSteer, Session: ref, Task: &schemas.TaskBody{Prompt: "what now"}}
	if _, err := h.conn.SendCommand(context.Background(), steer); err != nil {
		t.Fatal(err)
	}
	h.engine("e2")
	h.follow(func(m schemas.Message) bool {
		p, ok := m.Payload.(*schemas.CommandOutcome)
		return ok && p.CommandID == "s"
	})
	lost.dies()
	all := h.follow(taskEnded)
	if last := transcript(all[len(all)-1:]); last[0] != "task completed" {
		t.Errorf("%s\n%s", last, dump(all))
	}
	if after := dump(all); !strings.HasPrefix(after, before) {
		t.Errorf("the log was\n%s\nand is\n%s", before, after)
	}
}

// A finished tool is not executed again because of what fails behind it: what is repeated is the model
// request, with the output that was recorded, and under the call's own id, which the tool was given.
func TestCase_D15_FinishedToolsStayFinished(t *testing.T) {
	for why, failure := range map[string]string{
		"the model call fails":             "fail: {message: oops, status_code: 500}",
		"the owner is lost with its call":  "wait: never",
		"the owner is lost at its result":  "fail: {message: oops, status_code: 500}",
		"the owner hands over in its call": "wait: never",
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, bustest.Single(t), map[string]string{"m": `
turns:
  - steps:
      - tool_call: {name: write, arguments: {charge: 1}}
  - attempts:
      - steps: [{` + failure + `}]
      - expect:
          input: [{kind: tool_call}, {kind: tool_call_output, equals: charged}]
        steps: [{text: paid}]
`})
			soon := func(o *Options) { o.Timing.Retry = thousandth }
			first := h.killable("e1", soon)
			defer first.kill()
			hands := h.toolrunner("r1")
			h.create("scripted/m", schemas.ApproveAll)
			h.task("t", "go")
			h.answered()
			call := hands.call(`{"charge":1}`)
			call.say("charged")
			h.says("charged")
			early := strings.HasSuffix(why, "at its result")
			if early {
				first.kill()
			}
			if err := call.end(schemas.StopCompleted); err != nil {
				t.Fatal(err)
			}
			if !early {
				requests := 0
				h.follow(func(m schemas.Message) bool {
					if m.Kind() == schemas.KindRequestBegin {
						requests++
					}
					return requests == 2
				})
			}
			h.engine("e2", soon)
			switch {
			case strings.Contains(why, "lost with"):
				first.kill()
			case strings.Contains(why, "hands over"):
				if err := first.Stop(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			all := h.follow(taskEnded)
			if last := transcript(all[len(all)-1:]); last[0] != "task completed" {
				t.Errorf("%s\n%s", last, dump(all))
			}
			for _, m := range all {
				if p, ok := m.Payload.(*schemas.ToolCall); ok && p.ToolCallID != call.request.ToolCallID {
					t.Errorf("the tool was given the id %q of the call %q", call.request.ToolCallID, p.ToolCallID)
				}
			}
			hands.startedOnce()
		})
	}
}

// Engine and toolrunner are lost with a call that must not run twice, and the first thing a person says
// is stop, or anything else. Nothing runs again by itself: what is known of the call is said to be all.
func TestCase_D16_NothingRestartsUnasked(t *testing.T) {
	posts := &schemas.TaskBody{Prompt: "stop", WhenBusy: schemas.BusyQueue}
	goesOn := []string{"output half\n" + unknown + " failed", "end completed", "task completed"}
	for why, tt := range map[string]struct {
		says schemas.Command
		want []string
	}{
		"stops": {schemas.Command{Type: schemas.CommandAbort, Abort: &schemas.AbortBody{Reason: "stop"}}, []string{
			"output half\n[aborted; the tool did not end in time and may still be running] aborted", "abort stop", "task aborted",
		}},
		"steers": {schemas.Command{Type: schemas.CommandSteer, Task: &schemas.TaskBody{Prompt: "stop"}}, goesOn},
		"posts":  {schemas.Command{Type: schemas.CommandTask, Task: posts}, goesOn},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, bustest.Single(t), map[string]string{"m": `
turns:
  - steps: [{tool_call: {name: write, arguments: {}}}]
  - steps: [{text: I had better ask.}]
`})
			first := h.killable("e1")
			lost := h.toolrunner("r1")
			h.create("scripted/m", schemas.ApproveAll)
			h.task("t", "go")
			h.answered()
			lost.call(`{}`).say("half")
			h.says("half")
			first.kill()
			lost.dies()
			tt.says.ID, tt.says.Session = "s", ref
			if _, err := h.conn.SendCommand(context.Background(), tt.says); err != nil {
				t.Fatal(err)
			}
			again := h.toolrunner("r2")
			h.engine("e2", func(o *Options) {
				if why == "stops" {
					o.Timing.Watch = time.Hour // so that the stop comes before the loss is seen
				}
			})
			want := append([]string{"call write {}", "allow", "end completed", "owner lost"}, tt.want...)
			expect(t, transcript(h.follow(taskEnded)), want...)
			if n := again.started(); n != 0 {
				t.Errorf("%d calls were started again", n)
			}
		})
	}
}

// Three calls of a turn run on three toolrunners and end at different moments, in another order than
// they were called in; the engine is lost in between. The next request comes when all have ended, with
// the outputs in call order; the stream shows them as they came.
func TestCase_D18_AllResultsOrNoRequest(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": `
turns:
  - steps:
      - tool_call: {name: write, arguments: {n: 1}}
      - tool_call: {name: look, arguments: {n: 2}}
      - tool_call: {name: write, arguments: {n: 3}}
  - expect:
      input:
        - {kind: tool_call_output, equals: one}
        - {kind: tool_call_output, equals: two}
        - {kind: tool_call_output, equals: three}
    steps: [{text: all of them}]
`})
	first := h.killable("e1")
	h.toolrunner("r0").rests() // it announces the tools, and takes no call
	h.create("scripted/m", schemas.ApproveAsk)
	h.task("t", "go")
	var calls []*handCall
	for i := range 3 { // one is allowed at a time, and started by the one toolrunner that takes calls
		ask := h.asked(i + 1)
		runner := h.toolrunner(fmt.Sprint("r", i+1))
		if o := h.approve(fmt.Sprint("a", i), ask.ToolCallID, schemas.DecisionAllow, ask.Hash); o.Code != schemas.CodeApplied {
			t.Fatalf("allow: %+v", o)
		}
		calls = append(calls, runner.call(fmt.Sprintf(`{"n":%d}`, i+1)))
		runner.rests()
	}
	end := func(call *handCall, text string, outputs int) {
		t.Helper()
		call.say(text)
		if err := call.end(schemas.StopCompleted); err != nil {
			t.Fatal(err)
		}
		h.follow(func(m schemas.Message) bool {
			if m.Kind() == schemas.KindToolCallOutput {
				outputs--
			}
			return outputs == 0
		})
	}
	end(calls[2], "three", 1)
	first.kill()
	h.engine("e2")
	h.follow(func(m schemas.Message) bool { return m.Kind() == schemas.KindOwnerChanged })
	end(calls[0], "one", 2)
	end(calls[1], "two", 3)
	var got []string
	for _, m := range h.follow(taskEnded) {
		if m.Kind() == schemas.KindRequestBegin {
			got = append(got, "request")
		}
		got = append(got, transcript([]schemas.Message{m})...)
	}
	got = slices.DeleteFunc(got, func(line string) bool {
		return strings.HasPrefix(line, "call ") || strings.HasPrefix(line, "ask ") || line == "allow"
	})
	expect(t, got, "request", "end completed", "output three", "owner lost", "output one", "output two",
		"request", "end completed", "task completed")
}
