package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// These tests stop or kill an engine between two things it says, or let one of them arrive late.

var oneWrite = map[string]string{"m": callScript([2]string{"write", `{}`})}

// withoutWatch leaves an engine to what the broker rings for: it looks after nobody's keys.
func withoutWatch(o *Options) { o.Timing.Watch = time.Hour }

func withRoom(n int) func(*Options) { return func(o *Options) { o.MaxSessions = n } }

// post stores a command and waits for nothing.
func (h *house) post(c schemas.Command) bus.Receipt {
	h.t.Helper()
	r, err := h.conn.SendCommand(context.Background(), c)
	if err != nil {
		h.t.Fatalf("%s: %v", c.Type, err)
	}
	return r
}

func taskCommand(id string) schemas.Command {
	return schemas.Command{ID: id, Type: schemas.CommandTask, Session: ref, Task: &schemas.TaskBody{Prompt: "go"}}
}

func allow(call string) schemas.Command {
	return schemas.Command{ID: "decision", Type: schemas.CommandApprove, Session: ref, Approve: &schemas.ApproveBody{ToolCallID: call, Decision: schemas.DecisionAllow}}
}

// outcomes lists how a command was answered, as the log has it.
func (h *house) outcomes(id string) (codes []schemas.Code) {
	h.t.Helper()
	for f, err := range h.conn.ReadFrames(context.Background(), ref, 0, 0, bus.LogOnly) {
		if err != nil {
			h.t.Fatal(err)
		}
		for _, m := range f.Messages {
			if p, ok := m.Payload.(*schemas.CommandOutcome); ok && p.CommandID == id {
				codes = append(codes, p.Code)
			}
		}
	}
	return codes
}

func (h *house) once(id string, code schemas.Code) {
	h.t.Helper()
	if diff := cmp.Diff([]schemas.Code{code}, h.outcomes(id)); diff != "" {
		h.t.Errorf("outcomes of %s (-want +got)\n%s", id, diff)
	}
}

func (h *house) claim() bus.Claim {
	h.t.Helper()
	c, _, err := h.conn.LastClaim(context.Background(), ref)
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// takes has somebody who runs nothing claim the session.
func (h *house) takes(instance string, takeovers int) *bus.Owner {
	h.t.Helper()
	o, err := h.conn.Claim(context.Background(), ref, bus.ClaimRequest{Instance: instance, After: h.claim(), Takeovers: takeovers})
	if err != nil {
		h.t.Fatal(err)
	}
	return o
}

func (h *house) runningOf(instance string) []bus.RunningKey {
	h.t.Helper()
	keys, err := h.conn.RunningOf(context.Background(), instance)
	if err != nil {
		h.t.Fatal(err)
	}
	return keys
}

// asks brings a session to where its task waits for a person and nobody owns it.
func (h *house) asks() *schemas.ApprovalRequest {
	h.t.Helper()
	h.create("scripted/m", schemas.ApproveAsk)
	h.task("t", "go")
	ask := h.asked(1)
	h.released()
	h.eventually("the running key stays", func() bool {
		keys, err := h.conn.RunningAll(context.Background())
		return err == nil && len(keys) == 0
	})
	return ask
}

// runsOnce lets the session's one call end, and wants that nothing was done twice.
func (h *house) runsOnce(hands *hand) {
	h.t.Helper()
	call := hands.call(`{}`)
	call.say("written")
	if err := call.end(schemas.StopCompleted); err != nil {
		h.t.Fatal(err)
	}
	got := strings.Join(transcript(h.follow(taskEnded)), "\n")
	for _, part := range []string{"allow", "output written"} {
		if strings.Count(got, part) != 1 {
			h.t.Errorf("not once %q in\n%s", part, got)
		}
	}
	hands.startedOnce()
}

// An owner says that a command is its own to take, and dies before it has stored anything.
// Nobody has acknowledged it, so it rings again, and the next owner applies it, once.
func TestForwardedToAnOwnerThatDies(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), nil)
	first, w := h.wired("e1", func(o *Options) { o.Timing.Rest = time.Hour })
	h.create("shell/demo", schemas.ApproveAll)
	h.runner(first)
	w.stopsPulling(bus.LaneRun)
	appends := w.hold("braid.p.session.")
	h.engine("e2", withoutWatch)
	h.post(taskCommand("t"))
	appends.wait()
	crash(first, w)
	h.follow(taskEnded)
	h.once("t", schemas.CodeApplied)
}

// An engine is killed at each point on its way from a decision that wakes a suspended session to
// the acknowledgement of that command, and after it, when only its running key tells of the
// session. The decision is applied once and the call runs once, every time.
func TestKilledWhileADecisionWakesTheSession(t *testing.T) {
	const acks = "$JS.ACK.COMMANDS."
	for name, at := range map[string]func(*wire) *grip{
		"before its running key":    func(w *wire) *grip { return w.hold("$KV.RUNNING.") },
		"before the outcome":        func(w *wire) *grip { return w.hold("braid.p.session.") },
		"before the call's record":  func(w *wire) *grip { return w.hold("braid.p.output.") },
		"before the call is queued": func(w *wire) *grip { return w.hold("braid.p.tool.") },
		"before it acknowledges":    func(w *wire) *grip { return w.hold(acks) },
		"after it acknowledged":     func(w *wire) *grip { return w.holdAnswers(acks) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, bustest.Listening(t), oneWrite)
			first, w := h.wired("e1")
			hands := h.toolrunner("r1")
			ask := h.asks()
			g := at(w)
			if strings.Contains(name, "running key") {
				early := w.holdAnswers(acks)
				defer func() {
					select {
					case <-early.first:
						t.Error("acknowledged a command of a session that no key tells of")
					default:
					}
				}()
			}
			h.post(allow(ask.ToolCallID))
			g.wait()
			if strings.Contains(name, "running key") {
				<-time.After(300 * time.Millisecond) // nothing more may happen
			}
			crash(first, w)
			h.engine("e2")
			h.runsOnce(hands)
			h.once("decision", schemas.CodeApplied)
		})
	}
}

// A delete of the running key is lost on its way, sent again, and the first one arrives when the
// session is in motion again: the new key stays.
func TestLateDeleteOfARunningKey(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), map[string]string{"slow": streaming})
	e, w := h.wired("e1")
	h.stops(e)
	late := w.holdOne("$KV.RUNNING.e1.p.s", "PURGE")
	h.create("scripted/slow", schemas.ApproveAll)
	late.wait()
	h.task("t", "go")
	if n := len(h.runningOf("e1")); n != 1 {
		t.Fatalf("%d running keys", n)
	}
	late.release()
	other := schemas.SessionRef{Project: "p", ID: "behind"} // on the same way, so it comes after
	if _, err := e.conn.MarkRunning(context.Background(), "nobody", other); err != nil {
		t.Fatal(err)
	}
	if n := len(h.runningOf("e1")); n != 1 {
		t.Errorf("%d running keys after a late delete", n)
	}
}

// An engine that has claimed is stopped before it clears what others left, and goes on when the
// session is another one's: it deletes what is older than its own claim, and not the key of its
// successor.
func TestLateClearOfOthers(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), map[string]string{"slow": streaming})
	first := h.killable("e1")
	h.streams()
	first.kill()
	e, w := h.wired("e2", withoutWatch)
	h.stops(e)
	reads, appends := w.hold("$JS.API.DIRECT.GET.KV_RUNNING"), w.hold("braid.p.session.")
	if err := h.conn.Wake(context.Background(), ref); err != nil {
		t.Fatal(err)
	}
	reads.wait()
	appends.wait()
	h.takes("e3", 0)
	if _, err := h.conn.MarkRunning(context.Background(), "e3", ref); err != nil {
		t.Fatal(err)
	}
	reads.release()
	h.eventually("what the dead one left is not cleared", func() bool { return len(h.runningOf("e1")) == 0 })
	appends.release()
	h.eventually("the fenced owner goes on", func() bool { return !e.runs(ref) })
	if n := len(h.runningOf("e3")); n != 1 {
		t.Errorf("%d running keys of the new owner", n)
	}
}

// All engines were gone for so long that the broker has forgotten them: what is left of one is
// its running keys. The first that comes goes on with its sessions at once.
func TestKilledAndForgotten(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), map[string]string{"slow": streaming})
	first, w := h.wired("e1")
	h.create("scripted/slow", schemas.ApproveAll)
	h.released()
	acks := w.holdAnswers("$JS.ACK.COMMANDS.run")
	h.task("t", "go")
	acks.wait() // no wake-up is left to ring
	crash(first, w)
	beat, err := h.conn.StartBeat(context.Background(), bus.KindEngine, "e1", nil)
	if err == nil {
		err = beat.Stop(context.Background()) // as if its key had expired
	}
	if err != nil {
		t.Fatal(err)
	}
	h.engine("e2")
	changes := owners(h.follow(func(m schemas.Message) bool { return m.Kind() == schemas.KindOwnerChanged }))
	if !strings.HasSuffix(changes[0], " e2 lost") { // from e2 itself, if it had to claim once more before it could say so
		t.Errorf("owners %q", changes)
	}
}

// stray is a wake-up that asks for nothing, and whose acknowledgement means nothing.
var stray = bus.WakeUp{Session: ref, Lane: bus.LaneRun, Sequence: 1, AckSubject: "$JS.ACK.COMMANDS.run.1.999999.1.1.0"}

// An engine whose proof of life does not get through is rung for, and answers: it keeps the
// session. Then it dies, under the same fence, and is believed dead.
func TestFalseAlarmThenDeath(t *testing.T) {
	t.Parallel()
	// One that is too slow to answer, as its proof of life is, may be taken for dead: not each time.
	for try := 1; !falseAlarm(t); try++ {
		if try == 5 {
			t.Fatal("a living owner lost the session, time after time")
		}
	}
}

// falseAlarm plays it; false if the session was lost before anybody died.
func falseAlarm(t *testing.T) bool {
	h := newHouse(t, bustest.Listening(t), map[string]string{"slow": streaming})
	first, w := h.wired("e1")
	h.streams()
	before := h.claim()
	w.hold("$KV.INSTANCES.")
	second := h.engine("e2")
	h.eventually("nobody is alarmed", func() bool {
		gone, err := second.beat.Gone(context.Background(), bus.KindEngine, "e1")
		return err == nil && gone
	})
	lost := func() bool { return second.runs(ref) || h.claim().Sequence != before.Sequence }
	for range 2 { // it is rung for, and again: one answer is not for ever
		rung := w.holdAnswers("$JS.ACK.COMMANDS.")
		h.eventually("nobody rings", func() bool {
			select {
			case <-rung.first:
				return true
			default:
				return lost()
			}
		})
		rung.release()
	}
	second.route(context.Background(), stray)
	living := !lost()
	crash(first, w)
	if !living {
		return false
	}
	h.eventually("the death is not noticed", func() bool { return h.claim().Instance == "e2" })
	// Where the broker is slow, e2 has to claim once more before it can say that it did, or lets go of the session
	// rather than call the model late, and takes it again.
	changes := owners(h.follow(taskEnded))
	if len(changes) == 0 || !strings.HasSuffix(changes[0], " e2 lost") || slices.ContainsFunc(changes[1:], func(c string) bool { return !strings.HasPrefix(c, "e2 e2 ") }) {
		t.Errorf("owners %q", changes)
	}
	return true
}

// An abort overtakes the create that waits for room: the session is made and found idle, the
// abort is not of an unknown session, and the create that rings later makes no second one.
func TestAbortOvertakesACreateThatWaits(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"slow": streaming})
	e := h.engine("e1", withRoom(1))
	other := schemas.SessionRef{Project: ref.Project, ID: "other"}
	h.send(schemas.Command{ID: "c", Type: schemas.CommandCreate, Session: other, Create: &schemas.CreateBody{Model: "scripted/slow"}})
	h.send(schemas.Command{ID: "t", Type: schemas.CommandTask, Session: other, Task: &schemas.TaskBody{Prompt: "go"}})
	create := schemas.Command{ID: "create", Type: schemas.CommandCreate, Session: ref, Create: &schemas.CreateBody{Model: "shell/demo", ApprovalMode: schemas.ApproveAll}}
	h.post(create)
	if e.hasRoom() {
		t.Fatal("the engine has room left")
	}
	if o := h.abort("enough"); o.Code != schemas.CodeNotRunning {
		t.Errorf("abort: %+v", o)
	}
	h.send(schemas.Command{ID: "abort", Type: schemas.CommandAbort, Session: other, Abort: &schemas.AbortBody{}})
	h.task("t", "hello")
	h.follow(taskEnded)
	h.once("create", schemas.CodeApplied)
	h.once("abort", schemas.CodeNotRunning)
}

// A decision comes when its session is about to be suspended: the owner has read the commands
// there were and has not let go yet. The owner dies, or does not; the decision is taken.
func TestDecisionWhileTheSessionSuspends(t *testing.T) {
	release := func(w *wire) *grip { return w.hold("braid.p.owner.", `"released"`) }
	for name, at := range map[string]func(*wire) *grip{
		"and dies before the release":        release,
		"and dies before its key is deleted": func(w *wire) *grip { return w.hold("$KV.RUNNING.", "PURGE") },
		"and lives":                          release,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, bustest.Listening(t), oneWrite)
			e, w := h.wired("e1", func(o *Options) { o.Timing.Rest, o.Timing.Suspend = time.Second, time.Second })
			hands := h.toolrunner("r1")
			h.create("scripted/m", schemas.ApproveAsk)
			h.task("t", "go")
			g := at(w)
			ask := h.asked(1)
			g.wait()
			r := h.runner(e)
			h.post(allow(ask.ToolCallID))
			h.eventually("the decision is not heard", func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				return len(r.mu.wakes) > 0
			})
			if strings.Contains(name, "dies") {
				crash(e, w)
				h.engine("e2", withoutWatch)
			} else {
				h.stops(e)
				g.release()
			}
			h.runsOnce(hands)
			h.once("decision", schemas.CodeApplied)
		})
	}
}

// A command that was refused stays refused: when its owner dies before it has acknowledged it,
// and when it is sent again long after, in a state in which it would be taken.
func TestRefusedStaysRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), map[string]string{"slow": streaming})
	first, w := h.wired("e1")
	h.streams()
	acks := w.hold("$JS.ACK.COMMANDS.")
	if o := h.send(taskCommand("again")); o.Code != schemas.CodeTaskInProgress {
		t.Fatalf("outcome %+v", o)
	}
	acks.wait()
	crash(first, w)
	second := h.engine("e2", func(o *Options) { o.Timing.Rest = time.Hour })
	h.follow(taskEnded)
	if o := h.send(taskCommand("again")); o.Code != schemas.CodeTaskInProgress {
		t.Errorf("sent again: %+v", o)
	}
	r := h.runner(second)
	h.onLoop(r, func() {
		// Past the time the broker remembers ids it has another sequence.
		c := bus.StoredCommand{Sequence: r.state.Cursor + 10, Command: taskCommand("again")}
		if err := r.takeCommand(c); err != nil {
			t.Error(err)
		}
		if r.state.Task != nil {
			t.Error("a task that was refused runs")
		}
	})
	h.once("again", schemas.CodeTaskInProgress)
}

// A session is handed over while the frame with a command's outcome is in flight: the sender gets
// its answer, and the next owner does not evaluate the command again.
func TestHandOverWithACommandInFlight(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), map[string]string{"slow": streaming})
	first, w := h.wired("e1")
	h.streams()
	h.engine("e2")
	frame := w.hold("braid.p.session.")
	answer := make(chan schemas.Outcome, 1)
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() {
		o, _, err := h.conn.SendAndWait(context.Background(), taskCommand("again"), testTime)
		if err != nil {
			t.Error(err)
		}
		answer <- o
	})
	frame.wait()
	stopped := make(chan error, 1)
	work.Go(func() { stopped <- first.Stop(context.Background()) })
	r := h.runner(first)
	<-r.leave
	early := w.hold("braid.p.owner.")
	select {
	case <-early.first:
		t.Error("released while a frame is in flight")
	case <-time.After(300 * time.Millisecond):
	}
	frame.release()
	early.release()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if o := <-answer; o.Code != schemas.CodeTaskInProgress {
		t.Errorf("outcome %+v", o)
	}
	if diff := cmp.Diff([]string{"e1 e2 handover"}, owners(h.follow(taskEnded))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	h.once("again", schemas.CodeTaskInProgress)
}

// Commands come at all moments of letting go of a session, which two engines take turns at: each
// is answered, once.
func TestReleaseAmongWakeUps(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), nil)
	for _, name := range []string{"e1", "e2"} {
		h.engine(name, func(o *Options) { o.Timing.Rest = time.Millisecond })
	}
	h.create("shell/demo", schemas.ApproveAll)
	var senders sync.WaitGroup
	for sender := range 2 {
		senders.Go(func() {
			for i := range 25 {
				id := fmt.Sprintf("abort-%d-%d", sender, i)
				o, _, err := h.conn.SendAndWait(context.Background(), schemas.Command{ID: id, Type: schemas.CommandAbort, Session: ref, Abort: &schemas.AbortBody{}}, testTime)
				if err != nil || o.Code != schemas.CodeNotRunning {
					t.Errorf("%s: %+v, %v", id, o, err)
				}
				<-time.After(time.Duration(i*(sender+3)%12) * time.Millisecond)
			}
		})
	}
	senders.Wait()
	for sender := range 2 {
		for i := range 25 {
			h.once(fmt.Sprintf("abort-%d-%d", sender, i), schemas.CodeNotRunning)
		}
	}
}
