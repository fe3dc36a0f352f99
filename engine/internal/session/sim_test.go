package session

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"braid/schemas"
)

// world runs one session as the engine would, without a network: a log of frames, commands that
// are read again after the cursor, effects that wait for their messages to be stored, a model and
// tools that move when the schedule says so. Owners die at any point; what they had appended but
// not stored is gone with them.
type world struct {
	t     *rapid.T
	now   time.Time
	state *State

	log      []schemas.Entry     // stored, by frame and line
	frames   uint64              // stored
	unstored [][]schemas.Message // appended, a group a step
	appended int                 // groups, ever
	held     []heldEffect        // waiting for their group to be stored
	gapped   bool                // fragments have expired that an owner never saw

	commands []CommandReceived // as the broker has them
	fence    uint64

	schedules map[string]SetDeadline // that the broker holds, by call

	model   *modelRun
	timers  []WaitRetry     // that run
	wait    *WaitRetry      // the newest, until it is over
	hurried map[uint64]bool // requests whose wait a person has cut short
	tools   map[string]*toolRun
	started map[string]int // starts of a tool, over all owners
	inputs  [][]schemas.Message
	said    []schemas.Message // what the model said last, all of it
	copied  *world            // a session made of the trace
	copies  int               // how often the session's trace was copied
}

type heldEffect struct {
	group  int
	effect Effect
}

type modelRun struct {
	request uint64
	script  []schemas.Message
	said    int // messages of it
	status  schemas.StopReason
}

// toolRun is the toolrunner's side of a call: it outlives the owner.
type toolRun struct {
	safe     bool
	place    string // where it runs
	attempt  int
	text     string
	before   string // what an earlier attempt had said
	sent     int
	result   *schemas.ToolResult // once it is done
	reported bool                // the present owner was told
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, now: time.Unix(1e9, 0), schedules: map[string]SetDeadline{}, tools: map[string]*toolRun{}, started: map[string]int{}}
	w.own("", "lost")
	return w
}

// own starts an owner: fold the log, take over, read the commands after the cursor.
func (w *world) own(from, cause string) {
	w.fence++
	w.hurried = map[uint64]bool{}
	w.state = New(schemas.SessionRef{Project: "p", ID: "s"})
	w.fold()
	w.state.Own(w.fence)
	w.state.Policy = w.drawPolicy()
	for _, run := range w.tools {
		run.reported = false
	}
	w.step(TakenOver{From: from, To: fmt.Sprint(w.fence), Cause: cause, Lost: w.lost()})
	for _, c := range w.commands {
		w.step(c)
	}
}

// fold reads the log as engines do: all of it; or recorded messages up to the last point at which
// fragments begin to matter, and all from there on. Then of these the oldest may have expired too.
func (w *world) fold() {
	point := uint64(0)
	if rapid.Bool().Draw(w.t, "fold a trace") {
		point = w.quietPoint()
	}
	expired := uint64(0)
	if rapid.IntRange(0, 9).Draw(w.t, "expire") == 0 {
		expired = rapid.Uint64Range(w.quietPoint(), w.frames).Draw(w.t, "expired up to")
	}
	gap := false
	for _, e := range w.log {
		frame := e.Position.Sequence
		live := w.live(frame)
		switch {
		case frame < point && e.Message.Partial():
			continue
		case frame >= point && live && frame <= expired:
			gap = true
			continue
		case gap:
			w.state.Gap()
			gap = false
		}
		w.state.Apply(e.Message)
	}
	if gap {
		w.state.Gap()
	}
	w.gapped = w.gapped || expired > 0
}

// quietPoint is the last frame up to which recorded messages suffice.
func (w *world) quietPoint() (point uint64) {
	for _, e := range w.log {
		switch e.Message.Payload.(type) {
		case *schemas.RequestBegin, *schemas.Checkpoint, *schemas.TaskEnd:
			point = e.Position.Sequence
		}
	}
	return point
}

// live reports that the frame holds nothing but fragments.
func (w *world) live(frame uint64) bool {
	return !slices.ContainsFunc(w.log, func(e schemas.Entry) bool {
		return e.Position.Sequence == frame && !e.Message.Partial()
	})
}

// die loses the owner and what it had in flight, but for a prefix that was stored unnoticed.
func (w *world) die() {
	keep := rapid.IntRange(0, len(w.unstored)).Draw(w.t, "stored")
	w.storeFrame(w.unstored[:keep])
	w.leave("lost")
}

// handOver lets the owner go in an orderly way: what it had appended is stored.
func (w *world) handOver() {
	w.storeFrame(w.unstored)
	w.leave(schemas.OwnerLetGo)
}

func (w *world) leave(cause string) {
	w.unstored, w.held, w.model, w.timers, w.wait = nil, nil, nil, nil, nil
	w.own(fmt.Sprint(w.fence), cause)
}

func (w *world) step(e Event) {
	w.now = w.now.Add(time.Millisecond)
	request, late := w.hurries(e), w.late(e)
	out := w.state.Step(w.now, e)
	if late != nil && late.Decision == schemas.DecisionAllow {
		w.t.Fatalf("call %s is allowed behind its deadline\n%s", late.ToolCallID, w.dump())
	}
	if request != nil && request.Hurried {
		w.wait, w.hurried[request.ID] = nil, true
	}
	if _, elsewhere := e.(TraceRead); !elsewhere {
		w.checkRulings(out.Messages)
	}
	if len(out.Messages) > 0 {
		w.unstored = append(w.unstored, out.Messages)
		w.appended++
	}
	for _, effect := range out.Effects {
		w.checkWait(effect)
		w.held = append(w.held, heldEffect{group: w.appended, effect: effect})
	}
	if rapid.Bool().Draw(w.t, "store at once") {
		w.store()
	}
}

// store acknowledges what is in flight and lets the effects go that waited for it.
func (w *world) store() {
	w.storeFrame(w.unstored)
	w.unstored = nil
	held := w.held
	w.held = nil
	for _, h := range held {
		if h.group > w.appended {
			w.t.Fatalf("an effect waits for a message that was never appended")
		}
		w.perform(h.effect)
	}
}

// storeFrame stores groups as one frame, in which deltas that follow one another are one.
func (w *world) storeFrame(groups [][]schemas.Message) {
	if len(groups) == 0 {
		return
	}
	w.frames++
	for line, m := range joinDeltas(slices.Concat(groups...)) {
		w.log = append(w.log, schemas.Entry{Position: schemas.Position{Sequence: w.frames, Line: line}, Message: m})
	}
}

// joinDeltas joins deltas of one segment that follow one another.
func joinDeltas(in []schemas.Message) (out []schemas.Message) {
	for _, m := range in {
		if n := len(out); n > 0 {
			if joined, ok := joinTwo(out[n-1].Payload, m.Payload); ok {
				out[n-1].Payload = joined
				continue
			}
		}
		out = append(out, m)
	}
	return out
}

func joinTwo(a, b schemas.Payload) (schemas.Payload, bool) {
	switch p := a.(type) {
	case *schemas.PartialText:
		q, ok := b.(*schemas.PartialText)
		if ok && p.EventType == schemas.PhaseDelta && q.EventType == schemas.PhaseDelta {
			return schemas.TextFragment(schemas.PhaseDelta, p.Text+q.Text), true
		}
	case *schemas.PartialToolCallOutput:
		q, ok := b.(*schemas.PartialToolCallOutput)
		if ok && p.EventType == schemas.PhaseDelta && q.EventType == schemas.PhaseDelta &&
			p.ToolCallID == q.ToolCallID && p.Attempt == q.Attempt && len(p.Images)+len(q.Images) == 0 {
			joined := *q
			joined.Output = p.Output + q.Output
			return &joined, true
		}
	}
	return nil, false
}

func (w *world) perform(e Effect) {
	switch e := e.(type) {
	case ListTools:
		w.step(ToolsListed{Tools: []schemas.ToolDefinition{
			{Name: "read", Permission: schemas.PermissionRead, Retry: schemas.RetrySafe, Workspace: true},
			{Name: "write", Permission: schemas.PermissionReadWrite, Workspace: true},
		}})
	case CallModel:
		if w.wait != nil && e.Attempt > 1 {
			w.t.Fatalf("attempt %d begins before its wait is over\n%s", e.Attempt, w.dump())
		}
		w.wait = nil
		if t := w.state.Task; t == nil || t.Aborting || !w.open() || t.Request.ID != e.Request {
			return // aborted while it waited
		}
		w.inputs = append(w.inputs, e.Input)
		w.checkFidelity(e.Model, e.Input)
		w.model = &modelRun{request: e.Request, script: signed(w.nextScript(), e.Model), status: w.drawStatus()}
	case StopModel:
		if w.model == nil || w.model.request != e.Request {
			w.step(ModelEnded{Request: e.Request, Status: schemas.StopAborted}) // it never left
			return
		}
		w.model.status = schemas.StopAborted
	case StartTool:
		if w.tools[e.Call.ToolCallID] == nil {
			w.started[e.Call.ToolCallID]++
			w.tools[e.Call.ToolCallID] = &toolRun{place: w.place(e), safe: e.Definition.Retry == schemas.RetrySafe, attempt: 1, text: w.drawToolText()}
		}
	case CancelTool:
		if run := w.tools[e.ToolCallID]; run != nil && run.result == nil {
			run.result = &schemas.ToolResult{Output: "[aborted]", Appends: true, StopReason: schemas.StopAborted}
		}
	case ResendOutput:
		if run := w.tools[e.ToolCallID]; run != nil && e.Attempt == run.attempt {
			run.sent = int(e.From)
		}
	case SetDeadline:
		w.schedules[e.Command.Deadline.ToolCallID] = e
	case ClearDeadline:
		delete(w.schedules, e.ToolCallID)
	case WaitRetry:
		w.timers = append(w.timers, e)
		if !w.hurried[e.Request] {
			w.wait = &e
		}
	}
}

// place is where a call runs: where the session's files are, or anywhere if it is alone in not knowing.
func (w *world) place(e StartTool) string {
	if e.Bound != nil {
		return e.Bound.Toolrunner
	}
	for id, run := range w.tools {
		// One of a task that the engine gave up still runs, but what it says is heard no more.
		if c := w.state.call(id); c != nil && c.running() && !run.reported && !w.state.Task.Aborting {
			w.t.Fatalf("%s is started while %s may say where the files are\n%s", e.Call.ToolCallID, id, w.dump())
		}
	}
	return rapid.SampledFrom([]string{"r1", "r2"}).Draw(w.t, "place")
}

func (w *world) drawToolText() string {
	return rapid.SampledFrom([]string{"", "ok\n", "line one\nline two\n"}).Draw(w.t, "tool text")
}

func move(t *rapid.T, w *world, moves map[string]func()) {
	names := make([]string, 0, len(moves))
	for name := range moves {
		names = append(names, name)
	}
	slices.Sort(names)
	moves[rapid.SampledFrom(names).Draw(t, "move")]()
}

// Whatever the schedule, and wherever owners die, the stream keeps its guarantees, no tool starts
// twice, the state is the fold of the log, and once the faults stop the session comes to rest.
func TestAnySchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { playSchedule(t) })
}

// playSchedule draws a schedule, plays it to its end, and checks what came of it.
func playSchedule(t *rapid.T) *world {
	w := newWorld(t)
	w.play()
	w.verify()
	w.checkImport()
	return w
}

// play makes moves, then no more faults: the session comes to rest.
func (w *world) play() {
	t := w.t
	for range rapid.IntRange(0, 100).Draw(t, "moves") {
		// Mostly forward, or few schedules come to where it gets interesting.
		moves := w.moves(false)
		if len(moves) == 0 || rapid.IntRange(0, 4).Draw(t, "fault") == 0 {
			moves = w.moves(true)
		}
		move(t, w, moves)
		w.checkDeadline()
	}
	for len(w.unstored) > 0 || len(w.held) > 0 {
		w.store()
	}
	w.check(false)
	w.checkFold()
	for i := 0; w.state.Task != nil || len(w.unstored) > 0; i++ {
		if i > 3000 {
			t.Fatalf("the session does not come to rest\n%s", w.dump())
		}
		moves := w.moves(false)
		if len(moves) == 0 {
			t.Fatalf("nothing can happen, and the task is open\n%s", w.dump())
		}
		if w.state.Task == nil {
			w.store()
			continue
		}
		move(t, w, moves)
	}
}

// verify holds what has come to its end to everything that is guaranteed.
func (w *world) verify() {
	w.check(true)
	w.checkFold()
	w.checkInputs()
	w.checkLimits()
	w.checkUsage()
	w.checkRoutes()
	for id, n := range w.started {
		if n > 1 {
			w.t.Fatalf("call %s was started %d times", id, n)
		}
	}
	w.checkOutcomes()
	w.checkPrompts()
	w.checkDeleted()
}
