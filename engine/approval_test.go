package engine

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"braid/bus/bustest"
	"braid/schemas"
)

// Two people decide on one call at the same time, and a third comes later: the first decision counts,
// the others are told of it, and the call runs once.
func TestCase_C15_TheFirstDecisionCounts(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"write", `{}`})})
	h.engine("e1")
	h.engine("e2")
	hands := h.toolrunner("r1")
	h.create("scripted/m", schemas.ApproveAsk)
	h.task("t", "go")
	ask := h.asked(1)
	var both errgroup.Group
	outcomes := make([]schemas.Outcome, 2)
	for i := range outcomes {
		both.Go(func() (err error) {
			outcomes[i], _, err = h.conn.SendAndWait(context.Background(), schemas.Command{
				ID: fmt.Sprint("tab-", i), Type: schemas.CommandApprove, Session: ref,
				Approve: &schemas.ApproveBody{ToolCallID: ask.ToolCallID, Decision: schemas.DecisionAllow, Hash: ask.Hash},
			}, testTime)
			return err
		})
	}
	if err := both.Wait(); err != nil {
		t.Fatal(err)
	}
	codes := map[schemas.Code]int{}
	for _, o := range outcomes {
		codes[o.Code]++
	}
	if codes[schemas.CodeApplied] != 1 || codes[schemas.CodeNotPending] != 1 {
		t.Errorf("outcomes %+v", outcomes)
	}
	if o := h.approve("late", ask.ToolCallID, schemas.DecisionDeny, ""); o.Code != schemas.CodeNotPending {
		t.Errorf("no after yes: %+v", o)
	}
	call := hands.call(`{}`)
	call.say("written")
	if err := call.end(schemas.StopCompleted); err != nil {
		t.Fatal(err)
	}
	expect(t, transcript(h.follow(taskEnded)),
		"call write {}", "ask write", "end completed", "allow", "output written", "end completed", "task completed")
	hands.startedOnce()
}

// A follow-up while a question waits is refused, not put behind the question's back: one call, one
// question.
func TestCase_C18_AFollowUpAsksNothingAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"write", `{}`})})
	h.engine("e1")
	h.toolrunner("r1")
	h.create("scripted/m", schemas.ApproveAsk)
	h.task("t", "go")
	ask := h.asked(1)
	h.released()
	for i := range 2 {
		o := h.send(schemas.Command{ID: fmt.Sprint("and-", i), Type: schemas.CommandTask, Session: ref, Task: &schemas.TaskBody{Prompt: "and?"}})
		if o.Code != schemas.CodeTaskInProgress {
			t.Errorf("a follow-up: %+v", o)
		}
	}
	if o := h.approve("no", ask.ToolCallID, schemas.DecisionDeny, ask.Hash); o.Code != schemas.CodeApplied {
		t.Fatalf("deny: %+v", o)
	}
	expect(t, transcript(h.follow(taskEnded)),
		"call write {}", "ask write", "end completed", "deny", "output Tool call denied by user. aborted", "end completed", "task completed")
}

// Three calls in one answer are three questions, one after the other. What is allowed runs while the
// next is asked about, and the model hears nothing before all are decided.
func TestCase_C28_EachCallIsDecidedByItself(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript(
		[2]string{"write", `{"n":1}`}, [2]string{"write", `{"n":2}`}, [2]string{"write", `{"n":3}`})})
	h.engine("e1")
	hands := h.toolrunner("r1")
	h.create("scripted/m", schemas.ApproveAsk)
	h.task("t", "go")
	for n, d := range []schemas.Decision{schemas.DecisionAllow, schemas.DecisionDeny} {
		ask := h.asked(n + 1)
		if want := fmt.Sprintf(`{"n":%d}`, n+1); ask.Arguments != want || ask.Name != "write" {
			t.Errorf("asked about %s %s, want %s", ask.Name, ask.Arguments, want)
		}
		if o := h.approve(fmt.Sprint("d", n), ask.ToolCallID, d, ask.Hash); o.Code != schemas.CodeApplied {
			t.Fatalf("decision %d: %+v", n, o)
		}
	}
	call := hands.call(`{"n":1}`)
	call.say("written")
	if err := call.end(schemas.StopCompleted); err != nil {
		t.Fatal(err)
	}
	third := h.asked(3)
	h.released() // nothing is left to do but to wait: no request was begun
	begun := 0
	h.follow(func(m schemas.Message) bool {
		if m.Kind() == schemas.KindRequestBegin {
			begun++
		}
		p, ok := m.Payload.(*schemas.ToolCallOutput)
		return ok && p.Output == "written"
	})
	if begun != 1 {
		t.Errorf("%d requests were begun while a question waits", begun)
	}
	if o := h.approve("d2", third.ToolCallID, schemas.DecisionDeny, third.Hash); o.Code != schemas.CodeApplied {
		t.Fatalf("the third decision: %+v", o)
	}
	outputs := 0
	for _, m := range h.follow(taskEnded) {
		if m.Kind() == schemas.KindToolCallOutput {
			outputs++
		}
	}
	if outputs != 3 {
		t.Errorf("%d outputs", outputs)
	}
}
