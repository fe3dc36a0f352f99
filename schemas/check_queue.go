package schemas

// How sessions queue tasks, and how they end: the rules of what may stand anywhere in the order of the
// other messages.

// taskQueued takes note of a task that waits.
func (s *strand) taskQueued(p *TaskQueued) {
	if s.waiting[p.TaskID] {
		s.out.breach(RuleQueue, "task %s waits already", p.TaskID)
	}
	s.waiting[p.TaskID] = true
}

// taskDequeued takes note of one that waits no longer. What the stream's watchers see does not say which
// ones wait, and who joined late has not seen all that do.
func (s *strand) taskDequeued(p *TaskDequeued) {
	if !s.waiting[p.TaskID] && s.view != ViewStream && !s.missed {
		s.out.breach(RuleQueue, "task %s does not wait", p.TaskID)
	}
	delete(s.waiting, p.TaskID)
}

// checkDeleted finds what stands behind a session's last word.
func (s *strand) checkDeleted(m Message) {
	switch m.Payload.(type) {
	case nil, *Unknown, *CommandOutcome, *OwnerChanged:
	default:
		if s.deleted {
			s.out.breach(RuleDeletedLast, "%s after session_deleted", m.Kind())
		}
	}
}
