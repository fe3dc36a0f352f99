package llm

import (
	"strings"

	"braid/schemas"

	"github.com/go-json-experiment/json/jsontext"
)

// segment is one thing a model says, while it says it.
type segment struct {
	// kind is the kind of the complete message: text, thinking or tool_call.
	kind schemas.Kind
	// id and name belong to tool calls.
	id, name string
	// said is all deltas joined: text, reasoning, or a call's arguments.
	said strings.Builder
	// fidelity goes with the complete message.
	fidelity jsontext.Value
	// stopped: the stop fragment is out, the complete message is not.
	stopped bool
}

// fragment is the segment's fragment of that phase. A reason other than completed is marked.
func (s *segment) fragment(phase schemas.Phase, delta string, reason schemas.StopReason) schemas.Payload {
	switch s.kind {
	case schemas.KindThinking:
		p := schemas.ThinkingFragment(phase, delta)
		p.StopReason = marked(reason)
		return p
	case schemas.KindToolCall:
		name := ""
		if phase == schemas.PhaseStart {
			name = s.name
		}
		p := schemas.ToolCallFragment(phase, s.id, name, delta)
		p.StopReason = marked(reason)
		return p
	}
	p := schemas.TextFragment(phase, delta)
	p.StopReason = marked(reason)
	return p
}

// complete is the message the segment adds up to.
func (s *segment) complete(reason schemas.StopReason) schemas.Payload {
	switch s.kind {
	case schemas.KindThinking:
		p := schemas.AssistantThinking(s.said.String())
		p.Fidelity, p.StopReason = s.fidelity, marked(reason)
		return p
	case schemas.KindToolCall:
		p := schemas.NewToolCall(s.id, s.name, s.said.String())
		p.Fidelity, p.StopReason = s.fidelity, marked(reason)
		return p
	}
	p := schemas.AssistantText(s.said.String())
	p.Fidelity, p.StopReason = s.fidelity, marked(reason)
	return p
}

// marked leaves out the reason that goes without saying.
func marked(reason schemas.StopReason) schemas.StopReason {
	if reason == schemas.StopCompleted {
		return ""
	}
	return reason
}
