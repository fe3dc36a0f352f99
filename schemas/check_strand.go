package schemas

import (
	"maps"
	"slices"
)

// strand is what the checker knows of one session's part of the stream.
type strand struct {
	out    *sink
	view   View
	framed bool // positions are the session's own frames

	prev previous // the last message that the rules of neighbours look at
	due  due      // what must come next

	task       taskState
	taskAt     Position
	overBudget bool

	request      requestState
	requestAt    Position
	totals       *TokenCounts // of the session, as last said; nil before
	requested    bool         // a request of the session's own was begun
	earlier      earlier
	compacting   bool
	compactionAt Position

	model segment
	calls map[string]*call // every call ever seen, by id
	turn  []*call          // the calls since the last request_begin, in call order
	asked *call            // the call that waits for a person
	// missed is set while calls may exist whose beginning was not seen, inside while a
	// compaction may be open that began unseen.
	missed, inside bool

	waiting map[string]bool // tasks in the queue, by id
	deleted bool            // the session has said its last word
}

// previous is a message that came before.
type previous struct {
	kind Kind // empty: unknown
	at   Position
}

// due is a message that must come directly next.
type due struct {
	output     *call // the output of a refused call
	requestEnd bool
	at         Position
}

func newStrand(out *sink, view View, middle bool) *strand {
	s := &strand{out: out, view: view, calls: map[string]*call{}, waiting: map[string]bool{}, missed: middle, inside: middle}
	if middle {
		s.task, s.request, s.model.torn = taskUnknown, requestUnknown, true
	}
	return s
}

// tear marks everything that has fragments under way: some may be missing.
func (s *strand) tear() {
	s.model.torn = true
	for _, c := range s.turn {
		c.output.torn = true
	}
}

func (s *strand) checkOwnVisibility(m Message) {
	_, meta := m.Payload.(*SessionMeta)
	switch {
	case s.view == ViewStream && !m.Visible():
		s.out.breach(RuleTraceScope, "%s has scope trace", m.Kind())
	case s.view != ViewRecorded && meta && m.Visible():
		s.out.breach(RuleSessionMeta, "session_meta is visible")
	case s.view == ViewRecorded && m.Partial():
		s.out.breach(RuleRecordedOnly, "%s is recorded", m.Kind())
	}
}

// add takes the next message of the session.
func (s *strand) add(e Entry) {
	m := e.Message
	s.checkDeleted(m)
	switch p := m.Payload.(type) { // these may stand anywhere, also between messages that belong together
	case nil, *Unknown, *CommandOutcome, *Checkpoint, *Subagent, *SessionMeta, *SessionChanged, *WorkspaceBound:
		return
	case *TaskQueued:
		s.taskQueued(p)
		return
	case *TaskDequeued:
		s.taskDequeued(p)
		return
	case *SessionDeleted:
		s.deleted = true
		return
	case *OwnerChanged:
		s.mayRun() // as if nothing had happened
		if p.Gap {
			s.tear()
		}
		return
	}
	if m.Partial() && s.view == ViewRecorded {
		return // reported already
	}
	s.checkDue(m)
	s.checkCompaction(m)
	if s.enter(m) && !s.earlierTurn(m) {
		s.dispatch(m)
	}
	s.prev = previous{m.Kind(), e.Position}
}

func (s *strand) dispatch(m Message) {
	switch p := m.Payload.(type) {
	case *RequestBegin:
		s.inside = s.inside && !m.Visible() // a compaction's own requests are not visible
		s.requestBegin()
	case *RequestEnd:
		s.requestEnd(p)
	case *TokenUsage:
		s.tokenUsage(p)
	case *BudgetExceeded:
		s.mark(KindBudgetExceeded, s.prev.kind == KindRequestEnd)
		s.overBudget = true
	case *LoopDetected:
		s.mark(KindLoopDetected, s.prev.kind == KindRequestEnd || s.prev.kind == KindBudgetExceeded)
	case *CompactionBegin:
		s.compactionBegin()
	case *CompactionEnd:
		s.compactionEnd()
	case *ApprovalRequest:
		s.approvalRequest(p)
	case *ApprovalDecision:
		s.approvalDecision(p)
	case *PartialToolCallOutput:
		s.outputFragment(p)
	case *ToolCallOutput:
		s.output(p)
	case *Abort:
		s.abort()
	case *TaskEnd:
		s.taskEnd(p)
	case *MCPConnectBegin, *MCPConnectEnd, *ToolListReady:
	default:
		s.modelMessage(m)
	}
}

// checkDue checks the message that had to come directly after the one before.
func (s *strand) checkDue(m Message) {
	d := s.due
	s.due = due{}
	switch p := m.Payload.(type) {
	case *ToolCallOutput:
		if d.output != nil && p.ToolCallID == d.output.id {
			return
		}
	case *RequestEnd:
		if d.requestEnd {
			return
		}
	}
	if d.output != nil {
		d.output.blamed = true
		s.out.breach(RuleRefusedOutput, "%s follows the refusal of call %s instead of its output", m.Kind(), d.output.id)
	}
	if d.requestEnd {
		s.out.breach(RuleUsageThenEnd, "%s follows token_usage instead of request_end", m.Kind())
	}
}

// sameFrame reports whether the message before is in the frame of the current one, as far as
// positions tell.
func (s *strand) sameFrame() bool {
	none := Position{}
	return !s.framed || s.out.at == none || s.prev.at == none || s.out.at.Sequence == s.prev.at.Sequence
}

// finish reports what is open.
func (s *strand) finish() {
	if d := s.due; d.output != nil {
		s.out.breachAt(d.at, RuleRefusedOutput, "the output of refused call %s is missing", d.output.id)
	} else if d.requestEnd {
		s.out.breachAt(d.at, RuleUsageThenEnd, "no request_end follows token_usage")
	}
	if s.model.open() {
		s.out.breachAt(s.model.at, RuleSegmentOrder, "%s is not complete", s.model.of)
	}
	if s.request == requestOpen {
		s.out.breachAt(s.requestAt, RuleOneRequest, "the request has no request_end")
	}
	if s.compacting {
		s.out.breachAt(s.compactionAt, RuleCompaction, "the compaction has no compaction_end")
	}
	for _, c := range s.turn {
		if c.unsettled() && c != s.due.output {
			s.out.breachAt(c.at, RuleEveryOutput, "call %s has no output", c.id)
		}
	}
	if s.task == taskRunning || s.task == taskAborted {
		s.out.breachAt(s.taskAt, RuleOneTaskEnd, "the task has no task_end")
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
