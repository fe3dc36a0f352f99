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

	model   *modelRun
	timers  []WaitRetry // that run
	wait    *WaitRetry  // the newest, until it is over
	tools   map[string]*toolRun
	started map[string]int // starts of a tool, over all owners
	inputs  [][]schemas.Message
}

type heldEffect struct {
	group  int
	effect Effect
}

type modelRun struct {
	request uint64
	script  []schemas.Message
	status  schemas.StopReason
}

// toolRun is the toolrunner's side of a call: it outlives the owner.
type toolRun struct {
	safe     bool
	attempt  int
	text     string
	before   string // what an earlier attempt had said
	sent     int
	result   *schemas.ToolResult // once it is done
	reported bool                // the present owner was told
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, now: time.Unix(1e9, 0), tools: map[string]*toolRun{}, started: map[string]int{}}
	w.own("")
	return w
}

// own starts an owner: fold the log, take over, read the commands after the cursor.
func (w *world) own(from string) {
	w.fence++
	w.state = New(schemas.SessionRef{Project: "p", ID: "s"})
	w.fold()
	w.state.Own(w.fence)
	for _, run := range w.tools {
		run.reported = false
	}
	w.step(TakenOver{From: from, To: fmt.Sprint(w.fence), Cause: "lost"})
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
	w.unstored, w.held, w.model, w.timers, w.wait = nil, nil, nil, nil, nil
	w.own(fmt.Sprint(w.fence))
}

func (w *world) step(e Event) {
	w.now = w.now.Add(time.Millisecond)
	out := w.state.Step(w.now, e)
	if len(out.Messages) > 0 {
		w.unstored = append(w.unstored, out.Messages)
		w.appended++
	}
	for _, effect := range out.Effects {
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
			{Name: "read", Permission: schemas.PermissionRead, Retry: schemas.RetrySafe},
			{Name: "write", Permission: schemas.PermissionReadWrite},
		}})
	case CallModel:
		if w.wait != nil && e.Attempt > 1 {
			w.t.Fatalf("attempt %d begins before its wait is over\n%s", e.Attempt, w.dump())
		}
		w.wait = nil
		w.inputs = append(w.inputs, e.Input)
		w.model = &modelRun{request: e.Request, script: w.drawScript(), status: w.drawStatus()}
	case StopModel:
		if w.model != nil && w.model.request == e.Request {
			w.model = nil
		}
	case StartTool:
		if w.tools[e.Call.ToolCallID] == nil {
			w.started[e.Call.ToolCallID]++
			w.tools[e.Call.ToolCallID] = &toolRun{safe: e.Definition.Retry == schemas.RetrySafe, attempt: 1, text: w.drawToolText()}
		}
	case CancelTool:
		if run := w.tools[e.ToolCallID]; run != nil && run.result == nil {
			run.result = &schemas.ToolResult{Output: "[aborted]", Appends: true, StopReason: schemas.StopAborted}
		}
	case ResendOutput:
		if run := w.tools[e.ToolCallID]; run != nil && e.Attempt == run.attempt {
			run.sent = int(e.From)
		}
	case WaitRetry:
		w.timers = append(w.timers, e)
		w.wait = &e
	}
}

func (w *world) drawToolText() string {
	return rapid.SampledFrom([]string{"", "ok\n", "line one\nline two\n"}).Draw(w.t, "tool text")
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
			name := rapid.SampledFrom([]string{"read", "write", "read", "write", "nonesuch"}).Draw(w.t, "tool")
			args := rapid.SampledFrom([]string{`{"a":1}`, `{"a":2}`, `{`, ``}).Draw(w.t, "arguments")
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
	sequence := uint64(len(w.commands) + 1)
	c := schemas.Command{ID: fmt.Sprintf("k%d", sequence), Type: t, Session: w.state.Session}
	if fill != nil {
		fill(&c)
	}
	w.commands = append(w.commands, CommandReceived{Sequence: sequence, Command: c})
	w.step(w.commands[len(w.commands)-1])
}

// moves lists what can happen now.
func (w *world) moves(faults bool) map[string]func() {
	m := map[string]func(){}
	if len(w.unstored) > 0 || len(w.held) > 0 {
		m["store"] = w.store
	}
	if w.model != nil {
		m["model"] = w.moveModel
	}
	for i := range w.timers {
		m[fmt.Sprint("timer ", i)] = func() { w.moveTimer(i) }
	}
	for _, id := range w.ids() {
		m["tool "+id] = func() { w.moveTool(id) }
		if faults && w.tools[id].result == nil {
			m["lose "+id] = func() { w.loseToolrunner(id) }
		}
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
			mode := rapid.SampledFrom([]schemas.ApprovalMode{schemas.ApproveAll, schemas.ApproveAll, schemas.ApproveAll, schemas.ApproveNone, schemas.ApproveReadOnly, schemas.ApproveAsk}).Draw(w.t, "mode")
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
	if n := len(w.commands); n > 0 {
		m["repeat"] = func() { w.step(w.commands[rapid.IntRange(0, n-1).Draw(w.t, "command")]) }
	}
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

// moveTimer ends a wait.
func (w *world) moveTimer(i int) {
	e := w.timers[i]
	w.timers = slices.Delete(w.timers, i, i+1)
	if w.wait != nil && w.wait.Request == e.Request {
		w.wait = nil
	}
	w.step(RetryDue{e.Request})
}

// moveTool sends a fragment (sometimes again, sometimes with a hole before it, sometimes of the
// attempt before) or the end.
func (w *world) moveTool(id string) {
	run := w.tools[id]
	if run.before != "" && rapid.IntRange(0, 3).Draw(w.t, "late") == 0 {
		w.step(ToolOutput{schemas.ToolFragment{ToolCallID: id, Attempt: run.attempt - 1, Text: run.before}})
		return
	}
	if run.result == nil && run.sent < len(run.text) {
		from := max(0, run.sent-rapid.IntRange(0, 2).Draw(w.t, "overlap"))
		if rapid.IntRange(0, 4).Draw(w.t, "lose") == 0 {
			from = min(len(run.text)-1, run.sent+1)
		}
		to := rapid.IntRange(from+1, len(run.text)).Draw(w.t, "to")
		run.sent = to
		w.step(ToolOutput{schemas.ToolFragment{ToolCallID: id, Attempt: run.attempt, Offset: int64(from), Text: run.text[from:to]}})
		return
	}
	if run.result == nil {
		run.result = &schemas.ToolResult{Output: run.text, StopReason: schemas.StopCompleted}
		if rapid.IntRange(0, 9).Draw(w.t, "images") == 0 {
			run.result.Images = []string{"data:image/png;base64,AA=="}
		}
	}
	run.reported = true
	w.step(ToolEnded{ToolCallID: id, Attempt: run.attempt, Result: *run.result})
}

// loseToolrunner takes the toolrunner away in mid-call: what may run again does.
func (w *world) loseToolrunner(id string) {
	run := w.tools[id]
	if !run.safe || run.attempt == 3 {
		run.result = &schemas.ToolResult{Output: "[lost]", Appends: true, StopReason: schemas.StopFailed}
		return
	}
	run.attempt++
	run.before, run.text, run.sent = run.text, w.drawToolText(), 0
}

func (w *world) check(finish bool) {
	for _, view := range []schemas.View{schemas.ViewFeed, schemas.ViewStream, schemas.ViewRecorded} {
		c := schemas.NewChecker(view)
		var violations []schemas.Violation
		for _, e := range w.log {
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
	for _, e := range w.log {
		line, _ := schemas.Encode(e.Message)
		fmt.Fprintf(&b, "%8s %s\n", e.Position, line)
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
		for range rapid.IntRange(0, 100).Draw(t, "moves") {
			// Mostly forward, or few schedules come to where it gets interesting.
			moves := w.moves(false)
			if len(moves) == 0 || rapid.IntRange(0, 4).Draw(t, "fault") == 0 {
				moves = w.moves(true)
			}
			move(t, w, moves)
		}
		for len(w.unstored) > 0 || len(w.held) > 0 {
			w.store()
		}
		w.check(false)
		w.checkFold()
		// Then no more faults: liveness.
		for i := 0; w.state.Task != nil || len(w.unstored) > 0; i++ {
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
	if w.gapped {
		return // what has expired is in the log of this world, and in no state
	}
	folded := New(w.state.Session)
	for _, e := range w.log {
		folded.Apply(e.Message)
	}
	// Of an attempt that has said nothing the log says nothing.
	if t := w.state.Task; t != nil && t.Request != nil && folded.Task != nil && folded.Task.Request != nil {
		for _, c := range t.Request.Calls {
			if f := folded.call(c.ToolCallID); f != nil && c.Text.Len() == 0 {
				f.Attempt = c.Attempt
			}
		}
	}
	text := cmp.Comparer(func(a, b strings.Builder) bool { return a.String() == b.String() })
	failure := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Failure" }, cmp.Ignore())
	id := cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().String() == ".ID" && p.Index(-2).Type().String() == "session.Request"
	}, cmp.Ignore())
	diff := cmp.Diff(folded, w.state, text, failure, id,
		cmpopts.IgnoreUnexported(State{}, Request{}, Call{}), cmpopts.EquateEmpty())
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

// checkOutcomes asserts that every command has one outcome in the log, however often it was
// delivered.
func (w *world) checkOutcomes() {
	seen := map[string]int{}
	for _, e := range w.log {
		if p, ok := e.Message.Payload.(*schemas.CommandOutcome); ok {
			seen[p.CommandID]++
		}
	}
	for _, c := range w.commands {
		if n := seen[c.Command.ID]; n != 1 {
			w.t.Fatalf("command %s has %d outcomes\n%s", c.Command.ID, n, w.dump())
		}
	}
}
