package engine

import (
	"time"

	"braid/schemas"
)

// ledger reads a session's messages in order and tells what they amount to: requests, tasks and commands
// that came to an end. A new owner first has it read the log without telling anybody, so that it knows
// when a task began that ends under this owner.
type ledger struct {
	ref      schemas.SessionRef
	imported schemas.Imported
	agent    string
	model    string                          // the session's own
	opener   string                          // names the task that a prompt begins
	callers  map[string]schemas.TraceContext // of prompts that have neither begun a task nor joined one
	task     EndedTask
	request  *EndedRequest          // the open one
	settled  map[string]SettledCall // calls whose output is on its way to the log, by id
}

func newLedger(ref schemas.SessionRef) ledger {
	return ledger{ref: ref, callers: map[string]schemas.TraceContext{}, settled: map[string]SettledCall{}}
}

// read takes the session's next message, and tells events what ended with it.
func (l *ledger) read(m schemas.Message, events Events) {
	if l.imported.Take(m, schemas.ViewRecorded) || len(m.Origin) > 0 {
		return
	}
	switch p := m.Payload.(type) {
	case *schemas.SessionMeta:
		l.settle(p)
	case *schemas.SessionImported:
		l.settle(&p.Settings)
	case *schemas.CommandOutcome:
		if p.Code == schemas.CodeApplied {
			l.opener = p.CommandID
		}
		if p.Caller != (schemas.TraceContext{}) {
			l.callers[p.CommandID] = p.Caller
		}
		tell(events.Settled, SettledCommand{Type: p.Command, Code: p.Code})
	case *schemas.TaskDequeued:
		l.dequeued(p)
	case *schemas.OwnerChanged:
		tell(events.TakenOver, p.Cause)
	case *schemas.RequestBegin:
		l.requestBegins(p, m.Time())
	case *schemas.TokenUsage:
		if l.request != nil {
			l.request.Used, l.request.Estimated = p.Request, p.Estimated
		}
	case *schemas.RequestEnd:
		l.requestEnds(p, m.Time(), events)
	case *schemas.ToolCallOutput:
		if call, ok := l.settled[p.ToolCallID]; ok {
			delete(l.settled, p.ToolCallID)
			tell(events.CallSettled, call)
		}
	case *schemas.TaskEnd:
		l.taskEnds(p, m.Time(), events)
	default:
		l.said(m)
	}
}

// tell calls a function that may be missing.
func tell[T any](f func(T), what T) {
	if f != nil {
		f(what)
	}
}

// settle notes what the session was created with.
func (l *ledger) settle(meta *schemas.SessionMeta) {
	l.agent, l.model = meta.Agent, meta.Provider+"/"+meta.ModelID
}

// said notes when a task begins, which is when its prompt is stored, and when its model begins to speak.
func (l *ledger) said(m schemas.Message) {
	switch {
	case m.Type != schemas.TypeModel:
	case l.task.Begun.IsZero() && (m.Prompt() || m.Given()):
		l.task.TaskOf = TaskOf{Session: l.ref, Agent: l.agent, Task: l.opener, Caller: l.takeCaller(l.opener)}
		l.task.Begun = m.Time()
	case l.request != nil && l.request.Said.IsZero() && fromModel(m.Payload):
		l.request.Said = m.Time()
	}
}

// dequeued notes what becomes of a prompt that has waited.
func (l *ledger) dequeued(p *schemas.TaskDequeued) {
	if p.Cause == schemas.DequeuedStarted {
		l.opener = p.TaskID
		return
	}
	caller := l.takeCaller(p.TaskID)
	if p.Cause == schemas.DequeuedSteering && caller != (schemas.TraceContext{}) && len(l.task.Steered) < MaxSteered {
		l.task.Steered = append(l.task.Steered, caller)
	}
}

// takeCaller is where a prompt came from, which is asked once.
func (l *ledger) takeCaller(id string) schemas.TraceContext {
	caller := l.callers[id]
	delete(l.callers, id)
	return caller
}

// fromModel reports whether a payload holds words of the model, or part of a call that it makes.
func fromModel(p schemas.Payload) bool {
	switch p := p.(type) {
	case *schemas.PartialText, *schemas.PartialThinking, *schemas.PartialToolCall,
		*schemas.Thinking, *schemas.InlineThinking, *schemas.ToolCall:
		return true
	case *schemas.Text:
		return p.Role == schemas.RoleAssistant
	}
	return false
}

func (l *ledger) requestBegins(p *schemas.RequestBegin, at time.Time) {
	l.request = &EndedRequest{TaskOf: l.task.TaskOf, Model: l.model, Attempt: max(p.Attempt, 1), Begun: at}
	if p.Model != "" {
		l.request.Model = p.Model
	}
}

func (l *ledger) requestEnds(p *schemas.RequestEnd, at time.Time, events Events) {
	r := l.request
	if r == nil {
		return
	}
	l.request = nil
	r.Ended, r.Status, r.Failure = at, p.Status, p.ErrorInfo
	l.task.Used = l.task.Used.Add(r.Used)
	if p.Status == schemas.StopCompleted {
		l.task.Turns++
	}
	tell(events.RequestEnded, *r)
}

func (l *ledger) taskEnds(p *schemas.TaskEnd, at time.Time, events Events) {
	t := l.task
	l.task = EndedTask{}
	clear(l.settled)
	if t.Begun.IsZero() {
		return // the end of an imported one
	}
	t.Model, t.Ended, t.Status, t.Cause = l.model, at, p.Status, p.Cause
	tell(events.TaskEnded, t)
}
