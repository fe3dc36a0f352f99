package session

import (
	"slices"

	"braid/schemas"
)

// Queued is a task that was asked for while another one ran.
type Queued struct {
	// ID is the id of the command that asked for it.
	ID string
	// Steers is set while its prompt is to be added to the running task.
	Steers bool
	Task   schemas.TaskBody
}

func (s *State) applyQueued(p *schemas.TaskQueued) {
	s.Queue = append(s.Queue, Queued{ID: p.TaskID, Steers: p.Steers, Task: p.Task})
}

// applyDequeued takes a task off the queue. If its prompt, which follows, steers the running task, what the
// newest request has left for the context is added before it.
func (s *State) applyDequeued(p *schemas.TaskDequeued) {
	s.Queue = slices.DeleteFunc(slices.Clone(s.Queue), func(q Queued) bool { return q.ID == p.TaskID })
	switch p.Cause {
	case schemas.DequeuedStarted:
		s.opener = p.TaskID
	case schemas.DequeuedSteering:
		s.closeRequest()
	case schemas.DequeuedWithdrawn: // no prompt follows
	}
}

// steered reports that something waits to be added to the running task.
func (s *State) steered() bool {
	return slices.ContainsFunc(s.Queue, func(q Queued) bool { return q.Steers })
}

// refuseTask says why a prompt can't be taken now; nil if it can.
func (st *step) refuseTask(c *schemas.Command) *schemas.Error {
	steer := c.Type == schemas.CommandSteer
	switch t := st.Task; {
	case t == nil && steer:
		return schemas.Errorf(schemas.CodeNotRunning, "session %s runs no task", st.Session.ID)
	case t != nil && t.Aborting && steer:
		return schemas.Errorf(schemas.CodeNotRunning, "the task of session %s is being aborted", st.Session.ID)
	case t != nil && !steer && (c.Task.WhenBusy == "" || c.Task.WhenBusy == schemas.BusyReject):
		return schemas.Errorf(schemas.CodeTaskInProgress, "session %s runs a task already", st.Session.ID)
	case c.Task.Earlier() && len(st.Context) > 0:
		return hasHistory(st.Session)
	case t != nil && len(st.Queue) >= schemas.MaxQueue:
		return schemas.Errorf(schemas.CodeQueueFull, "%d tasks of session %s wait already, as many as may", len(st.Queue), st.Session.ID)
	}
	return nil
}

// hasHistory is the refusal of a prompt with earlier turns for a session that has turns already: the
// earlier ones would have to stand before those.
func hasHistory(ref schemas.SessionRef) *schemas.Error {
	e := schemas.Errorf(schemas.CodeHasHistory, "session %s has turns of its own: others can't come before them", ref.ID)
	e.Field = "input"
	return e
}

// refuseWithdrawal says why a task can't be taken back; nil if it waits.
func (st *step) refuseWithdrawal(id string) *schemas.Error {
	if slices.ContainsFunc(st.Queue, func(q Queued) bool { return q.ID == id }) {
		return nil
	}
	return schemas.Errorf(schemas.CodeNotPending, "task %s does not wait: it has begun, or was taken back, or never was", id)
}

// takeTask begins a task, or has it wait. A task that is being aborted can't be steered any more;
// what was to steer it waits for its turn.
func (st *step) takeTask(e CommandReceived) {
	c := &e.Command
	if st.Task == nil {
		st.taken(e, schemas.TakenStarted)
		st.prompt(*c.Task)
		return
	}
	steers := !st.Task.Aborting && (c.Type == schemas.CommandSteer || c.Task.WhenBusy == schemas.BusySteer)
	if steers {
		st.taken(e, schemas.TakenSteering)
	} else {
		st.taken(e, schemas.TakenQueued)
	}
	task := *c.Task
	task.WhenBusy = ""
	st.note(&schemas.TaskQueued{TaskID: c.ID, Steers: steers, Task: task})
}

// prompt records the prompt of a task, behind the earlier turns that it may bring: it opens a task, or adds
// to the one that runs.
func (st *step) prompt(task schemas.TaskBody) {
	for _, p := range task.Payloads(st.nextCallID) {
		st.note(p)
	}
}

// dequeue records that a task waits no longer, and why.
func (st *step) dequeue(q Queued, cause schemas.DequeueCause) {
	st.emit(&schemas.TaskDequeued{TaskID: q.ID, Cause: cause})
}

// joinSteering adds the prompts that wait to steer the task to it, before its next request begins.
func (st *step) joinSteering() {
	for _, q := range st.Queue {
		if q.Steers {
			st.dequeue(q, schemas.DequeuedSteering)
			st.prompt(q.Task)
		}
	}
}

// dropQueue takes back everything that waits.
func (st *step) dropQueue() {
	for _, q := range st.Queue {
		st.dequeue(q, schemas.DequeuedWithdrawn)
	}
}

// startNext begins the task that has waited longest, if none runs; false if it does not.
func (st *step) startNext() bool {
	if st.Task != nil || !st.recovered || len(st.Queue) == 0 {
		return false
	}
	q := st.Queue[0]
	st.dequeue(q, schemas.DequeuedStarted)
	st.prompt(q.Task)
	return true
}

// endTask records the end of the task.
func (st *step) endTask(p *schemas.TaskEnd) {
	p.TaskID = st.Task.ID
	st.emit(p)
}
