package schemas

// earlier is what the checker knows of the turns of a conversation that came with a prompt.
type earlier struct {
	role Role
	open []*call // calls without output
}

// earlierTurn checks a message that may belong to turns given with a prompt: complete, of scope
// trace, before the session's first request. It reports whether it does.
func (s *strand) earlierTurn(m Message) bool {
	if m.Type != TypeModel || m.Visible() || s.compacting || s.request == requestOpen || s.view == ViewStream {
		return false
	}
	role := roleOf(m.Payload)
	output, isOutput := m.Payload.(*ToolCallOutput)
	if isOutput {
		role = RoleUser
	}
	if s.requested && (role == RoleAssistant || isOutput) {
		s.out.breach(RuleEarlierTurns, "%s of scope trace after the session's first request", m.Kind())
		return true
	}
	if !isOutput && (role == RoleUser || s.earlier.role == RoleUser) {
		s.closeEarlier(string(m.Kind()))
	}
	s.earlier.role = role
	switch p := m.Payload.(type) {
	case *ToolCall:
		s.earlierCall(p)
	case *ToolCallOutput:
		s.earlierOutput(output)
	}
	return true
}

// earlierCall takes a call that nobody decides on, and whose id is taken like any other's.
func (s *strand) earlierCall(p *ToolCall) {
	if s.calls[p.ToolCallID] != nil {
		s.toolCall(p) // which reports it
		return
	}
	c := &call{id: p.ToolCallID, at: s.out.at, withdrawn: true}
	s.calls[c.id] = c
	s.earlier.open = append(s.earlier.open, c)
}

func (s *strand) earlierOutput(p *ToolCallOutput) {
	for i, c := range s.earlier.open {
		if c.id == p.ToolCallID {
			c.done = true
			s.earlier.open = append(s.earlier.open[:i:i], s.earlier.open[i+1:]...)
			return
		}
	}
	if !s.missed {
		s.out.breach(RuleEarlierTurns, "output of call %s, which is not open", p.ToolCallID)
	}
}

// closeEarlier reports calls of earlier turns that never got their output.
func (s *strand) closeEarlier(by string) {
	for _, c := range s.earlier.open {
		c.blamed = true
		s.out.breach(RuleEarlierTurns, "%s comes while call %s of an earlier turn has no output", by, c.id)
	}
	s.earlier.open = nil
}
