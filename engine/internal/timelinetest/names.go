package timelinetest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"braid/llm"
	"braid/schemas"
	"braid/schemas/schematest"
)

// Names gives the calls of a session the names A, B, ... in the order in which they appear. The zero value is
// ready; it is safe for concurrent use.
type Names struct {
	mu    sync.Mutex
	names map[string]string // by call id
}

var callID = regexp.MustCompile(`\bc\d+-\d+\b`)

// Line renders a message, with the names of calls in place of their ids.
func (c *Names) Line(m schemas.Message) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return callID.ReplaceAllStringFunc(schematest.FormatMessage(withoutCounts(m)), func(id string) string {
		if c.names == nil {
			c.names = map[string]string{}
		}
		if c.names[id] == "" {
			c.names[id] = string(rune('A' + len(c.names)))
		}
		return c.names[id]
	})
}

// ID is the call of that name; empty if it has not appeared.
func (c *Names) ID(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, n := range c.names {
		if n == name {
			return id
		}
	}
	return ""
}

// Render writes entries as a timeline. It leaves out the outcomes of what the broker's clock sends:
// how often it sends it depends on the machine.
func (c *Names) Render(entries []schemas.Entry) string {
	var b strings.Builder
	entries = slices.DeleteFunc(joined(entries), func(e schemas.Entry) bool {
		p, ok := e.Message.Payload.(*schemas.CommandOutcome)
		return ok && p.Command == schemas.CommandDeadline
	})
	for i, e := range entries {
		if i > 0 && e.Position.Sequence == entries[i-1].Position.Sequence && sharesFrame(entries[i-1].Message, e.Message) {
			b.WriteString("+ ")
		}
		b.WriteString(c.Line(e.Message) + "\n")
	}
	return b.String()
}

// sharesFrame reports that a message must be in the frame of the one before it.
func sharesFrame(before, m schemas.Message) bool {
	switch m.Payload.(type) {
	case *schemas.RequestEnd:
		return before.Kind() == schemas.KindTokenUsage
	case *schemas.TaskDequeued:
		return before.Kind() == schemas.KindTaskEnd
	case *schemas.BudgetExceeded, *schemas.LoopDetected:
		return true
	}
	return false
}

// Input writes what a request sends to the model.
func (c *Names) Input(r llm.Request) string {
	var b strings.Builder
	if r.Model != "m" {
		fmt.Fprintf(&b, "# model scripted/%s\n", r.Model)
	}
	if r.Attempt > 1 {
		fmt.Fprintf(&b, "# attempt %d\n", r.Attempt)
	}
	if r.System != "" {
		fmt.Fprintf(&b, "system %q\n", r.System)
	}
	for _, m := range r.Input {
		m.Scope = schemas.ScopeAll
		b.WriteString(c.Line(m))
		if f := schemas.Fidelity(m.Payload); f != nil {
			b.WriteString(" fidelity=" + string(f))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// joined joins the deltas of one segment that follow one another.
func joined(entries []schemas.Entry) (out []schemas.Entry) {
	for _, e := range entries {
		if n := len(out); n > 0 {
			if m, ok := join(out[n-1].Message, e.Message); ok {
				out[n-1].Message = m
				continue
			}
		}
		out = append(out, e)
	}
	return out
}

// join is two deltas as one; false if they are not of one segment.
func join(m, next schemas.Message) (schemas.Message, bool) {
	const delta = schemas.PhaseDelta
	switch a := m.Payload.(type) {
	case *schemas.PartialText:
		if b, ok := next.Payload.(*schemas.PartialText); ok && a.EventType == delta && b.EventType == delta {
			m.Payload = schemas.TextFragment(delta, a.Text+b.Text)
			return m, true
		}
	case *schemas.PartialThinking:
		if b, ok := next.Payload.(*schemas.PartialThinking); ok && a.EventType == delta && b.EventType == delta {
			m.Payload = schemas.ThinkingFragment(delta, a.Thinking+b.Thinking)
			return m, true
		}
	case *schemas.PartialToolCall:
		if b, ok := next.Payload.(*schemas.PartialToolCall); ok && a.EventType == delta && b.EventType == delta {
			m.Payload = schemas.ToolCallFragment(delta, a.ToolCallID, "", a.Arguments+b.Arguments)
			return m, true
		}
	case *schemas.PartialToolCallOutput:
		if b, ok := next.Payload.(*schemas.PartialToolCallOutput); ok && a.EventType == delta && b.EventType == delta &&
			a.ToolCallID == b.ToolCallID && a.Attempt == b.Attempt && len(a.Images)+len(b.Images) == 0 {
			p := *b
			p.Output = a.Output + b.Output
			m.Payload = &p
			return m, true
		}
	}
	return m, false
}
