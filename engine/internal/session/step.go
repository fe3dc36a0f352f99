package session

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"braid/schemas"
)

// step is one run of [State.Step].
type step struct {
	*State
	now    time.Time
	at     time.Time // when it was asked for: of a command, when the broker stored it
	jitter float64   // what lengthens the wait before a retry that the event brings about, see retryDelay
	out    Output
}

// Step takes one event and returns what follows from it. The state already contains the returned
// messages.
func (s *State) Step(now time.Time, event Event) Output {
	st := &step{State: s, now: now, at: now}
	switch e := event.(type) {
	case CommandReceived:
		st.command(e)
	case TraceRead:
		st.traceRead(e)
	case TraceRefused:
		if st.reads(e.Command) {
			st.importDone(e.Reason)
		}
	case ToolsListed:
		st.toolsListed(e.Tools)
	case ModelMessage:
		st.modelMessage(e)
	case ModelEnded:
		st.jitter = e.Jitter
		st.modelEnded(e)
	case ToolOutput:
		st.toolOutput(e.Fragment)
	case ToolStarted:
		st.toolStarted(e)
	case ToolEnded:
		st.toolEnded(e)
		st.startHeldBack()
	case RetryDue:
		if s.Task != nil && s.Task.Request != nil && s.Task.Request.ID == e.Request {
			s.waiting = false
		}
	case CheckpointDue:
		st.checkpoint()
	case TakenOver:
		st.jitter = e.Jitter
		st.takenOver(e)
	case GaveUp:
		st.gaveUp(e)
	}
	if !st.imports() {
		st.advance()
		for st.startNext() {
			st.advance()
		}
		st.endSession()
		st.keepDeadline()
	}
	return st.out
}

// emit appends a message to the session's log and folds it into the state.
func (st *step) emit(p schemas.Payload) { st.append(schemas.New(st.now, p)) }

// note is emit for a message that the trace keeps and watchers do not see.
func (st *step) note(p schemas.Payload) { st.append(schemas.NewTraceOnly(st.now, p)) }

func (st *step) append(m schemas.Message) {
	st.Apply(m)
	st.out.Messages = append(st.out.Messages, m)
}

// do adds an effect, which is carried out once the messages of the step are stored.
func (st *step) do(e Effect) { st.out.Effects = append(st.out.Effects, e) }

// command gives a command its one outcome and does what it asks for.
func (st *step) command(e CommandReceived) {
	if e.Sequence <= st.Cursor {
		return // it has its outcome
	}
	if st.source != nil {
		st.whileImporting(e)
		return
	}
	c := &e.Command
	st.at = e.Time
	refused := e.Refused
	if refused == nil {
		refused = st.refuse(c)
	}
	if c.Type == schemas.CommandDeadline && c.Deadline != nil && c.Deadline.ToolCallID == st.armed {
		st.armed = "" // it is used up
	}
	if refused != nil {
		st.answer(e, &schemas.CommandOutcome{Code: refused.Code, Message: refused.Message, Field: refused.Field})
		if c.Import != nil {
			st.do(DropTrace{c.Import.Trace, e.Time})
		}
		if c.Type == schemas.CommandApprove {
			st.denyOverdue()
		}
		return
	}
	switch c.Type {
	case schemas.CommandImport:
		st.importTrace(e)
	case schemas.CommandCreate:
		st.applied(e, "")
		st.create(c)
	case schemas.CommandTask, schemas.CommandSteer:
		st.takeTask(e)
	case schemas.CommandDelete:
		st.deleteSession(e)
	case schemas.CommandWithdraw:
		st.applied(e, "")
		st.dequeue(Queued{ID: c.Withdraw.TaskID}, schemas.DequeuedWithdrawn)
	case schemas.CommandApprove:
		st.applied(e, "")
		st.decide(st.call(c.Approve.ToolCallID), c.Approve.Decision)
	case schemas.CommandSet:
		st.applied(e, "")
		st.denyOverdue() // the new mode is none that it waited for
		if c.Set.ApprovalMode != st.Mode {
			st.emit(&schemas.SessionChanged{ApprovalMode: c.Set.ApprovalMode})
		}
	case schemas.CommandDeadline:
		st.applied(e, "")
		st.denyOverdue()
	case schemas.CommandRetryNow:
		st.applied(e, "")
		st.waiting = false
	case schemas.CommandAbort:
		st.abortTask(e)
	}
}

// refuse says why the command can't be applied to the session as it is; nil if it can.
func (st *step) refuse(c *schemas.Command) *schemas.Error {
	switch exists := st.Meta != nil; {
	case st.Deleting && c.Type != schemas.CommandDelete:
		return schemas.Errorf(schemas.CodeDeleted, "session %s is being deleted", st.Session.ID)
	case c.Type.Creates() && exists:
		return schemas.Errorf(schemas.CodeSessionExists, "session %s exists already", st.Session.ID)
	case c.Type.Creates():
		return nil
	case !exists:
		return schemas.Errorf(schemas.CodeUnknownSession, "there is no session %s", st.Session.ID)
	}
	switch c.Type {
	case schemas.CommandTask, schemas.CommandSteer:
		return st.refuseTask(c)
	case schemas.CommandDelete:
		return st.refuseDelete(c.Delete)
	case schemas.CommandWithdraw:
		return st.refuseWithdrawal(c.Withdraw.TaskID)
	case schemas.CommandAbort:
		if st.Task == nil {
			return schemas.Errorf(schemas.CodeNotRunning, "session %s runs no task", st.Session.ID)
		}
	case schemas.CommandDeadline:
		return st.refuseDeadline(c.Deadline.ToolCallID)
	case schemas.CommandRetryNow:
		return st.refuseRetry()
	case schemas.CommandApprove:
		return st.refuseApproval(c.Approve)
	case schemas.CommandSet:
	default:
		return schemas.Errorf(schemas.CodeInvalid, "unknown command type %q", c.Type)
	}
	return nil
}

// applied records that a command took effect, and answers with it. What else there is to say of it is told to
// whoever reads the log.
func (st *step) applied(e CommandReceived, message string) {
	st.answer(e, &schemas.CommandOutcome{Code: schemas.CodeApplied, Message: message})
}

// taken is applied for a prompt, with what became of it.
func (st *step) taken(e CommandReceived, how schemas.Taken) {
	st.answer(e, &schemas.CommandOutcome{Code: schemas.CodeApplied, Taken: how, Caller: e.Command.Caller})
}

// answer records a command's outcome and has its sender told.
func (st *step) answer(e CommandReceived, p *schemas.CommandOutcome) {
	p.CommandID, p.Command, p.Sequence = e.Command.ID, e.Command.Type, e.Sequence
	if p.Command == schemas.CommandImport && p.Code != schemas.CodeApplied && st.importing != nil {
		st.emit(p) // watchers have seen its beginning
	} else {
		st.note(p)
	}
	st.do(Answer{p.Outcome(0)})
}

// create records what a new session is created with.
func (st *step) create(c *schemas.Command) {
	provider, model, _ := schemas.SplitModel(c.Create.Model) // validated at the edge
	mode := c.Create.ApprovalMode
	if mode == "" {
		mode = schemas.ApproveReadOnly
	}
	st.note(&schemas.SessionMeta{
		SessionID: st.Session.ID, Provider: provider, ModelID: model,
		SystemPrompt: c.Create.SystemPrompt, Workspace: c.Create.Workspace,
		FallbackModels: append([]string(nil), c.Create.FallbackModels...), Agent: c.Create.Agent, ApprovalMode: mode, Limits: c.Create.Limits,
		ApprovalTimeoutMS: c.Create.ApprovalTimeoutMS, Tools: slices.Clone(c.Create.Tools),
	})
}

// toolsListed records the session's snapshot of the tools there are, as far as the session may use them.
func (st *step) toolsListed(tools []schemas.ToolDefinition) {
	st.listing = false
	if st.Tools == nil && !st.Deleted {
		allowed := []schemas.ToolDefinition{} // an empty list is a list
		for _, tool := range tools {
			if st.Meta == nil || schemas.ToolAllowed(st.Meta.Tools, tool.Name) {
				allowed = append(allowed, tool)
			}
		}
		st.emit(&schemas.ToolListReady{Tools: allowed})
	}
}

// advance takes the session as far as it can go without another event.
func (st *step) advance() {
	t := st.Task
	if t == nil || !st.recovered {
		return
	}
	if t.Aborting {
		st.finishAbort()
		return
	}
	r := t.Request
	if r == nil {
		if st.Tools == nil {
			if !st.listing {
				st.listing = true
				st.do(ListTools{})
			}
			return
		}
		st.firstTurn()
		return
	}
	st.decideNext()
	if r.Open || !r.quiet() {
		return
	}
	switch {
	case r.Status == schemas.StopCompleted:
		st.nextTurn()
	case r.RetryInMS == 0 && r.Fallback == "":
		st.failTask()
	case !st.waiting:
		st.begin(r.Attempt+1, cmp.Or(r.Fallback, r.Model))
	}
}

// nextCallID returns an id that is unique in the session and fit for a subject.
func (st *step) nextCallID() string {
	st.calls++
	return fmt.Sprintf("c%d-%d", st.fence, st.calls)
}
