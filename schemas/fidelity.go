package schemas

import "github.com/go-json-experiment/json/jsontext"

// Fidelity returns a payload's; nil if it has none.
func Fidelity(p Payload) jsontext.Value {
	switch p := p.(type) {
	case *Text:
		return p.Fidelity
	case *Thinking:
		return p.Fidelity
	case *InlineThinking:
		return p.Fidelity
	case *ToolCall:
		return p.Fidelity
	case *ToolCallOutput:
		return p.Fidelity
	case *ImageURL:
		return p.Fidelity
	case *InlineData:
		return p.Fidelity
	}
	return nil
}

// WithoutFidelity returns what is left of a payload for a model other than the one that gave it: the
// same without its fidelity, as a copy if there is any. It is nil if nothing is left: reasoning in a
// binary form, and reasoning without words, are of use to their own model alone.
func WithoutFidelity(p Payload) Payload {
	switch p := p.(type) {
	case *InlineThinking:
		return nil
	case *Thinking:
		if p.Thinking == "" {
			return nil
		}
		return without(p, func(p *Thinking) *jsontext.Value { return &p.Fidelity })
	case *Text:
		return without(p, func(p *Text) *jsontext.Value { return &p.Fidelity })
	case *ToolCall:
		return without(p, func(p *ToolCall) *jsontext.Value { return &p.Fidelity })
	case *ToolCallOutput:
		return without(p, func(p *ToolCallOutput) *jsontext.Value { return &p.Fidelity })
	case *ImageURL:
		return without(p, func(p *ImageURL) *jsontext.Value { return &p.Fidelity })
	case *InlineData:
		return without(p, func(p *InlineData) *jsontext.Value { return &p.Fidelity })
	}
	return p
}

// without clears a member of a copy, if it is set.
func without[T any](p *T, member func(*T) *jsontext.Value) *T {
	if *member(p) == nil {
		return p
	}
	c := *p
	*member(&c) = nil
	return &c
}
