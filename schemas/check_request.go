package schemas

// requestState says whether a request is open.
type requestState int

const (
	requestNone requestState = iota
	requestOpen
	requestUnknown // the reader joined in the middle
)

func (s *strand) requestBegin() {
	s.model.interrupt(s.out, KindRequestBegin)
	if s.request == requestOpen {
		s.out.breach(RuleOneRequest, "a request begins while another is open")
	}
	if s.overBudget && !s.compacting {
		s.out.breach(RuleBudget, "a request begins after budget_exceeded")
	}
	for _, c := range s.turn {
		if c.unsettled() {
			c.blamed = true
			s.out.breach(RuleTurnSettled, "a request begins while call %s has no %s", c.id, c.lacks())
		}
		s.withdraw(c)
	}
	s.closeEarlier(string(KindRequestBegin))
	s.request, s.requestAt, s.requested = requestOpen, s.out.at, true
	s.turn, s.asked, s.missed = s.turn[:0], nil, false
}

func (s *strand) requestEnd(p *RequestEnd) {
	s.model.interrupt(s.out, KindRequestEnd)
	if s.request == requestNone {
		s.out.breach(RuleOneRequest, "request_end without request_begin")
		return
	}
	switch {
	case s.prev.kind == "":
	case s.prev.kind == KindTokenUsage && !s.sameFrame():
		s.out.breach(RuleUsageThenEnd, "request_end(%s) is not in the frame of its token_usage", p.Status)
	case s.prev.kind != KindTokenUsage && p.Status == StopCompleted:
		s.out.breach(RuleUsageThenEnd, "%s, not token_usage, stands before request_end(completed)", s.prev.kind)
	}
	s.request = requestNone
	for _, c := range s.turn {
		if p.Status == StopCompleted {
			c.committed = true
		} else {
			s.withdraw(c)
		}
	}
}

func (s *strand) tokenUsage(p *TokenUsage) {
	s.checkTotals(p)
	if s.compacting && s.request == requestNone {
		return // the compaction's request itself is not in this view
	}
	s.model.interrupt(s.out, KindTokenUsage)
	switch s.request {
	case requestNone:
		s.out.breach(RuleModelInRequest, "token_usage outside any request")
		s.request = requestUnknown
	case requestOpen:
		s.due = due{requestEnd: true, at: s.out.at}
	case requestUnknown: // its begin is not in this view
	}
}

// checkTotals checks that the session's counts have grown by those of the request.
func (s *strand) checkTotals(p *TokenUsage) {
	if before := s.totals; before != nil && !before.Add(p.Request).same(p.Session) {
		s.out.breach(RuleUsageTotals, "the session's total is %d, after %d and a request of %d", p.Session.Total, before.Total, p.Request.Total)
	}
	s.totals = &p.Session
}

// mark checks a budget_exceeded or loop_detected event.
func (s *strand) mark(kind Kind, inPlace bool) {
	switch {
	case s.prev.kind == "":
	case !inPlace:
		s.out.breach(RuleMarks, "%s stands after %s, not after request_end", kind, s.prev.kind)
	case !s.sameFrame():
		s.out.breach(RuleMarks, "%s is not in the frame of its request_end", kind)
	}
}

// modelMessage checks a message of the model, complete or fragment.
func (s *strand) modelMessage(m Message) {
	if roleOf(m.Payload) == RoleUser {
		return
	}
	p, streams := pieceOf(m.Payload)
	if s.request == requestNone && !s.model.maxTurnsNotice(p) {
		s.out.breach(RuleModelInRequest, "%s outside any request", m.Kind())
		s.request = requestUnknown // its request_begin may be what is missing
		s.model.reset()
		s.model.torn = true
	}
	switch {
	case !streams:
		s.model.interrupt(s.out, m.Kind())
	case p.phase != "":
		s.model.fragment(s.out, p)
	default:
		s.model.complete(s.out, p)
		if call, ok := m.Payload.(*ToolCall); ok {
			s.toolCall(call)
		}
	}
}

// roleOf says whose words the payload holds; only user is told apart from the model.
func roleOf(p Payload) Role {
	switch p := p.(type) {
	case *Text:
		return p.Role
	case *ImageURL:
		return p.Role
	case *InlineData:
		return p.Role
	}
	return RoleAssistant
}

func (s *strand) compactionBegin() {
	s.model.interrupt(s.out, KindCompactionBegin)
	if s.request == requestOpen {
		s.out.breach(RuleCompaction, "a compaction begins while a request is open")
	}
	s.request, s.inside = requestNone, false
	s.compacting, s.compactionAt = true, s.out.at
}

func (s *strand) compactionEnd() {
	if s.request == requestOpen {
		s.out.breach(RuleOneRequest, "the compaction ends before its request")
	}
	if !s.compacting && !s.inside {
		s.out.breach(RuleCompaction, "compaction_end without compaction_begin")
	}
	s.compacting, s.inside, s.request = false, false, requestNone
}

// checkCompaction checks what stands inside a compaction.
func (s *strand) checkCompaction(m Message) {
	if !s.compacting {
		return
	}
	switch m.Payload.(type) {
	case *TokenUsage, *CompactionEnd:
		return
	case *CompactionBegin, *Abort, *TaskEnd:
	default:
		// The raw messages of the compaction have scope trace; traces from elsewhere have no
		// scopes at all.
		if s.view == ViewRecorded || !m.Visible() {
			return
		}
	}
	s.out.breach(RuleCompaction, "%s inside a compaction", m.Kind())
	s.compacting, s.request = false, requestNone // its end must be what is missing
}
