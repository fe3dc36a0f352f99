package engine

import (
	"context"
	"testing"
	"time"

	"braid/bus/bustest"
	"braid/schemas"
)

// createUrgent creates a session that denies what nobody decides in time.
func (h *house) createUrgent(model string, timeout time.Duration) {
	h.t.Helper()
	o := h.send(schemas.Command{ID: "create", Type: schemas.CommandCreate, Session: ref, Create: &schemas.CreateBody{
		Model: model, ApprovalMode: schemas.ApproveReadOnly, ApprovalTimeoutMS: timeout.Milliseconds(),
	}})
	if o.Code != schemas.CodeApplied {
		h.t.Fatalf("create: %+v", o)
	}
}

var deniedInTime = []string{
	"call write {}", "ask write", "end completed", "deny",
	"output Tool call denied: nobody decided in time. aborted", "end completed", "task completed",
}

// A question expires while nobody owns its session: the broker wakes it.
func TestDeadlineWakesASuspendedSession(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"write", `{}`})})
	h.engine("e1")
	h.toolrunner("r1")
	h.createUrgent("scripted/m", 3*time.Second)
	h.task("t", "go")
	ask := h.asked(1)
	if at, err := time.Parse(time.RFC3339Nano, ask.Deadline); err != nil || at.Before(time.Now().Add(-time.Minute)) {
		t.Fatalf("deadline %q: %v", ask.Deadline, err)
	}
	h.released()
	h.eventually("the running key stays", func() bool {
		keys, err := h.conn.RunningAll(context.Background())
		return err == nil && len(keys) == 0
	})
	expect(t, transcript(h.follow(taskEnded)), deniedInTime...)
	if o := h.approve("late", ask.ToolCallID, schemas.DecisionAllow, ""); o.Code != schemas.CodeNotPending {
		t.Errorf("a decision after the deadline: %+v", o)
	}
}

// The deadline passes while no engine lives. Who takes over denies at once.
func TestCase_C14_DeadlinePassesWithoutAnEngine(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"write", `{}`})})
	first := h.killable("e1")
	h.toolrunner("r1")
	h.createUrgent("scripted/m", time.Second)
	h.task("t", "go")
	h.asked(1)
	h.released()
	first.kill()
	h.eventually("the broker sends no deadline", func() bool {
		commands, err := h.conn.ReadCommands(context.Background(), ref, 0, 0)
		return err == nil && len(commands) == 3 && commands[2].Type == schemas.CommandDeadline
	})
	h.engine("e2")
	expect(t, transcript(h.follow(taskEnded)), deniedInTime...)
}

// Nobody has heard from the broker that the deadline has passed, and a person allows the call behind it.
func TestDecisionBehindTheDeadline(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"write", `{}`})})
	h.engine("e1")
	h.toolrunner("r1")
	h.createUrgent("scripted/m", time.Millisecond)
	h.task("t", "go")
	ask := h.asked(1)
	at, err := time.Parse(time.RFC3339Nano, ask.Deadline)
	if err != nil {
		t.Fatal(err)
	}
	h.eventually("time stands still", func() bool { return time.Now().After(at) })
	if o := h.approve("late", ask.ToolCallID, schemas.DecisionAllow, ask.Hash); o.Code != schemas.CodeNotPending {
		t.Errorf("a decision behind the deadline: %+v", o)
	}
	var got []string
	for _, line := range transcript(h.follow(taskEnded)) {
		if line != "end completed" { // the model's own end comes before the denial, or behind it
			got = append(got, line)
		}
	}
	expect(t, got, "call write {}", "ask write", "deny", "output Tool call denied: nobody decided in time. aborted", "task completed")
}

// The owner is lost with the question, and the deadline that it stored, or was to store, is not there:
// its successor stores it. Nobody lets go of the session here: the owner dies while it waits.
func TestDeadlineOutlivesItsOwner(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"write", `{}`})})
	stay := func(o *Options) { o.Timing.Suspend = time.Hour }
	first := h.killable("e1", stay)
	h.toolrunner("r1")
	h.createUrgent("scripted/m", 3*time.Second)
	h.task("t", "go")
	ask := h.asked(1)
	first.kill()
	if err := h.conn.Unschedule(context.Background(), ref, ask.ToolCallID); err != nil {
		t.Fatal(err)
	}
	h.engine("e2", stay)
	want := append(append([]string{}, deniedInTime[:3]...), append([]string{"owner lost"}, deniedInTime[3:]...)...)
	expect(t, transcript(h.follow(taskEnded)), want...)
}

// A decision takes the deadline away; the one that waits next has its own.
func TestDecisionClearsTheDeadline(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"write", `{"n":1}`}, [2]string{"write", `{"n":2}`})})
	h.engine("e1")
	hands := h.toolrunner("r1")
	h.createUrgent("scripted/m", 3*time.Second)
	h.task("t", "go")
	ask := h.asked(1)
	if o := h.approve("a", ask.ToolCallID, schemas.DecisionAllow, ask.Hash); o.Code != schemas.CodeApplied {
		t.Fatalf("allow: %+v", o)
	}
	call := hands.call(`{"n":1}`)
	call.say("written")
	if err := call.end(schemas.StopCompleted); err != nil {
		t.Fatal(err)
	}
	h.follow(taskEnded) // the second call is denied
	commands, err := h.conn.ReadCommands(context.Background(), ref, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range commands {
		if c.Type == schemas.CommandDeadline && c.Deadline.ToolCallID == ask.ToolCallID {
			t.Errorf("the deadline of the first call came all the same: %+v", c.Command)
		}
	}
}
