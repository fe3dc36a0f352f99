package schemas

import (
	"cmp"
	"errors"
	"io"
)

// ImportBody creates a session from a trace. What is left out is as the definition of the agent that it
// names has it, and what that leaves out too as the trace has it, but for the approval mode: whoever
// imports decides who approves, not the file. The members are those of a [CreateBody].
type ImportBody struct {
	// Trace names the object that holds the trace, JSON Lines.
	Trace string `json:"trace"`
	// Model is "provider/model".
	Model          string   `json:"model,omitzero"`
	FallbackModels []string `json:"fallback_models,omitzero"`
	// Agent names the definition. The agent that a trace names is recorded, and not looked for.
	Agent             string       `json:"agent,omitzero"`
	SystemPrompt      string       `json:"system_prompt,omitzero"`
	Tools             []string     `json:"tools,omitzero"`
	ApprovalMode      ApprovalMode `json:"approval_mode,omitzero"`
	Workspace         string       `json:"workspace,omitzero"`
	Limits            Limits       `json:"limits,omitzero"`
	ApprovalTimeoutMS int64        `json:"approval_timeout_ms,omitzero"`
}

// With is the body with what it leaves open taken from an agent's definition, as [CreateBody.With]
// does.
func (b *ImportBody) With(a Agent) ImportBody {
	create := b.create()
	return importOf(b.Trace, create.With(a))
}

// create is the body of the session, and importOf the way back.
func (b *ImportBody) create() CreateBody {
	return CreateBody{
		Model: b.Model, FallbackModels: b.FallbackModels, Agent: b.Agent, SystemPrompt: b.SystemPrompt, Tools: b.Tools,
		ApprovalMode: b.ApprovalMode, Workspace: b.Workspace, Limits: b.Limits, ApprovalTimeoutMS: b.ApprovalTimeoutMS,
	}
}

func importOf(trace string, c CreateBody) ImportBody {
	return ImportBody{
		Trace: trace, Model: c.Model, FallbackModels: c.FallbackModels, Agent: c.Agent, SystemPrompt: c.SystemPrompt, Tools: c.Tools,
		ApprovalMode: c.ApprovalMode, Workspace: c.Workspace, Limits: c.Limits, ApprovalTimeoutMS: c.ApprovalTimeoutMS,
	}
}

func (b *ImportBody) validate() error {
	if b.Trace == "" || len(b.Trace) > MaxReason {
		return &Error{Code: CodeInvalid, Field: "trace", Message: "trace must name an object"}
	}
	create := b.create()
	if create.Model == "" {
		create.Model = "any/any" // the agent's, or the trace's own, which is looked at when the trace is read
	}
	return create.validate()
}

// Settings are what the session of that id runs on, given what its trace says; the agent's definition
// is in the body by then. The error is an *[Error]: the trace names no model that can be named, or limits
// that are none.
func (b *ImportBody) Settings(id string, trace SessionMeta) (SessionMeta, error) {
	s := trace
	s.SessionID, s.AgentState, s.Source, s.Extra = id, "", "", nil
	if b.Model != "" {
		s.Provider, s.ModelID, _ = SplitModel(b.Model) // validated with the command
		s.ModelContextWindow = nil
	} else if _, _, err := SplitModel(s.Provider + "/" + s.ModelID); err != nil {
		return s, &Error{Code: CodeInvalid, Field: "model", Message: "the trace names no usable model: give one"}
	}
	if b.FallbackModels != nil {
		s.FallbackModels = b.FallbackModels
	}
	s.FallbackModels = usableFallbacks(s.Provider+"/"+s.ModelID, s.FallbackModels)
	if b.Tools != nil {
		s.Tools = b.Tools
	}
	s.SystemPrompt = cmp.Or(b.SystemPrompt, s.SystemPrompt)
	s.Workspace = cmp.Or(b.Workspace, s.Workspace)
	s.Limits = b.Limits.or(s.Limits)
	s.ApprovalTimeoutMS = cmp.Or(b.ApprovalTimeoutMS, s.ApprovalTimeoutMS)
	s.ApprovalMode = cmp.Or(b.ApprovalMode, ApproveReadOnly)
	if b.Agent != "" {
		s.Agent = b.Agent
	} else if !ValidName(s.Agent) {
		s.Agent = ""
	}
	if s.ApprovalTimeoutMS < 0 || s.ApprovalTimeoutMS > MaxApprovalTimeout {
		s.ApprovalTimeoutMS = 0
	}
	return s, s.Limits.validate()
}

// TraceCheck decides whether a trace can be imported, so that its session can go on: message by
// message, and at its end. It accepts more than a [Checker] does, since traces come from elsewhere;
// it refuses what would make the session go on from another context than the one it had.
//
// A trace with unknown events or members, without task_end, or cut off in the middle of a turn is
// fine. It is not safe for concurrent use.
type TraceCheck struct {
	meta     *SessionMeta
	imported Imported // an import that the trace itself holds
	open     bool     // a request is
	begun    bool     // a request has
	due      int      // calls of earlier turns that lack their output
	facts    TraceFacts
}

// TraceFacts is what a trace says of itself.
type TraceFacts struct {
	// Meta is what its session ran on.
	Meta SessionMeta
	// Messages is how many it has, Visible how many of them watchers see.
	Messages, Visible int
}

// Add takes the next message. The error is an *[Error] that says why it can't be imported.
func (c *TraceCheck) Add(m Message) error {
	c.facts.Messages++
	if m.Visible() {
		c.facts.Visible++
	}
	switch {
	case len(m.Origin) > 0:
		return refuseTrace("a message of a child session: it belongs to that session's own trace")
	case m.Partial():
		return refuseTrace("%s is a fragment: a trace holds complete messages only", m.Kind())
	}
	if c.imported.Refuses(m) {
		c.meta, c.open, c.begun, c.due = nil, false, false, 0
	}
	nested := c.imported.Take(m, ViewRecorded)
	switch p := m.Payload.(type) {
	case *SessionImported:
		if !nested {
			c.meta = &p.Settings
		}
		return nil
	case *SessionMeta:
		if nested {
			return nil
		}
		if c.meta != nil {
			return refuseTrace("a second session_meta opens another context: import the trace of one context")
		}
		c.meta = p
		return nil
	case *CommandOutcome: // ours, which may stand before everything
		if p.Command == CommandImport && p.Code != CodeApplied {
			c.begun, c.due = false, 0 // however deep it stands: earlier turns may follow
		}
		return nil
	case *Checkpoint:
		return nil
	}
	if c.meta == nil && !nested {
		return refuseTrace("%s stands before session_meta, which comes first in a trace", m.Kind())
	}
	if c.earlier(m) {
		switch m.Payload.(type) {
		case *ToolCall:
			c.due++
		case *ToolCallOutput:
			c.due--
		}
	}
	return c.check(m)
}

func (c *TraceCheck) check(m Message) error {
	switch p := m.Payload.(type) {
	case *RequestBegin:
		c.open, c.begun = true, true
	case *RequestEnd:
		c.open = false
	case *CompactionEnd:
		if p.Status == StopCompleted {
			return refuseTrace("the context was compacted, and goes on elsewhere: import the trace of the context that follows")
		}
	case *Unknown:
		if m.Type == TypeModel {
			return refuseTrace("a model_msg of the type %.80q is not known, and would be missing from the context", string(p.Of))
		}
	case *Text:
		if p.Role != RoleUser && !c.open && !c.earlier(m) && p.StopReason != StopFailed {
			return refuseTrace("the model speaks outside of any request")
		}
	case *ToolCall, *Thinking, *InlineThinking:
		if !c.open && !c.earlier(m) {
			return refuseTrace("%s stands outside of any request", m.Kind())
		}
	}
	return nil
}

// earlier reports that the message can be of a turn that was given with the first prompt.
func (c *TraceCheck) earlier(m Message) bool { return !c.begun && !m.Visible() }

// Finish returns what the trace says of itself. The error is an *[Error]: there is no session_meta.
func (c *TraceCheck) Finish() (TraceFacts, error) {
	if c.meta == nil {
		return c.facts, refuseTrace("the trace has no session_meta")
	}
	if c.due > 0 {
		return c.facts, refuseTrace("the trace ends in the midst of the turns that were given with the first prompt")
	}
	c.facts.Meta = *c.meta
	return c.facts, nil
}

func refuseTrace(format string, args ...any) *Error { return Errorf(CodeInvalid, format, args...) }

// CheckTrace reads a trace and decides whether it can be imported. A line that can't be makes it
// fail with a *[LineError].
func CheckTrace(lines *LineReader) (TraceFacts, error) {
	var check TraceCheck
	for {
		n, m, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return check.Finish()
		}
		if err != nil {
			return TraceFacts{}, err
		}
		if err := check.Add(m); err != nil {
			return TraceFacts{}, &LineError{Line: n, Err: err}
		}
	}
}
