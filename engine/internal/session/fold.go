package session

import (
	"slices"
	"time"

	"braid/schemas"
)

// Apply folds one message of the session's log into the state. Messages come in log order. What
// does not concern the session's course (messages of children, unknown kinds) is skipped.
func (s *State) Apply(m schemas.Message) {
	if s.Imported(m) {
		s.applyImported(m)
		return
	}
	if len(m.Origin) > 0 {
		return
	}
	switch p := m.Payload.(type) {
	case *schemas.SessionImported:
		s.applyImport(m, p)
	case *schemas.SessionMeta:
		s.Meta, s.Mode = p, p.ApprovalMode
	case *schemas.CommandOutcome:
		s.applyOutcome(p)
	case *schemas.SessionChanged:
		if p.ApprovalMode != "" {
			s.Mode = p.ApprovalMode
		}
	case *schemas.ToolListReady:
		s.applyTools(p.Tools)
	case *schemas.WorkspaceBound:
		s.Bound = p
	case *schemas.Checkpoint:
		s.applyCheckpoint(p)
	case *schemas.TokenUsage:
		s.applyUsage(p)
	case *schemas.SessionDeleted:
		s.Deleted = true
	case *schemas.TaskQueued:
		s.applyQueued(p)
	case *schemas.TaskDequeued:
		s.applyDequeued(p)
	case *schemas.TaskEnd:
		if s.Task != nil && s.importing != nil {
			s.Task.Aborting = s.Task.Aborting || s.importing.aborted
		}
		s.endTask()
	case *schemas.Text, *schemas.ImageURL, *schemas.InlineData:
		if roleOf(p) == schemas.RoleUser {
			s.applyPrompt(m)
			return
		}
		s.applyModel(m)
	default:
		s.applyModel(m)
	}
}

// roleOf is whose words or pictures the payload holds.
func roleOf(p schemas.Payload) schemas.Role {
	switch p := p.(type) {
	case *schemas.Text:
		return p.Role
	case *schemas.ImageURL:
		return p.Role
	case *schemas.InlineData:
		return p.Role
	}
	return ""
}

// Gap says that fragments which stood before the next message can't be read any more. What they
// were part of is unknown until its next certain point: a start, a complete message or a
// checkpoint.
func (s *State) Gap() {
	if s.Task == nil || s.Task.Request == nil {
		return
	}
	r := s.Task.Request
	r.torn = r.Open
	for _, c := range r.Calls {
		c.torn = c.running()
	}
}

// gapped reports that the newest gap leaves something uncertain.
func (r *Request) gapped() bool {
	return r.Open && r.torn || slices.ContainsFunc(r.Calls, func(c *Call) bool { return c.running() && c.torn })
}

func (s *State) applyOutcome(p *schemas.CommandOutcome) {
	s.Cursor = max(s.Cursor, p.Sequence)
	if p.Command == schemas.CommandImport && s.importing != nil {
		s.importEnded(p.Code)
	}
	if p.Code != schemas.CodeApplied {
		return
	}
	s.opener = p.CommandID
	if p.Command == schemas.CommandDelete && !s.Deleting {
		s.Deleting, s.deleter = true, p.CommandID
	}
	t := s.Task
	if t == nil {
		return
	}
	switch {
	case t.Aborting: // for the reason that it was given first
	case p.Command == schemas.CommandDelete:
		t.Aborting, t.AbortReason = true, deletedReason
	case p.Command == schemas.CommandAbort:
		t.Aborting, t.AbortReason = true, p.Message
	case p.Command == schemas.CommandRetryNow && t.Request != nil:
		t.Request.Hurried = true
	}
}

func (s *State) applyTools(tools []schemas.ToolDefinition) {
	s.Tools = make(map[string]schemas.ToolDefinition, len(tools))
	for _, t := range tools {
		s.Tools[t.Name] = t.WithDefaults()
	}
	s.ToolList = tools
}

// applyPrompt opens the task that the prompt starts. It follows its command's outcome. The task of a
// prompt with earlier turns opens at the first of them.
func (s *State) applyPrompt(m schemas.Message) {
	s.Context = append(s.Context, m)
	if s.Task == nil {
		s.Task = &Task{ID: s.opener}
	}
}

// applyModel folds what belongs to the current task and its request.
func (s *State) applyModel(m schemas.Message) {
	t := s.Task
	if t == nil {
		return
	}
	if p, ok := m.Payload.(*schemas.RequestBegin); ok {
		s.beginRequest(p)
		return
	}
	r := t.Request
	if r == nil {
		if m.Given() { // of turns before the prompt, settled all
			s.Context = append(s.Context, m)
			s.Committed = len(s.Context)
		}
		return
	}
	switch p := m.Payload.(type) {
	case *schemas.RequestEnd:
		s.endRequest(p, m.Time())
	case *schemas.BudgetExceeded:
		t.OverBudget = true
	case *schemas.LoopDetected:
		r.Looped = true
	case *schemas.OwnerChanged:
		if r.Open {
			r.Moved = p.Cause == schemas.OwnerLetGo
		}
	case *schemas.ApprovalRequest:
		if c := s.call(p.ToolCallID); c != nil {
			c.Asked = true
			c.Deadline, _ = time.Parse(time.RFC3339Nano, p.Deadline) // none if it is no time
		}
	case *schemas.ApprovalDecision:
		if c := s.call(p.ToolCallID); c != nil {
			c.Decision = p.Decision
			r.decided++
			c.order = r.decided
		}
	case *schemas.PartialToolCallOutput:
		if c := s.call(p.ToolCallID); c != nil {
			c.applyFragment(p)
		}
	case *schemas.ToolCallOutput:
		if c := s.call(p.ToolCallID); c != nil {
			c.Output, c.Streaming = p, false
			c.Text.Reset() // the output holds it
		}
	default:
		if r.Open {
			r.applyStream(m)
		}
	}
}

// beginRequest closes what the one before left for the context, then opens the next.
func (s *State) beginRequest(p *schemas.RequestBegin) {
	t := s.Task
	s.closeRequest()
	t.Request = s.newRequest(p, t.Request)
	if !slices.Contains(t.Asked, t.Request.Model) {
		t.Asked = append(t.Asked, t.Request.Model)
	}
	if t.Request.Attempt == 1 {
		t.Turn++
	}
}

// closeRequest adds to the context what the newest request has left for it, once.
func (s *State) closeRequest() {
	if s.Task == nil || s.Task.Request == nil || s.Task.Request.folded {
		return
	}
	s.foldOutputs()
	s.closeTurn()
	s.Task.Request.folded = true
}

func (s *State) endRequest(p *schemas.RequestEnd, at time.Time) {
	r := s.Task.Request
	r.Open, r.Status, r.RetryInMS, r.Fallback, r.Segment = false, p.Status, p.RetryInMS, p.FallbackModel, nil
	r.Ended = at
	if p.Status == schemas.StopCompleted {
		delete(s.GivenUp, r.Model)
		s.commit(r)
		return
	}
	r.Failure = p.ErrorInfo
	if r.Failure == nil { // an abort, or of a version that did not say
		provider, _, _ := schemas.SplitModel(r.Model)
		r.Failure = &schemas.ErrorInfo{Kind: schemas.FaultProvider, Provider: provider, Message: p.ErrorMessage, Retryable: p.RetryInMS > 0}
	}
	s.giveUp(r)
}

// foldOutputs adds to the context what the newest request's tool calls came to: the outputs of a
// committed one in call order, or, of one that did not commit but had tools run, a block that
// tells the model so.
func (s *State) foldOutputs() {
	r := s.Task.Request
	if r.Status == schemas.StopCompleted {
		for _, c := range r.Calls {
			s.Context = append(s.Context, contextOutput(c))
		}
		return
	}
	if block := retriedBlock(r.Calls); block != "" {
		s.Context = append(s.Context, schemas.Message{Type: schemas.TypeModel, Payload: schemas.HarnessText(block)})
		s.Context = append(s.Context, pictures(r.Calls)...)
	}
}

// contextOutput is a call's output as the model gets it. Every committed call has one, or
// providers refuse the conversation: a call nobody decided gets a placeholder.
func contextOutput(c *Call) schemas.Message {
	output := c.Output
	switch {
	case output == nil && c.Decision == schemas.DecisionAllow: // only a trace from elsewhere lacks it
		output = schemas.NewToolCallOutput(c.ToolCallID, unknownOutput, schemas.StopAborted)
	case output == nil:
		output = schemas.NewToolCallOutput(c.ToolCallID, "[aborted: the call was not run]", schemas.StopAborted)
	}
	return schemas.Message{Type: schemas.TypeModel, Payload: output}
}

// endTask closes the task and leaves the context such that the next prompt can follow: every
// committed call paired, an uncommitted turn as one block.
func (s *State) endTask() {
	t := s.Task
	if t == nil {
		return
	}
	if r := t.Request; r == nil || r.Status != schemas.StopCompleted {
		s.carryOver(t)
	} else if !r.folded {
		s.foldOutputs()
	}
	s.Task = nil
	s.Queue = slices.Clone(s.Queue)
	for i := range s.Queue {
		s.Queue[i].Steers = false // what it was to steer is over
	}
}

// applyStream folds what the model streams: fragments, then the complete message.
func (r *Request) applyStream(m schemas.Message) {
	switch p := m.Payload.(type) {
	case *schemas.PartialText:
		r.applyPartial(p.EventType, &Segment{Of: schemas.KindText}, p.Text)
	case *schemas.PartialThinking:
		r.applyPartial(p.EventType, &Segment{Of: schemas.KindThinking}, p.Thinking)
	case *schemas.PartialToolCall:
		r.applyPartial(p.EventType, &Segment{Of: schemas.KindToolCall, Name: p.Name, ToolCallID: p.ToolCallID}, p.Arguments)
	case *schemas.ToolCall:
		r.Segment, r.torn = nil, false
		r.Messages = append(r.Messages, m)
		r.Calls = append(r.Calls, &Call{ToolCall: p, Attempt: 1})
	case *schemas.Text, *schemas.Thinking, *schemas.InlineThinking, *schemas.InlineData:
		r.Segment, r.torn = nil, false
		r.Messages = append(r.Messages, m)
	}
}

// applyPartial opens the fresh segment, or adds the text to the open one. The complete message
// closes it.
func (r *Request) applyPartial(phase schemas.Phase, fresh *Segment, text string) {
	if phase == schemas.PhaseStart {
		r.torn = false
	}
	if phase == schemas.PhaseStart || r.Segment == nil {
		r.Segment = fresh
	}
	r.Segment.Text.WriteString(text)
}

func (c *Call) applyFragment(p *schemas.PartialToolCallOutput) {
	c.Streaming = p.EventType != schemas.PhaseStop
	if p.EventType == schemas.PhaseStart {
		// Whoever began the output knew of nothing before: what this owner sees of it had expired.
		c.torn, c.Offset = false, 0
		c.Text.Reset()
	}
	c.Text.WriteString(p.Output)
	if p.Attempt > 0 {
		c.Attempt, c.Offset = p.Attempt, p.Offset
	}
}

// applyCheckpoint sets everything open to what its owner knew, whatever of it has expired.
func (s *State) applyCheckpoint(p *schemas.Checkpoint) {
	if s.Task == nil || s.Task.Request == nil {
		return
	}
	for _, c := range s.Task.Request.Calls {
		c.torn = false
	}
	if r := s.Task.Request; r.Open {
		r.Segment, r.torn = nil, false
		if o := p.Segment; o != nil {
			r.Segment = &Segment{Of: o.Of, Name: o.Name, ToolCallID: o.ToolCallID}
			r.Segment.Text.WriteString(o.Text)
		}
	}
	for _, o := range p.Outputs {
		if c := s.call(o.ToolCallID); c != nil && c.Output == nil {
			c.Streaming, c.Attempt, c.Offset = true, o.Attempt, o.Offset
			c.Text.Reset()
			c.Text.WriteString(o.Text)
		}
	}
}
