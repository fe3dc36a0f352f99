package session

import (
	"time"

	"braid/schemas"
)

// The two vocabularies between the core and its owner: the events that come in, and the effects that
// go out.

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
	// one of an import that nobody began brings Settings and Facts. Command is the effect's.
	TraceRead struct {
		Command  uint64
		Settings schemas.SessionMeta
		Facts    schemas.TraceFacts
		From     int
		Messages []schemas.Message
	}
	// TraceRefused: the trace can't be imported, or not be read any more. Command is as in [TraceRead].
	TraceRefused struct {
		Command uint64
		Reason  *schemas.Error
	}
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
	// ReadTrace asks for the messages of a trace from the From-th on, with [TraceRead]. Command is the
	// sequence of the import, Settings are those of one that an owner before began.
	ReadTrace struct {
		Command  uint64
		Import   schemas.ImportBody
		Settings *schemas.SessionMeta
		From     int
	}
	// DropTrace: the trace is in the log, or never will be: nobody reads it any more, and what reads it
	// may stop. Before is when the command of its import was stored: the same, stored once more since, is
	// another import's.
	DropTrace struct {
		Trace  string
		Before time.Time
	}
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
