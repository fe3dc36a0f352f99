package session

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"braid/schemas"
)

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

const gaveUpText = "taken over too often"

// modes has what lets tools run more often.
var modes = []schemas.ApprovalMode{
	schemas.ApproveAll, schemas.ApproveAll, schemas.ApproveAll, schemas.ApproveNone, schemas.ApproveReadOnly, schemas.ApproveAsk,
}

func (w *world) command(t schemas.CommandType, fill func(*schemas.Command)) {
	sequence := uint64(len(w.commands) + 1)
	c := schemas.Command{ID: fmt.Sprintf("%sk%d", strings.Repeat("c", w.copies), sequence), Type: t, Session: w.state.Session}
	if fill != nil {
		fill(&c)
	}
	w.commands = append(w.commands, CommandReceived{Sequence: sequence, Time: w.now, Command: c})
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
	for call := range w.schedules {
		m["deadline "+call] = func() { w.moveDeadline(call, 0) }
		if faults {
			m["early deadline "+call] = func() { w.moveDeadline(call, -time.Millisecond) }
		}
	}
	if w.wait != nil {
		m["retry now"] = w.retryNow
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
			mode := rapid.SampledFrom(modes).Draw(w.t, "mode")
			limits, fallbacks := w.drawLimits(), w.drawFallbacks()
			timeout := rapid.SampledFrom([]int64{0, 1, 1000}).Draw(w.t, "approval timeout")
			w.command(schemas.CommandCreate, func(k *schemas.Command) {
				k.Create = &schemas.CreateBody{Model: "p/m", FallbackModels: fallbacks, ApprovalMode: mode, Limits: limits, ApprovalTimeoutMS: timeout}
			})
		}
	} else if faults || w.state.Task == nil {
		m["set"] = func() {
			mode := rapid.SampledFrom(modes).Draw(w.t, "mode")
			w.command(schemas.CommandSet, func(k *schemas.Command) { k.Set = &schemas.SetBody{ApprovalMode: mode} })
		}
	}
	if w.state.Meta != nil {
		w.promptMoves(m, faults)
	}
	if !faults {
		return m
	}
	m["die"] = w.die
	m["time passes"] = func() { w.now = w.now.Add(coolDown / 2) }
	m["hand over"] = w.handOver
	m["retry what does not wait"] = w.retryNow
	if n := len(w.commands); n > 0 {
		m["repeat"] = func() { w.step(w.commands[rapid.IntRange(0, n-1).Draw(w.t, "command")]) }
	}
	m["checkpoint"] = func() { w.step(CheckpointDue{}) }
	if w.state.Task != nil {
		m["abort"] = func() {
			drop := rapid.Bool().Draw(w.t, "drop the queue")
			w.command(schemas.CommandAbort, func(k *schemas.Command) { k.Abort = &schemas.AbortBody{DropQueue: drop} })
		}
		m["give up"] = func() { w.step(GaveUp{Message: gaveUpText, Lost: w.lost()}) }
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
		run.said++
		w.step(ModelMessage{Request: run.request, Message: m})
		return
	}
	status := run.status
	if len(run.script) > 0 && status != schemas.StopAborted {
		status = schemas.StopMalformed
	}
	w.model = nil
	e := ModelEnded{Request: run.request, Status: status, Jitter: rapid.Float64Range(0, 0.999).Draw(w.t, "jitter"), Usage: w.drawUsage()}
	if status != schemas.StopCompleted {
		e.Failure = &schemas.ErrorInfo{Kind: "provider", Message: "scripted"}
		if run.said == 0 && rapid.Bool().Draw(w.t, "refused") {
			e.Usage, e.Failure.Message = schemas.TokenCounts{}, refusedMessage
		}
	}
	w.step(e)
}

// moveDeadline has the broker send a deadline, at its instant or beside it. One that comes early denies nothing,
// though the rules or the mode that a new owner goes by may decide the call in the same step.
func (w *world) moveDeadline(call string, off time.Duration) {
	s := w.schedules[call]
	delete(w.schedules, call)
	decided := w.state.call(call) == nil || w.state.call(call).Decision != ""
	w.commands = append(w.commands, CommandReceived{Sequence: uint64(len(w.commands) + 1), Time: s.At.Add(off), Command: s.Command})
	w.step(w.commands[len(w.commands)-1])
	if c := w.state.call(call); off < 0 && !decided && c != nil && c.Output != nil && c.Output.Output == deniedTooLate {
		w.t.Fatalf("call %s was denied before its deadline\n%s", call, w.dump())
	}
}

func (w *world) retryNow() { w.command(schemas.CommandRetryNow, nil) }

// hurries is the request whose wait the event may cut short.
func (w *world) hurries(e Event) *Request {
	c, ok := e.(CommandReceived)
	if !ok || c.Command.Type != schemas.CommandRetryNow || w.state.Task == nil {
		return nil
	}
	return w.state.Task.Request
}

// late is the call that waits although its deadline had passed when the event was brought about.
func (w *world) late(e Event) *Call {
	at := w.now
	if c, ok := e.(CommandReceived); ok {
		at = c.Time
	}
	for _, c := range w.state.Pending() {
		if !c.Deadline.IsZero() && !at.Before(c.Deadline) {
			return c
		}
	}
	return nil
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
	w.step(ToolStarted{ToolCallID: id, Toolrunner: run.place}) // told as often as it is heard
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
