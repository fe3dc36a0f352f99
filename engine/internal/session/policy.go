package session

import "braid/schemas"

// Policy says what the operator's rules make of a call. It is a pure function of the call, and may be
// called by no more than one goroutine at a time.
type Policy func(*schemas.ToolCall) Ruling

// Ruling is the answer; the zero value says that no rule concerns the call.
type Ruling struct {
	// Forbid: the call must not run, whatever the approval mode says and whoever would allow it.
	Forbid bool
	// Ask: a person decides, unless the mode denies everything.
	Ask bool
	// Rule is the name of the rule.
	Rule string
	// Reason is what the model is told besides; it may be empty.
	Reason string
}

// rule has the policy judge a call, once for each owner: what another owner has decided stands,
// what it left undecided is judged by the policy of this one.
func (st *step) rule(c *Call) Ruling {
	if st.Policy == nil || c.ruled {
		return c.ruling
	}
	c.ruling, c.ruled = st.Policy(c.ToolCall), true
	if c.ruling.Forbid || c.ruling.Ask {
		st.do(TellRuling{ToolCallID: c.ToolCallID, Ruling: c.ruling})
	}
	return c.ruling
}

// forbid rejects a call as a rule says.
func (st *step) forbid(c *Call, r Ruling) {
	text := deniedByPolicy
	if r.Reason != "" {
		text += " " + r.Reason
	}
	st.emit(&schemas.ApprovalDecision{Decision: schemas.DecisionForbidden, ToolCallID: c.ToolCallID, Rule: r.Rule})
	st.emit(schemas.NewToolCallOutput(c.ToolCallID, text, schemas.StopAborted))
}
