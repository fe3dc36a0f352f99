package engine

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"braid/bus"
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

// deniedInTime wants that the one call was denied since nobody decided in time. Whether the model ends its
// answer before or behind that is free, and who owned the session meanwhile besides.
func deniedInTime(t *testing.T, messages []schemas.Message) {
	t.Helper()
	got := slices.DeleteFunc(transcript(messages), func(line string) bool {
		return line == "end completed" || strings.HasPrefix(line, "owner ")
	})
	expect(t, got, "call write {}", "ask write", "deny", "output Tool call denied: nobody decided in time. aborted", "task completed")
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
	deniedInTime(t, h.follow(taskEnded))
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
		return err == nil && slices.ContainsFunc(commands, func(c bus.StoredCommand) bool { return c.Type == schemas.CommandDeadline })
	})
	h.engine("e2")
	deniedInTime(t, h.follow(taskEnded))
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
	deniedInTime(t, h.follow(taskEnded))
}

// The owner is lost with the question, and with the deadline that it was to store: its successor stores it.
// Nobody lets go of the session here: the owner dies while it waits.
func TestDeadlineOutlivesItsOwner(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), map[string]string{"m": callScript([2]string{"write", `{}`})})
	stay := func(o *Options) { o.Timing.Suspend = time.Hour }
	first, w := h.wired("e1", stay)
	h.toolrunner("r1")
	h.createUrgent("scripted/m", time.Second)
	schedule := w.hold(schedules)
	h.task("t", "go")
	h.asked(1)
	schedule.wait()
	crash(first, w)
	h.engine("e2", stay)
	all := h.follow(taskEnded)
	deniedInTime(t, all)
	if lines := transcript(all); !slices.Contains(lines, "owner lost") {
		t.Errorf("nobody took the session over: %q", lines)
	}
}

// schedules is where deadlines are stored until their time.
const schedules = "braid.p.command.at."

// A decision takes the deadline away; the one that waits next has its own.
func TestDecisionClearsTheDeadline(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), map[string]string{"m": callScript([2]string{"write", `{"n":1}`}, [2]string{"write", `{"n":2}`})})
	e, w := h.wired("e1")
	h.stops(e)
	h.toolrunner("r1")
	h.createUrgent("scripted/m", time.Hour)
	first := w.hold(schedules)
	h.task("t", "go")
	ask := h.asked(1)
	first.wait()
	first.release()
	clears := w.hold("$JS.API.STREAM.PURGE.COMMANDS", schedules, ask.ToolCallID)
	next := w.hold(schedules)
	if o := h.approve("a", ask.ToolCallID, schemas.DecisionAllow, ask.Hash); o.Code != schemas.CodeApplied {
		t.Fatalf("allow: %+v", o)
	}
	clears.wait()
	select {
	case <-next.first:
		t.Error("the next deadline is stored while one before it is not removed")
	case <-time.After(300 * time.Millisecond):
	}
	clears.release()
	next.wait()
	next.release()
	if second := h.asked(2); second.Deadline == "" || second.ToolCallID == ask.ToolCallID {
		t.Errorf("then it asks %+v", second)
	}
}
