package schemas

// taskState says whether a task runs.
type taskState int

const (
	taskNone    taskState = iota // none was seen yet
	taskUnknown                  // one may run
	taskRunning
	taskAborted // abort came, task_end must follow
	taskEnded
)

// prompt reports whether the message can be the prompt of a task.
func prompt(m Message) bool {
	switch p := m.Payload.(type) {
	case *Text:
		return p.Role == RoleUser && p.Sender != SenderHarness
	case *ImageURL:
		return p.Role == RoleUser
	case *InlineData:
		return p.Role == RoleUser
	}
	return false
}

// mayRun says that a task may run, though its prompt was not seen.
func (s *strand) mayRun() {
	if s.view == ViewStream && (s.task == taskNone || s.task == taskEnded) {
		s.task = taskUnknown
	}
}

func (s *strand) begin() {
	s.task, s.taskAt = taskRunning, s.out.at
}

// enter checks that the message has a task to belong to, and begins one where it may. It
// reports whether the message is to be checked further.
func (s *strand) enter(m Message) bool {
	if s.compacting {
		return true
	}
	if s.task == taskAborted {
		return s.afterAbort(m)
	}
	if prompt(m) {
		if s.task != taskRunning { // else it steers the task
			s.begin()
		}
		return true
	}
	switch s.task {
	case taskNone:
		return s.first(m)
	case taskEnded:
		return s.afterEnd(m)
	case taskUnknown:
		if _, ok := m.Payload.(*RequestBegin); ok {
			s.begin()
		}
	case taskRunning, taskAborted: // seen above
	}
	return true
}

func (s *strand) afterAbort(m Message) bool {
	switch {
	case m.Kind() == KindTaskEnd:
		return true
	case prompt(m):
		s.out.breach(RuleOneTaskEnd, "the next prompt comes before the task_end of the aborted task")
		s.begin()
		return true
	}
	s.out.breach(RuleAbortLast, "%s follows abort", m.Kind())
	return false
}

// aside reports whether the message may stand outside any task: preparations of the first task,
// compactions, words of the harness for a new context.
func aside(m Message) bool {
	switch p := m.Payload.(type) {
	case *MCPConnectBegin, *MCPConnectEnd, *ToolListReady, *CompactionBegin:
		return true
	case *Text:
		return p.Role == RoleUser
	}
	return false
}

// first checks a message before any task was seen. What can't stand here breaks its own rule.
func (s *strand) first(m Message) bool {
	switch {
	case aside(m):
		s.mayRun()
	case m.Kind() != KindTaskEnd:
		s.begin()
	}
	return true
}

// afterEnd checks a message between tasks.
func (s *strand) afterEnd(m Message) bool {
	switch {
	case aside(m):
		s.mayRun()
		return true
	case m.Kind() == KindTaskEnd:
		return true // reported there
	case s.view == ViewStream && (m.Kind() == KindRequestBegin || m.Kind() == KindAbort):
		s.begin() // its prompt is not in this view
		return true
	}
	s.out.breach(RuleTaskEndLast, "%s follows task_end", m.Kind())
	if m.Kind() == KindRequestBegin {
		s.begin()
		return true
	}
	return false
}

func (s *strand) abort() {
	s.closeTask(KindAbort, true)
	s.task = taskAborted
}

func (s *strand) taskEnd(p *TaskEnd) {
	// Where prompts are not seen, a task that ended before its first request is seen by its end
	// alone; it can't have completed.
	unseen := s.view == ViewStream && p.Status != StopCompleted
	if (s.task == taskNone || s.task == taskEnded) && !unseen {
		s.out.breach(RuleOneTaskEnd, "task_end without a task")
		s.task = taskEnded
		return
	}
	s.closeTask(KindTaskEnd, s.task == taskAborted)
	s.task = taskEnded
}

// closeTask checks that nothing of the task is open, and closes it.
func (s *strand) closeTask(by Kind, aborted bool) {
	s.model.interrupt(s.out, by)
	s.closeEarlier(string(by))
	if s.request == requestOpen {
		s.out.breach(RuleOneRequest, "%s comes before the request_end", by)
	}
	for _, c := range s.turn {
		if c.unsettled() && (c.decision != "" || !aborted) {
			c.blamed = true
			s.out.breach(RuleEveryOutput, "%s comes while call %s has no %s", by, c.id, c.lacks())
		}
		s.withdraw(c)
	}
	s.request, s.turn, s.asked = requestNone, s.turn[:0], nil
	s.missed, s.inside, s.overBudget = false, false, false
}
