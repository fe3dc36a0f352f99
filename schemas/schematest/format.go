package schematest

import (
	"fmt"
	"strconv"
	"strings"

	"braid/schemas"
)

// Format writes entries as a timeline that [Parse] reads back. Members that the notation has no
// place for are left out.
func Format(entries []schemas.Entry) string {
	var b strings.Builder
	var last schemas.Position
	for _, e := range entries {
		switch next := last.Sequence + 1; {
		case e.Position == (schemas.Position{Sequence: last.Sequence, Line: last.Line + 1}):
			b.WriteString("+ ")
		case e.Position.Sequence != next:
			fmt.Fprintf(&b, "@%d ", e.Position.Sequence)
		}
		b.WriteString(FormatMessage(e.Message))
		b.WriteByte('\n')
		last = e.Position
	}
	return b.String()
}

// FormatMessage writes one message as a line of a timeline, without its position.
func FormatMessage(m schemas.Message) string {
	var l line
	if len(m.Origin) > 0 {
		l.add(strings.Join(m.Origin, "/") + ":")
	}
	if m.Scope == schemas.ScopeTrace {
		l.add("trace")
	}
	if m.Type == schemas.TypeEvent {
		l.add("event")
	}
	l.payload(m.Payload)
	return strings.Join(l.words, " ")
}

// line is a line under construction.
type line struct{ words []string }

// add adds words as they are; empty ones are left out.
func (l *line) add(words ...string) {
	for _, w := range words {
		if w != "" {
			l.words = append(l.words, w)
		}
	}
}

// quote adds contents in quotes.
func (l *line) quote(contents ...string) {
	for _, c := range contents {
		l.words = append(l.words, strconv.Quote(c))
	}
}

// images adds pictures, each in short.
func (l *line) images(urls []string) {
	for _, url := range urls {
		l.quote(shortImage(url))
	}
}

// shortImage is a picture's description, in the place of the picture; what is no picture is shown as
// it is.
func shortImage(url string) string {
	i, err := schemas.ParseImage(url)
	if err != nil {
		return url
	}
	return i.String()
}

// name adds a member by name, if it is set.
func (l *line) name(name, value string) {
	switch {
	case value == "" || value == "0":
	case strings.ContainsAny(value, " \t\"\n#!"):
		l.add(name + "=" + strconv.Quote(value))
	default:
		l.add(name + "=" + value)
	}
}

func (l *line) reason(r schemas.StopReason) { l.name("stop_reason", string(r)) }

// fragment adds a phase and what the fragment carries.
func (l *line) fragment(phase schemas.Phase, contents ...string) {
	l.add(string(phase))
	for _, c := range contents {
		if c != "" || phase == schemas.PhaseDelta {
			l.quote(c)
		}
	}
}

func (l *line) payload(p schemas.Payload) {
	if t, ok := p.(*schemas.Text); ok && t.Role == schemas.RoleUser {
		l.add("user")
		l.quote(t.Text)
		l.name("sender", string(t.Sender))
		return
	}
	if i, ok := p.(*schemas.ImageURL); ok && i.Role == schemas.RoleUser {
		l.add("image")
		l.quote(shortImage(i.ImageURL))
		return
	}
	l.add(string(p.Kind()))
	switch p := p.(type) {
	case *schemas.SessionMeta:
		l.add(p.SessionID)
	case *schemas.Text:
		l.quote(p.Text)
		l.reason(p.StopReason)
	case *schemas.Thinking:
		l.quote(p.Thinking)
		l.reason(p.StopReason)
	case *schemas.InlineThinking:
		l.quote(p.Data)
		l.reason(p.StopReason)
	case *schemas.ImageURL:
		l.quote(shortImage(p.ImageURL))
	case *schemas.InlineData:
		l.quote(p.Data)
	case *schemas.ToolCall:
		l.add(p.ToolCallID, p.Name)
		l.quote(p.Arguments)
		l.reason(p.StopReason)
	case *schemas.ToolCallOutput:
		l.add(p.ToolCallID)
		l.quote(p.Output)
		l.images(p.Images)
		l.reason(p.StopReason)
	case *schemas.PartialText:
		l.fragment(p.EventType, p.Text)
		l.reason(p.StopReason)
	case *schemas.PartialThinking:
		l.fragment(p.EventType, p.Thinking)
		l.reason(p.StopReason)
	case *schemas.PartialToolCall:
		l.add(p.ToolCallID, string(p.EventType))
		if p.EventType == schemas.PhaseStart {
			l.quote(p.Name)
		}
		if p.Arguments != "" {
			l.quote(p.Arguments)
		}
		l.reason(p.StopReason)
	case *schemas.PartialToolCallOutput:
		l.add(p.ToolCallID)
		l.fragment(p.EventType, p.Output)
		l.images(p.Images)
		l.name("attempt", strconv.Itoa(p.Attempt))
		l.reason(p.StopReason)
	default:
		l.event(p)
	}
}

func (l *line) event(p schemas.Payload) {
	switch p := p.(type) {
	case *schemas.MCPConnectEnd:
		l.add(string(p.Status))
	case *schemas.RequestBegin:
		l.name("attempt", strconv.Itoa(p.Attempt))
		l.name("model", p.Model)
	case *schemas.RequestEnd:
		l.add(string(p.Status))
		l.name("error_message", p.ErrorMessage)
		l.name("attempt", strconv.Itoa(p.Attempt))
		l.name("retry_in_ms", strconv.FormatInt(p.RetryInMS, 10))
		l.name("fallback_model", p.FallbackModel)
	case *schemas.TokenUsage:
		l.name("request", strconv.FormatInt(p.Request.Total, 10))
		l.name("session", strconv.FormatInt(p.Session.Total, 10))
	case *schemas.ApprovalRequest:
		l.add(p.ToolCallID, p.Name)
		l.quote(p.Arguments)
		l.name("rule", p.Rule)
	case *schemas.ApprovalDecision:
		l.add(string(p.Decision), p.ToolCallID)
		l.name("rule", p.Rule)
	case *schemas.CompactionEnd:
		l.add(string(p.Status))
	case *schemas.Abort:
		if p.Reason != "" {
			l.quote(p.Reason)
		}
	case *schemas.Subagent:
		l.add(p.SessionID)
	case *schemas.SessionChanged:
		l.add(string(p.ApprovalMode))
	case *schemas.SessionImported:
		l.add(strconv.Itoa(p.Messages), strconv.Itoa(p.Visible))
	case *schemas.OwnerChanged:
		l.add(p.From, p.To)
		l.name("cause", p.Cause)
	case *schemas.CommandOutcome:
		l.add(p.CommandID)
		if p.Code != schemas.CodeApplied {
			l.name("code", string(p.Code))
		}
	case *schemas.TaskQueued:
		l.add(p.TaskID)
		l.quote(p.Task.PromptText())
		if p.Steers {
			l.name("steers", "true")
		}
	case *schemas.SessionDeleted:
		l.add(p.CommandID)
	case *schemas.TaskDequeued:
		l.add(p.TaskID, string(p.Cause))
	case *schemas.TaskEnd:
		l.add(string(p.Status))
		l.name("cause", p.Cause)
	}
}
