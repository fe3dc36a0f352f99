package session

import (
	"pgregory.net/rapid"

	"braid/schemas"
)

// drawPolicy draws the rules of an owner. They differ from one owner to the next.
func (w *world) drawPolicy() Policy {
	kind := rapid.SampledFrom([]string{"none", "none", "forbids", "asks"}).Draw(w.t, "policy")
	if kind == "none" {
		return nil
	}
	tool := rapid.SampledFrom([]string{"read", "write"}).Draw(w.t, "of")
	return func(c *schemas.ToolCall) Ruling {
		if c.Name != tool {
			return Ruling{}
		}
		return Ruling{Forbid: kind == "forbids", Ask: kind == "asks", Rule: kind, Reason: "so it is"}
	}
}

// checkRulings asserts that nothing is allowed that the rules of the owner forbid, nor without a question
// where they want one.
func (w *world) checkRulings(said []schemas.Message) {
	for _, m := range said {
		p, ok := m.Payload.(*schemas.ApprovalDecision)
		if !ok || p.Decision != schemas.DecisionAllow || w.state.Policy == nil {
			continue
		}
		c := w.state.call(p.ToolCallID)
		if c == nil {
			continue // its task has ended in the same step
		}
		ruling := w.state.Policy(c.ToolCall)
		if ruling.Forbid || ruling.Ask && !c.Asked {
			w.t.Fatalf("call %s is allowed against the rules: %+v in\n%v\n%s", c.ToolCallID, ruling, said, w.dump())
		}
	}
}
