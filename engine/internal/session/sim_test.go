package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"braid/schemas"
)

// world runs one session as the engine would, without a network: a log, effects that wait for
// their messages to be stored, a model and tools that move when the schedule says so. Owners die
// at any point; what they had appended but not stored is gone with them.
type world struct {
	t     *rapid.T
	now   time.Time
	state *State

	log     []schemas.Message // stored
	unstore []schemas.Message // appended, in flight
	held    []heldEffect      // waiting for len(log) to reach their mark

	sequence uint64 // of commands
	fence    uint64

	model   *modelRun
	retry   bool
	tools   map[string]*toolRun
	started map[string]int // starts of a tool, over all owners
	inputs  [][]schemas.Message
	outcome []schemas.Outcome
}

type heldEffect struct {
	after  int
	effect Effect
}

type modelRun struct {
	request uint64
	script  []schemas.Message
	status  schemas.StopReason
}

// toolRun is the toolrunner's side of a call: it outlives the owner.
type toolRun struct {
	text      string
	sent      int
	done      bool
	reported  bool // the present owner was told
	cancelled bool
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, now: time.Unix(1e9, 0), tools: map[string]*toolRun{}, started: map[string]int{}}
	w.own("")
	return w
}

// own starts an owner: fold the log, take over.
func (w *world) own(from string) {
	w.fence++
	w.state = New(schemas.SessionRef{Project: "p", ID: "s"})
	for _, m := range w.log {
		w.state.Apply(m)
	}
	w.state.Own(w.fence)
	for _, run := range w.tools {
		run.reported = false
	}
	w.step(TakenOver{From: from, To: fmt.Sprint(w.fence), Cause: "lost"})
}

// die loses the owner and what it had in flight, but for a prefix that was stored unnoticed.
func (w *world) die() {
	keep := rapid.IntRange(0, len(w.unstore)).Draw(w.t, "stored")
	if keep < len(w.unstore) {
		keep = 0 // the messages of one step are one frame
	}
	w.log = append(w.log, w.unstore[:keep]...)
	w.unstore, w.held, w.model, w.retry = nil, nil, nil, false
	w.own(fmt.Sprint(w.fence))
}

func (w *world) step(e Event) {
	w.now = w.now.Add(time.Millisecond)
	out := w.state.Step(w.now, e)
	w.unstore = append(w.unstore, out.Messages...)
	for _, effect := range out.Effects {
		w.held = append(w.held, heldEffect{after: len(w.log) + len(w.unstore), effect: effect})
	}
	if rapid.Bool().Draw(w.t, "store at once") {
		w.store()
	}
}

// store acknowledges what is in flight and lets the effects go that waited for it.
func (w *world) store() {
	w.log = append(w.log, w.unstore...)
	w.unstore = nil
	held := w.held
	w.held = nil
	for _, h := range held {
		if h.after > len(w.log) {
			w.t.Fatalf("an effect waits for a message that was never appended")
		}
		w.perform(h.effect)
	}
}

func (w *world) perform(e Effect) {
	switch e := e.(type) {
	case ListTools:
		w.step(ToolsListed{Tools: []schemas.ToolDefinition{
			{Name: "read", Permission: schemas.PermissionRead}, {Name: "write", Permission: schemas.PermissionReadWrite},
		}})
	case CallModel:
		w.inputs = append(w.inputs, e.Input)
		w.model = &modelRun{request: e.Request, script: w.drawScript(), status: w.drawStatus()}
	case StopModel:
		if w.model != nil && w.model.request == e.Request {
			w.model = nil
		}
	case StartTool:
		if w.tools[e.Call.ToolCallID] == nil {
			w.started[e.Call.ToolCallID]++
			text := rapid.SampledFrom([]string{"", "ok\n", "line one\nline two\n"}).Draw(w.t, "tool text")
			w.tools[e.Call.ToolCallID] = &toolRun{text: text}
		}
	case CancelTool:
		if run := w.tools[e.ToolCallID]; run != nil {
			run.cancelled, run.done = true, true
		}
	case ResendOutput:
		if run := w.tools[e.ToolCallID]; run != nil {
			run.sent = int(e.From)
		}
	case WaitRetry:
		w.retry = true
	case Answer:
		w.outcome = append(w.outcome, e.Outcome)
	}
}

func (w *world) drawScript() []schemas.Message {
	var script []schemas.Message
	say := func(p schemas.Payload) { script = append(script, schemas.New(w.now, p)) }
	for range rapid.IntRange(0, 3).Draw(w.t, "segments") {
		switch rapid.IntRange(0, 3).Draw(w.t, "segment") {
		case 0:
			say(schemas.TextFragment(schemas.PhaseStart, ""))
			say(schemas.TextFragment(schemas.PhaseDelta, "hel"))
			say(schemas.TextFragment(schemas.PhaseDelta, "lo"))
			say(schemas.TextFragment(schemas.PhaseStop, ""))
			say(schemas.AssistantText("hello"))
		case 1:
			say(schemas.ThinkingFragment(schemas.PhaseStart, ""))
			say(schemas.ThinkingFragment(schemas.PhaseDelta, "hm"))
			say(schemas.ThinkingFragment(schemas.PhaseStop, ""))
			say(schemas.AssistantThinking("hm"))
		default:
			name := rapid.SampledFrom([]string{"read", "write", "nonesuch"}).Draw(w.t, "tool")
			args := rapid.SampledFrom([]string{`{"a":1}`, `{`, ``}).Draw(w.t, "arguments")
			id := rapid.SampledFrom([]string{"same", "other"}).Draw(w.t, "provider id")
			say(schemas.ToolCallFragment(schemas.PhaseStart, id, name, ""))
			if args != "" {
				say(schemas.ToolCallFragment(schemas.PhaseDelta, id, "", args))
			}
			say(schemas.ToolCallFragment(schemas.PhaseStop, id, "", ""))
			say(schemas.NewToolCall(id, name, args))
		}
	}
	return script
}

func (w *world) drawStatus() schemas.StopReason {
	return rapid.SampledFrom([]schemas.StopReason{
		schemas.StopCompleted, schemas.StopCompleted, schemas.StopCompleted, schemas.StopFailed, schemas.StopTimeout, schemas.StopAuth,
	}).Draw(w.t, "status")
}

func (w *world) command(t schemas.CommandType, fill func(*schemas.Command)) {
	w.sequence++
	c := schemas.Command{ID: fmt.Sprintf("k%d", w.sequence), Type: t, Session: w.state.Session}
	if fill != nil {
		fill(&c)
	}
	w.step(CommandReceived{Sequence: w.sequence, Command: c})
}

// moves lists what can happen now.
func (w *world) moves(faults bool) map[string]func() {
	m := map[string]func(){}
	if len(w.unstore) > 0 || len(w.held) > 0 {
		m["store"] = w.store
	}
	if w.model != nil {
		m["model"] = w.moveModel
	}
	if w.retry {
		m["retry"] = func() { w.retry = false; w.step(RetryDue{}) }
	}
	for _, id := range w.ids() {
		m["tool "+id] = func() { w.moveTool(id) }
	}
	for _, c := range w.state.Pending() {
		m["approve"] = func() {
			d := rapid.SampledFrom([]schemas.Decision{schemas.DecisionAllow, schemas.DecisionDeny}).Draw(w.t, "decision")
			w.command(schemas.CommandApprove, func(k *schemas.Command) {
				k.Approve = &schemas.ApproveBody{ToolCallID: c.ToolCallID, Decision: d}
			})
		}
	}
	if w.state.Meta == nil {
		m["create"] = func() {
			mode := rapid.SampledFrom([]schemas.ApprovalMode{schemas.ApproveAll, schemas.ApproveNone, schemas.ApproveReadOnly, schemas.ApproveAsk}).Draw(w.t, "mode")
			w.command(schemas.CommandCreate, func(k *schemas.Command) {
				k.Create = &schemas.CreateBody{Model: "p/m", ApprovalMode: mode}
			})
		}
	} else if faults || w.state.Task == nil {
		m["task"] = func() {
			w.command(schemas.CommandTask, func(k *schemas.Command) { k.Task = &schemas.TaskBody{Prompt: "go"} })
		}
	}
	if !faults {
		return m
	}
	m["die"] = w.die
	m["checkpoint"] = func() { w.step(CheckpointDue{}) }
	if w.state.Task != nil {
		m["abort"] = func() { w.command(schemas.CommandAbort, nil) }
		m["give up"] = func() { w.step(GaveUp{Message: "taken over too often"}) }
	}
	return m
}

// ids lists the calls that still have something to say to this owner.
func (w *world) ids() []string {
	var ids []string
	for id, run := range w.tools {
		if !run.reported {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (w *world) moveModel() {
	run := w.model
	if len(run.script) > 0 && rapid.IntRange(0, 15).Draw(w.t, "cut") > 0 {
		m := run.script[0]
		run.script = run.script[1:]
		w.step(ModelMessage{Request: run.request, Message: m})
		return
	}
	status := run.status
	if len(run.script) > 0 {
		status = schemas.StopMalformed
	}
	w.model = nil
	e := ModelEnded{Request: run.request, Status: status, Usage: schemas.TokenCounts{Total: 3, Output: 1}}
	if status != schemas.StopCompleted {
		e.Failure = &schemas.ErrorInfo{Kind: "provider", Message: "scripted"}
	}
	w.step(e)
}

// moveTool sends a fragment (sometimes again, sometimes with a hole before it) or the end.
func (w *world) moveTool(id string) {
	run := w.tools[id]
	if !run.done && run.sent < len(run.text) {
		from := max(0, run.sent-rapid.IntRange(0, 2).Draw(w.t, "overlap"))
		if rapid.IntRange(0, 4).Draw(w.t, "lose") == 0 {
			from = min(len(run.text)-1, run.sent+1)
		}
		to := rapid.IntRange(from+1, len(run.text)).Draw(w.t, "to")
		run.sent = to
		w.step(ToolOutput{schemas.ToolFragment{ToolCallID: id, Attempt: 1, Offset: int64(from), Text: run.text[from:to]}})
		return
	}
	run.done, run.reported = true, true
	result := schemas.ToolResult{Output: run.text, StopReason: schemas.StopCompleted}
	if run.cancelled {
		result = schemas.ToolResult{Output: "[aborted]", Appends: true, StopReason: schemas.StopAborted}
	}
	w.step(ToolEnded{ToolCallID: id, Attempt: 1, Result: result})
}

func (w *world) check(finish bool) {
	var entries []schemas.Entry
	for i, m := range w.log {
		entries = append(entries, schemas.Entry{Position: schemas.Position{Sequence: 1, Line: i}, Message: m})
	}
	for _, view := range []schemas.View{schemas.ViewFeed, schemas.ViewStream, schemas.ViewRecorded} {
		c := schemas.NewChecker(view)
		var violations []schemas.Violation
		for _, e := range entries {
			if (view == schemas.ViewStream && !e.Message.Visible()) || (view == schemas.ViewRecorded && !e.Message.Recorded()) {
				continue
			}
			violations = append(violations, c.Add(e)...)
		}
		if finish {
			violations = append(violations, c.Finish()...)
		}
		if len(violations) > 0 {
			w.t.Fatalf("%v: %v\n%s", view, violations, w.dump())
		}
	}
}

func (w *world) dump() string {
	var b strings.Builder
	for i, m := range w.log {
		line, _ := schemas.Encode(m)
		fmt.Fprintf(&b, "%3d %s\n", i, line)
	}
	return b.String()
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
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(0, 60).Draw(t, "moves") {
			move(t, w, w.moves(true))
		}
		for len(w.unstore) > 0 || len(w.held) > 0 {
			w.store()
		}
		w.check(false)
		w.checkFold()
		// Then no more faults: liveness.
		for i := 0; w.state.Task != nil || len(w.unstore) > 0; i++ {
			if i > 2000 {
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
		w.check(true)
		w.checkFold()
		w.checkInputs()
		for id, n := range w.started {
			if n > 1 {
				t.Fatalf("call %s was started %d times", id, n)
			}
		}
		w.checkOutcomes()
	})
}

// checkFold compares the live state with the fold of what is stored.
func (w *world) checkFold() {
	folded := New(w.state.Session)
	for _, m := range w.log {
		folded.Apply(m)
	}
	text := cmp.Comparer(func(a, b strings.Builder) bool { return a.String() == b.String() })
	failure := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Failure" }, cmp.Ignore())
	id := cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().String() == ".ID" && p.Index(-2).Type().String() == "session.Request"
	}, cmp.Ignore())
	diff := cmp.Diff(folded, w.state, text, failure, id,
		cmpopts.IgnoreUnexported(State{}, Request{}), cmpopts.EquateEmpty())
	if diff != "" {
		w.t.Fatalf("the state is not the fold of the log (-fold +state)\n%s\n%s", diff, w.dump())
	}
}

// checkInputs asserts what providers insist on: in every request each call has exactly one
// output, behind it, in call order.
func (w *world) checkInputs() {
	for _, input := range w.inputs {
		var open []string
		for _, m := range input {
			switch p := m.Payload.(type) {
			case *schemas.ToolCall:
				open = append(open, p.ToolCallID)
			case *schemas.ToolCallOutput:
				if len(open) == 0 || open[0] != p.ToolCallID {
					w.t.Fatalf("output of %s where %v are due", p.ToolCallID, open)
				}
				open = open[1:]
			case *schemas.Text:
				if p.Role == schemas.RoleUser && len(open) > 0 {
					w.t.Fatalf("a prompt while the outputs of %v are due", open)
				}
			}
		}
		if len(open) > 0 {
			w.t.Fatalf("a request without the outputs of %v", open)
		}
	}
}

// checkOutcomes asserts that every command that was taken has one outcome in the log.
func (w *world) checkOutcomes() {
	seen := map[string]int{}
	for _, m := range w.log {
		if p, ok := m.Payload.(*schemas.CommandOutcome); ok {
			seen[p.CommandID]++
		}
	}
	for id, n := range seen {
		if n != 1 {
			w.t.Fatalf("command %s has %d outcomes\n%s", id, n, w.dump())
		}
	}
}
