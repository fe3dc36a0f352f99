package schemas

import "slices"

// call is what the checker knows of a tool call.
type call struct {
	id        string
	at        Position
	committed bool // its request completed
	asked     bool // a person was asked
	decision  Decision
	withdrawn bool // nothing may be decided any more
	done      bool // its complete output came
	// blamed is set when a breach was reported for the call: one fault, one report.
	blamed bool
	// foreign is set for a call of an imported trace.
	foreign bool
	output  segment
}

// lacks names what the call still waits for.
func (c *call) lacks() string {
	if c.decision == "" {
		return "decision"
	}
	return "output"
}

// unsettled reports whether no request may begin because of the call.
func (c *call) unsettled() bool {
	if c.done || c.blamed || c.withdrawn {
		return false
	}
	return c.decision != "" || c.committed
}

// callOf is the call that a message is about. If there is none the message breaks the rule, which callOf
// reports in words that begin with said, and returns nil; unless messages were missed before, and with
// them the call.
func (s *strand) callOf(id string, rule RuleName, said string) *call {
	c := s.calls[id]
	if c == nil && s.missed {
		return s.unseenCall(id)
	}
	if c == nil {
		s.blame(id, rule, "%s call %s, which is not there", said, id)
	}
	return c
}

// unseenCall adds a call whose beginning was missed: it was made before all that were seen.
func (s *strand) unseenCall(id string) *call {
	c := &call{id: id, at: s.out.at}
	s.calls[id] = c
	s.turn = slices.Insert(s.turn, 0, c)
	return c
}

// newCall adds a call that is made here.
func (s *strand) newCall(id string) *call {
	c := &call{id: id, at: s.out.at}
	s.calls[id] = c
	s.turn = append(s.turn, c)
	return c
}

// blame reports a breach by a call that is not known, once.
func (s *strand) blame(id string, rule RuleName, format string, args ...any) {
	s.out.breach(rule, format, args...)
	s.newCall(id).blamed = true
}

// withdraw takes an undecided call back.
func (s *strand) withdraw(c *call) {
	if c.decision != "" {
		return
	}
	c.withdrawn = true
	if s.asked == c {
		s.asked = nil
	}
}

func (s *strand) toolCall(p *ToolCall) {
	if c := s.calls[p.ToolCallID]; c != nil {
		if !c.blamed || c.foreign {
			s.out.breach(RuleUniqueCall, "tool_call_id %s was used before", p.ToolCallID)
			c.blamed, c.foreign = true, false
		}
		return
	}
	s.newCall(p.ToolCallID)
}

// firstUndecided is the call whose turn it is in the approval queue.
func (s *strand) firstUndecided() *call {
	for _, c := range s.turn {
		if c.decision == "" && !c.withdrawn && !c.blamed {
			return c
		}
	}
	return nil
}

func (s *strand) approvalRequest(p *ApprovalRequest) {
	id := p.ToolCallID
	c := s.callOf(id, RuleApprovalRequest, "approval_request for")
	if c == nil {
		return
	}
	switch {
	case c.blamed:
	case c.withdrawn:
		s.out.breach(RuleWithdrawn, "approval_request for call %s, which was withdrawn", id)
	case c.decision != "":
		s.out.breach(RuleApprovalRequest, "approval_request for call %s, which is decided", id)
	case c.asked:
		s.out.breach(RuleApprovalRequest, "a second approval_request for call %s", id)
	case s.asked != nil:
		s.out.breach(RuleApprovalRequest, "approval_request for call %s while that for %s is open", id, s.asked.id)
	default:
		c.asked, s.asked = true, c
		if first := s.firstUndecided(); first != nil && first != c {
			s.out.breach(RuleDecisionOrder, "approval_request for call %s before the decision on %s", id, first.id)
		}
	}
}

func (s *strand) approvalDecision(p *ApprovalDecision) {
	id := p.ToolCallID
	c := s.callOf(id, RuleDecisionAfterCall, "approval_decision on")
	if c == nil {
		return
	}
	switch {
	case c.blamed:
		return
	case c.decision != "":
		s.out.breach(RuleOneDecision, "a second decision on call %s", id)
		return
	case c.withdrawn:
		s.out.breach(RuleWithdrawn, "a decision on call %s, which was withdrawn", id)
		c.blamed = true
		return
	}
	if first := s.firstUndecided(); first != nil && first != c {
		s.out.breach(RuleDecisionOrder, "call %s is decided before %s", id, first.id)
	}
	c.decision = p.Decision
	if s.asked == c {
		s.asked = nil
	}
	switch p.Decision {
	case DecisionAllow:
	case DecisionDeny, DecisionForbidden:
		s.due = due{output: c, at: s.out.at}
	default:
		s.out.breach(RuleDecisionValue, "call %s is decided as %q", id, p.Decision)
		c.blamed = true
	}
}

// callOfOutput finds the call that an output belongs to; nil if the output is in breach.
func (s *strand) callOfOutput(id string) *call {
	seen := s.calls[id] != nil
	c := s.callOf(id, RuleOutputAfterDecision, "output of")
	if c == nil {
		return nil
	}
	if !seen {
		c.decision, c.output.torn = DecisionAllow, true
	}
	switch {
	case c.blamed:
		return nil
	case c.done:
		s.out.breach(RuleOneOutput, "output of call %s after its complete output", id)
	case c.decision == "":
		s.out.breach(RuleOutputAfterDecision, "output of call %s before its decision", id)
	default:
		return c
	}
	c.blamed = true
	return nil
}

func (s *strand) outputFragment(p *PartialToolCallOutput) {
	c := s.callOfOutput(p.ToolCallID)
	if c == nil {
		return
	}
	f, _ := pieceOf(p)
	c.output.fragment(s.out, f)
}

func (s *strand) output(p *ToolCallOutput) {
	c := s.callOfOutput(p.ToolCallID)
	if c == nil {
		return
	}
	w, _ := pieceOf(p)
	c.output.complete(s.out, w)
	c.output = segment{} // its buffers are not needed again
	c.done = true
	if c.decision != DecisionAllow && p.StopReason != StopAborted && p.StopReason != StopFailed {
		s.out.breach(RuleRefusedOutput, "call %s was refused and its output is %q", c.id, p.StopReason)
	}
}
