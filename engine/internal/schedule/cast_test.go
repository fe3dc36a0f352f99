package schedule

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"braid/engine/internal/session"
	"braid/llm"
	"braid/schemas"
)

// modelCall is a request that a scripted model answers, one message at a time.
type modelCall struct {
	request uint64
	next    func() (said, bool)
	stop    func()
	cancel  context.CancelCauseFunc
	ended   bool // it was cancelled, and is about to say so
	outcome llm.Outcome
	gate    string // it waits here
	used    schemas.TokenCounts
	guessed bool // nobody said what it used
}

// said is what a model does next: a message, or waiting at a gate.
type said struct {
	message schemas.Message
	gate    string
}

func (s *stage) callModel(e session.CallModel) {
	o := s.owner
	if task := o.state.Task; task == nil || task.Aborting || task.Request == nil || !task.Request.Open || task.Request.ID != e.Request {
		return // aborted while it waited
	}
	s.require("a model call", "event request_begin")
	if o.model != nil {
		s.fail("two model calls at once")
	}
	req := s.request(o.state, e.Model, e.Input)
	req.Attempt = e.Attempt
	s.checkInput(e.Input)
	req, refused := req.Fit(s.models[req.Model].Info())
	if refused == nil {
		s.inputs = append(s.inputs, s.names.Input(req))
	}
	o.model = s.newModelCall(e.Request, req, refused)
}

// request is what a model of the session is asked.
func (s *stage) request(state *session.State, model string, input []schemas.Message) llm.Request {
	_, name, _ := schemas.SplitModel(model)
	req := llm.Request{Session: ref, Model: name, System: state.Meta.SystemPrompt, Tools: state.ToolList, Input: input}
	return req.For(s.models[name].Info())
}

// lost estimates what the request used that an owner before has left open.
func (s *stage) lost(state *session.State) schemas.TokenCounts {
	input, said, open := state.OpenRequest()
	if !open {
		return schemas.TokenCounts{}
	}
	model := state.Task.Request.Model
	return s.priced(model, llm.EstimateUsage(s.request(state, model, input), said))
}

// priced is what requests to a model used, with what it cost.
func (s *stage) priced(model string, used schemas.TokenCounts) schemas.TokenCounts {
	if price, ok := s.prices[model]; ok {
		used.CostUSD = price.Cost(used)
	}
	return used
}

// newModelCall is a call of a model that does as its script says, or, if it is refused, is not asked.
func (s *stage) newModelCall(request uint64, req llm.Request, refused *llm.Outcome) *modelCall {
	m := &modelCall{request: request}
	ctx, cancel := context.WithCancelCause(context.Background())
	m.cancel = cancel
	m.next, m.stop = iter.Pull(func(yield func(said) bool) {
		var all []schemas.Message
		model := *s.models[req.Model]
		model.Now = func() time.Time { return s.now }
		model.Wait = func(ctx context.Context, gate string) error {
			if req.Model != "m" {
				gate = req.Model + "/" + gate
			}
			for !s.gates[gate] && ctx.Err() == nil {
				if !yield(said{gate: gate}) {
					return context.Canceled
				}
			}
			return context.Cause(ctx)
		}
		if refused != nil {
			m.outcome = *refused
			return
		}
		m.outcome = model.Stream(ctx, req, func(message schemas.Message) error {
			yield(said{message: message})
			if !message.Partial() {
				all = append(all, message)
			}
			return nil
		})
		m.used, m.guessed = llm.Used(req, m.outcome, all)
		m.used = s.priced("scripted/"+req.Model, m.used)
	})
	return m
}

// modelSpeaks has the model go on: to its next message, a gate or its end.
func (s *stage) modelSpeaks() {
	m := s.owner.model
	next, more := m.next()
	switch {
	case more && next.gate != "":
		m.gate = next.gate
	case more:
		m.gate = ""
		s.event(session.ModelMessage{Request: m.request, Message: next.message})
	default:
		s.stopModelOf(s.owner)
		s.event(m.end())
	}
}

func (m *modelCall) end() session.ModelEnded {
	e := session.ModelEnded{Request: m.request, Status: m.outcome.Status, Usage: m.used, Estimated: m.guessed}
	if m.outcome.Error != nil {
		info := m.outcome.Error.Info()
		e.Failure, e.RetryAfter = &info, m.outcome.Error.RetryAfter
	}
	return e
}

// modelFallsSilent ends the request as one that said nothing for too long, or was not done in time.
func (s *stage) modelFallsSilent() {
	o := s.owner
	limits := o.state.Meta.Limits
	why := fmt.Sprintf("the model said nothing for %s", time.Duration(limits.IdleTimeoutMS)*time.Millisecond)
	if limits.IdleTimeoutMS == 0 {
		why = fmt.Sprintf("the model did not finish within %s", time.Duration(limits.RequestTimeoutMS)*time.Millisecond)
	}
	m := o.model
	m.cancel(context.DeadlineExceeded)
	for next, more := m.next(); more; next, more = m.next() {
		s.event(session.ModelMessage{Request: m.request, Message: next.message})
	}
	m.outcome.Status = schemas.StopTimeout
	m.outcome.Error = &llm.Error{Kind: llm.KindProvider, Provider: "scripted", Message: why, Retryable: true}
	s.stopModelOf(o)
	s.event(m.end())
}

// stopModel cancels a model call; one that has not left never will.
func (s *stage) stopModel(request uint64) {
	o := s.owner
	if m := o.model; m != nil && m.request == request {
		m.ended = true
		m.cancel(context.Canceled)
		return
	}
	o.unsent = append(o.unsent, request)
}

// modelNeverLeft ends a request whose call was not made.
func (s *stage) modelNeverLeft() {
	o := s.owner
	request := o.unsent[0]
	o.unsent = o.unsent[1:]
	s.event(session.ModelEnded{Request: request, Status: schemas.StopAborted})
}

// canSpeak reports that the model does not wait for anything.
func (s *stage) canSpeak() bool {
	m := s.owner.model
	return m != nil && (m.ended || m.gate == "" || s.gates[m.gate])
}

func (s *stage) stopModelOf(o *tenure) {
	if m := o.model; m != nil {
		m.cancel(context.Canceled)
		m.stop()
		o.model = nil
	}
}

// The states of a tool call, as its records have them.
const (
	queued = iota
	started
	done
)

// tool is the toolrunner's side of a call, and its records: they outlive owners.
type tool struct {
	id, name string // name is that of the call
	safe     bool
	pooled   bool // toolrunners serve its pool
	def      schemas.ToolDefinition

	state   int
	runner  string // that started it
	attempt int
	text    string
	result  *schemas.ToolResult
	starts  []int // attempts that were started

	// What follows is between it and the present owner.
	attached  bool
	cancelled bool
	reported  bool
	fragments []schemas.ToolFragment // on their way
}

func (t *tool) newOwner() {
	t.attached, t.cancelled, t.reported, t.fragments = false, false, false, nil
}

func (s *stage) tool(id string) *tool {
	i := slices.IndexFunc(s.tools, func(t *tool) bool { return t.id == id })
	if i < 0 {
		return nil
	}
	return s.tools[i]
}

// toolNamed is the tool that runs the call of that name; nil if none does.
func (s *stage) toolNamed(name string) *tool {
	i := slices.IndexFunc(s.tools, func(t *tool) bool { return t.name == name })
	if i < 0 {
		return nil
	}
	return s.tools[i]
}

func (s *stage) startTool(e session.StartTool) {
	name := s.names.Line(schemas.New(s.now, &schemas.ApprovalDecision{Decision: schemas.DecisionAllow, ToolCallID: e.Call.ToolCallID}))
	s.require("a tool call", name)
	t := s.tool(e.Call.ToolCallID)
	if t == nil {
		t = &tool{
			id: e.Call.ToolCallID, name: name[len(name)-1:], attempt: 1, def: e.Definition,
			safe: e.Definition.Retry == schemas.RetrySafe, pooled: e.Definition.Pool == schemas.DefaultPool,
		}
		s.tools = append(s.tools, t)
	} else if !e.Resumed {
		s.fail("call %s is started twice", t.name)
	}
	if !t.attached {
		t.attached = true
		t.resend(e.Attempt, e.Offset)
	}
}

// resend has the toolrunner publish its output again.
func (t *tool) resend(attempt int, from int64) {
	if attempt < t.attempt {
		from = 0
	}
	if t.state == started && from < int64(len(t.text)) {
		t.fragments = append(t.fragments, schemas.ToolFragment{ToolCallID: t.id, Attempt: t.attempt, Offset: from, Text: t.text[from:]})
	}
}

func (t *tool) start(runner string) {
	t.state, t.runner = started, runner
	t.starts = append(t.starts, t.attempt)
}

func (t *tool) say(text string, heard bool) {
	f := schemas.ToolFragment{ToolCallID: t.id, Attempt: t.attempt, Offset: int64(len(t.text)), Text: text}
	t.text += text
	if heard && t.attached {
		t.fragments = append(t.fragments, f)
	}
}

// end writes the call's last record.
func (t *tool) end(r schemas.ToolResult) { t.state, t.result = done, &r }

// missed is what the owner does when a call's toolrunner is gone: again what may run twice.
func (t *tool) missed() {
	if t.safe && t.attempt < 3 {
		t.state, t.runner, t.text = queued, "", ""
		t.attempt++
		return
	}
	t.end(given(schemas.StopFailed, "the toolrunner was lost after it had started the call; whether the call took effect is unknown"))
}

// given is a result that the owner writes in a toolrunner's place.
func given(reason schemas.StopReason, note string) schemas.ToolResult {
	return schemas.ToolResult{Output: "[" + note + "]", Appends: true, StopReason: reason}
}

// nobodyTook is the result of a call that waited in the queue for too long.
func (t *tool) nobodyTook() schemas.ToolResult {
	limit := time.Duration(t.def.QueueTimeoutMS) * time.Millisecond
	return given(schemas.StopFailed, fmt.Sprintf("no toolrunner of pool %q took the call of tool %q within %s; it was not run", t.def.Pool, t.def.Name, limit))
}
