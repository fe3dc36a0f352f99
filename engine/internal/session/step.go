package session

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"braid/schemas"
)

// Event is something that happened to the session. The types below implement it.
type Event interface{ event() }

type (
	// CommandReceived: a command is next in the session's order.
	CommandReceived struct {
		Sequence uint64
		// Time is when the broker stored it.
		Time    time.Time
		Command schemas.Command
		// Refused is set when the command can't be taken for a reason that only the world
		// outside knows: it does not decode, its model does not exist.
		Refused *schemas.Error
	}
	// TraceRead answers [ReadTrace], bit by bit: messages of the trace from the From-th on. The first
	// one of an import that nobody began brings Settings and Facts.
	TraceRead struct {
		Settings schemas.SessionMeta
		Facts    schemas.TraceFacts
		From     int
		Messages []schemas.Message
	}
	// TraceRefused: the trace can't be imported, or not be read any more.
	TraceRefused struct{ Reason *schemas.Error }
	// ToolsListed answers [ListTools].
	ToolsListed struct{ Tools []schemas.ToolDefinition }
	// ModelMessage: the model streamed a message. Request is that of the [CallModel] effect.
	ModelMessage struct {
		Request uint64
		Message schemas.Message
	}
	// ModelEnded: a model call ended.
	ModelEnded struct {
		Request uint64
		Status  schemas.StopReason
		// Usage is what it used; nothing if it never left. Estimated is set if the provider did not say.
		Usage     schemas.TokenCounts
		Estimated bool
		// Failure is set unless the call completed.
		Failure *schemas.ErrorInfo
		// RetryAfter is the wait the provider asked for.
		RetryAfter time.Duration
		// Jitter, from 0 up to 1, is by how much of its room the wait before a retry is lengthened.
		Jitter float64
	}
	// ToolOutput: a running tool streamed a piece of output.
	ToolOutput struct{ Fragment schemas.ToolFragment }
	// ToolEnded: a call came to its end, whoever brought it about.
	ToolEnded struct {
		ToolCallID string
		Attempt    int
		Result     schemas.ToolResult
	}
	// ToolStarted: a toolrunner has started a call, and has that shared volume, or none.
	ToolStarted struct {
		ToolCallID         string
		Toolrunner, Volume string
	}
	// RetryDue: the wait of [WaitRetry] is over. Request is the effect's: a wait that was begun
	// for a request of an aborted task is no reason to repeat a later one early.
	RetryDue struct{ Request uint64 }
	// CheckpointDue: it is time to record what is open.
	CheckpointDue struct{}
	// TakenOver: this owner has folded the log and goes on. From and Cause describe the change
	// of owner; an empty From is none worth telling: the session was at rest or suspended. Lost is an
	// estimate of what the request used that is open, see [State.OpenRequest]. Jitter is as in
	// [ModelEnded].
	TakenOver struct {
		From, To, Cause string
		Lost            schemas.TokenCounts
		Jitter          float64
	}
	// GaveUp: the engine can't go on with the task, for a reason of its own. Lost is as in [TakenOver].
	GaveUp struct {
		Message string
		Lost    schemas.TokenCounts
	}
)

func (CommandReceived) event() {}
func (TraceRead) event()       {}
func (TraceRefused) event()    {}
func (ToolsListed) event()     {}
func (ModelMessage) event()    {}
func (ModelEnded) event()      {}
func (ToolOutput) event()      {}
func (ToolStarted) event()     {}
func (ToolEnded) event()       {}
func (RetryDue) event()        {}
func (CheckpointDue) event()   {}
func (TakenOver) event()       {}
func (GaveUp) event()          {}

// Effect is something to do outside the log, after the messages that announce it are stored.
// The types below implement it.
type Effect interface{ effect() }

type (
	// Answer tells the sender of a command its outcome and acknowledges the command.
	Answer struct{ Outcome schemas.Outcome }
	// ReadTrace asks for the messages of a trace from the From-th on, with [TraceRead]. Settings are
	// those of an import that an owner before began.
	ReadTrace struct {
		Import   schemas.ImportBody
		Settings *schemas.SessionMeta
		From     int
	}
	// DropTrace: the trace is in the log, or never will be.
	DropTrace struct{ Trace string }
	// ListTools asks which tools there are; the answer is [ToolsListed].
	ListTools struct{}
	// CallModel starts a model call.
	CallModel struct {
		Request uint64
		Attempt int
		// Model is "provider/model".
		Model string
		Input []schemas.Message
	}
	// StopModel cancels it, or keeps it from leaving. Whatever it still says is ignored; it ends with
	// [ModelEnded] like any other.
	StopModel struct{ Request uint64 }
	// StartTool sends a call to a toolrunner, or finds out what became of it if it was sent
	// before. It ends with [ToolEnded].
	StartTool struct {
		Call       schemas.ToolCall
		Definition schemas.ToolDefinition
		Workspace  string
		// Bound is where the session's files are, for a tool that works on them; nil if no call
		// has yet.
		Bound *schemas.WorkspaceBound
		// Resumed is set for a call that an owner before had allowed: it may have records.
		Resumed bool
		// Attempt and Offset are what is merged already.
		Attempt int
		Offset  int64
	}
	// CancelTool ends a call, bounded in time; it ends with [ToolEnded].
	CancelTool struct{ ToolCallID string }
	// ResendOutput asks for a running call's output from an offset on.
	ResendOutput struct {
		ToolCallID string
		Attempt    int
		From       int64
	}
	// SetDeadline has the broker send the command, a deadline, at an instant, whoever lives then. It
	// must be stored before the session may be let go of.
	SetDeadline struct {
		At      time.Time
		Command schemas.Command
	}
	// ClearDeadline undoes it, after it in any case. A deadline that comes all the same does no harm.
	ClearDeadline struct{ ToolCallID string }
	// TellRuling tells the operator that the policy has forbidden a call, or has a person asked.
	TellRuling struct {
		ToolCallID string
		Ruling     Ruling
	}
	// WaitRetry asks for a [RetryDue] after the delay.
	WaitRetry struct {
		Request uint64
		Delay   time.Duration
	}
)

func (Answer) effect()        {}
func (ReadTrace) effect()     {}
func (DropTrace) effect()     {}
func (ListTools) effect()     {}
func (CallModel) effect()     {}
func (StopModel) effect()     {}
func (StartTool) effect()     {}
func (CancelTool) effect()    {}
func (ResendOutput) effect()  {}
func (SetDeadline) effect()   {}
func (ClearDeadline) effect() {}
func (TellRuling) effect()    {}
func (WaitRetry) effect()     {}

// Output is what a step asks for: messages to append, in order, in one frame; and effects to
// carry out once they are stored. A step without messages has its effects wait for whatever was
// appended before.
type Output struct {
	Messages []schemas.Message
	Effects  []Effect
}

// step is one run of [State.Step].
type step struct {
	*State
	now    time.Time
	jitter float64 // of a retry that the event brings about
	out    Output
}

// Step takes one event and returns what follows from it. The state already contains the returned
// messages.
func (s *State) Step(now time.Time, event Event) Output {
	st := &step{State: s, now: now}
	switch e := event.(type) {
	case CommandReceived:
		st.command(e)
	case TraceRead:
		st.traceRead(e)
	case TraceRefused:
		if st.source != nil {
			st.importDone(e.Reason.Code, e.Reason.Message)
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

// emit appends a message to the session and folds it in.
func (st *step) emit(p schemas.Payload) { st.append(schemas.New(st.now, p)) }

// note is emit for what is kept but not shown.
func (st *step) note(p schemas.Payload) { st.append(schemas.NewTraceOnly(st.now, p)) }

func (st *step) append(m schemas.Message) {
	st.Apply(m)
	st.out.Messages = append(st.out.Messages, m)
}

func (st *step) do(e Effect) { st.out.Effects = append(st.out.Effects, e) }

// command gives a command its one outcome and does what it asks for.
func (st *step) command(e CommandReceived) {
	if e.Sequence <= st.Cursor {
		return // it has its outcome
	}
	if st.source != nil {
		st.held = append(st.held, e)
		return
	}
	c := &e.Command
	refused := e.Refused
	if refused == nil {
		refused = st.refuse(c, e.Time)
	}
	if c.Type == schemas.CommandDeadline && c.Deadline != nil && c.Deadline.ToolCallID == st.armed {
		st.armed = "" // it is used up
	}
	if refused != nil {
		st.answer(e, &schemas.CommandOutcome{Code: refused.Code, Message: refused.Message, Field: refused.Field})
		return
	}
	switch c.Type {
	case schemas.CommandImport:
		st.importTrace(e)
	case schemas.CommandCreate:
		st.outcome(e, schemas.CodeApplied, "")
		st.create(c)
	case schemas.CommandTask, schemas.CommandSteer:
		st.takeTask(e)
	case schemas.CommandDelete:
		st.deleteSession(e)
	case schemas.CommandWithdraw:
		st.outcome(e, schemas.CodeApplied, "")
		st.dequeue(Queued{ID: c.Withdraw.TaskID}, schemas.DequeuedWithdrawn)
	case schemas.CommandApprove:
		st.outcome(e, schemas.CodeApplied, "")
		st.decide(st.call(c.Approve.ToolCallID), c.Approve.Decision)
	case schemas.CommandSet:
		st.outcome(e, schemas.CodeApplied, "")
		if c.Set.ApprovalMode != st.Mode {
			st.emit(&schemas.SessionChanged{ApprovalMode: c.Set.ApprovalMode})
		}
	case schemas.CommandDeadline:
		st.outcome(e, schemas.CodeApplied, "")
		st.reject(st.call(c.Deadline.ToolCallID), schemas.DecisionDeny, deniedTooLate)
	case schemas.CommandRetryNow:
		st.outcome(e, schemas.CodeApplied, "")
		st.waiting = false
	case schemas.CommandAbort:
		reason := ""
		if c.Abort != nil {
			reason = c.Abort.Reason
		}
		already := st.Task.Aborting
		st.outcome(e, schemas.CodeApplied, reason)
		if c.Abort != nil && c.Abort.DropQueue {
			st.dropQueue()
		}
		if !already {
			st.abort()
		}
	}
}

// refuse says why the command can't be applied to the session as it is; nil if it can.
func (st *step) refuse(c *schemas.Command, at time.Time) *schemas.Error {
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
		return st.refuseDeadline(c.Deadline.ToolCallID, at)
	case schemas.CommandRetryNow:
		return st.refuseRetry()
	case schemas.CommandApprove:
		return st.refuseDecision(c.Approve)
	case schemas.CommandSet:
	default:
		return schemas.Errorf(schemas.CodeInvalid, "unknown command type %q", c.Type)
	}
	return nil
}

// outcome records a command's outcome, and answers with it.
func (st *step) outcome(e CommandReceived, code schemas.Code, message string) {
	st.answer(e, &schemas.CommandOutcome{Code: code, Message: message})
}

// taken is the outcome of a prompt that is applied.
func (st *step) taken(e CommandReceived, how schemas.Taken) {
	st.answer(e, &schemas.CommandOutcome{Code: schemas.CodeApplied, Taken: how})
}

func (st *step) answer(e CommandReceived, p *schemas.CommandOutcome) {
	p.CommandID, p.Command, p.Sequence = e.Command.ID, e.Command.Type, e.Sequence
	st.note(p)
	st.do(Answer{p.Outcome(0)})
}

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
