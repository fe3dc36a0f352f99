// Package llmtest checks model providers in their tests: it runs a request, keeps everything
// emitted, and verifies that it comes in the segments that package llm demands.
package llmtest

import (
	"context"
	"fmt"
	"testing"

	"braid/llm"
	"braid/schemas"
)

// Result is what one request gave.
type Result struct {
	// Messages is everything emitted, in order.
	Messages []schemas.Message
	llm.Outcome
}

// Run makes the request and marks the test as failed if what the model emits breaks the rules, or the
// outcome is none. It may be called from any goroutine.
func Run(t testing.TB, ctx context.Context, m llm.Model, req llm.Request) Result {
	t.Helper()
	var r Result
	r.Outcome = m.Stream(ctx, req, func(m schemas.Message) error {
		r.Messages = append(r.Messages, m)
		return nil
	})
	if err := Check(r.Messages); err != nil {
		t.Errorf("%v\n%s", err, Describe(r.Messages))
	}
	if (r.Status == schemas.StopCompleted) != (r.Error == nil) || r.Status == "" {
		t.Errorf("outcome has status %q and error %v", r.Status, r.Error)
	}
	return r
}

// Complete returns the complete messages.
func (r Result) Complete() []schemas.Message {
	var out []schemas.Message
	for _, m := range r.Messages {
		if !m.Partial() {
			out = append(out, m)
		}
	}
	return out
}

// Text joins the complete texts.
func (r Result) Text() string {
	s := ""
	for _, m := range r.Messages {
		if p, ok := m.Payload.(*schemas.Text); ok {
			s += p.Text
		}
	}
	return s
}

// Calls returns the complete tool calls.
func (r Result) Calls() []*schemas.ToolCall {
	var out []*schemas.ToolCall
	for _, m := range r.Messages {
		if p, ok := m.Payload.(*schemas.ToolCall); ok {
			out = append(out, p)
		}
	}
	return out
}

// Describe lists messages for people, one a line.
func Describe(messages []schemas.Message) string {
	s := ""
	for i, m := range messages {
		line, err := schemas.Encode(m)
		if err != nil {
			line = []byte(err.Error())
		}
		s += fmt.Sprintf("%3d %s\n", i, line)
	}
	return s
}

// Check reports the first message that breaks the rules of segments: one start, deltas, one
// stop, directly after it the complete message equal to all deltas joined, nothing in between,
// nothing left open.
func Check(messages []schemas.Message) error {
	type content struct {
		kind           schemas.Kind
		id, name, text string
	}
	var open *content
	stopped := false
	for i, m := range messages {
		var c content
		var phase schemas.Phase
		switch p := m.Payload.(type) {
		case *schemas.PartialText:
			c, phase = content{kind: schemas.KindText, text: p.Text}, p.EventType
		case *schemas.PartialThinking:
			c, phase = content{kind: schemas.KindThinking, text: p.Thinking}, p.EventType
		case *schemas.PartialToolCall:
			c, phase = content{schemas.KindToolCall, p.ToolCallID, p.Name, p.Arguments}, p.EventType
		case *schemas.Text:
			c = content{kind: schemas.KindText, text: p.Text}
		case *schemas.Thinking:
			c = content{kind: schemas.KindThinking, text: p.Thinking}
		case *schemas.ToolCall:
			c = content{schemas.KindToolCall, p.ToolCallID, p.Name, p.Arguments}
		case *schemas.ImageURL, *schemas.InlineData, *schemas.InlineThinking:
			if open != nil {
				return fmt.Errorf("message %d: %s inside of a segment", i, m.Kind())
			}
			continue
		default:
			return fmt.Errorf("message %d: a model emitted %s", i, m.Kind())
		}
		switch {
		case phase == schemas.PhaseStart && open == nil && c.text == "":
			open, stopped = &c, false
		case phase == schemas.PhaseDelta && open != nil && !stopped && c.kind == open.kind && c.id == open.id:
			open.text += c.text
		case phase == schemas.PhaseStop && open != nil && !stopped && c.kind == open.kind && c.id == open.id && c.text == "":
			stopped = true
		case phase == "" && open != nil && stopped && c == *open:
			open = nil
		default:
			return fmt.Errorf("message %d: %s %s does not fit here", i, m.Kind(), phase)
		}
	}
	if open != nil {
		return fmt.Errorf("the %s is never completed", open.kind)
	}
	return nil
}
