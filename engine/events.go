package engine

import (
	"time"

	"braid/schemas"
)

// Events tell whoever counts or draws it what becomes of an engine's sessions. All but Appended are
// read from messages of the log, once these are stored: what another engine recorded is told by that
// one, what was imported by nobody, and what came while an engine died perhaps by none.
//
// Nil fields are left out. The functions are called by many goroutines, each of which runs a session
// and waits for them: they must be quick, and must not call the engine.
type Events struct {
	// Appended: the broker has acknowledged a frame, so long after it was sent.
	Appended func(took time.Duration)
	// Settled: a command has its outcome.
	Settled func(SettledCommand)
	// TakenOver: this engine goes on with a task that another one had, whose cause is that of
	// [schemas.OwnerChanged].
	TakenOver func(cause string)
	// RequestEnded: a model call is over. One that completed is a turn.
	RequestEnded func(EndedRequest)
	// CallSettled: an attempt of a tool call is over of which no toolrunner tells.
	CallSettled func(SettledCall)
	// TaskEnded: a task is over.
	TaskEnded func(EndedTask)
}

// SettledCommand is a command that has its outcome.
type SettledCommand struct {
	Type schemas.CommandType
	Code schemas.Code
}

// TaskOf says whose task it is.
type TaskOf struct {
	Session schemas.SessionRef
	// Agent names the definition the session was made of; empty if there was none.
	Agent string
	// Task is the id of the command that asked for it.
	Task string
	// Caller is where that command came from, if it said so.
	Caller schemas.TraceContext
}

// EndedRequest is a model call that is over. Its times are those of its messages, so they are to the
// millisecond, and if one engine has begun it and another closed it of two machines' clocks.
type EndedRequest struct {
	TaskOf
	// Model is who was asked, "provider/model".
	Model string
	// Attempt counts the calls of the turn, from 1.
	Attempt int
	// Said is when the first of what the model said came; zero if it said nothing.
	Begun, Said, Ended time.Time
	Status             schemas.StopReason
	// Failure says what went wrong; nil if it completed or was aborted.
	Failure *schemas.ErrorInfo
	// Used are the tokens, and what they cost; estimates if Estimated is set.
	Used      schemas.TokenCounts
	Estimated bool
}

// SettledCall is an attempt of a tool call that its engine has settled: it was withdrawn before any toolrunner
// started it, or its toolrunner was lost with it. What a toolrunner ends, late or not, that one tells of.
type SettledCall struct {
	TaskOf
	ToolCallID string
	Tool       string
	// Attempt counts the attempts of the call, from 1.
	Attempt int
	// Started is set if a toolrunner had started it.
	Started bool
	// Begun is when it was queued or, if it had started, when it did; by the broker's clock or ours.
	Begun, Ended time.Time
	Status       schemas.StopReason
}

// Cause says in one word why no toolrunner tells of the call: withdrawn, or lost.
func (c SettledCall) Cause() string {
	if c.Started {
		return "lost"
	}
	return "withdrawn"
}

// EndedTask is a task that is over. About its times see [EndedRequest].
type EndedTask struct {
	TaskOf
	// Model is the session's own; its requests may have been to others.
	Model        string
	Begun, Ended time.Time
	Status       schemas.StopReason
	// Cause is that of [schemas.TaskEnd].
	Cause string
	// Turns is how many of its requests completed, Used what all of them used.
	Turns int
	Used  schemas.TokenCounts
	// Steered is where the prompts came from that joined it, of those that said so the first
	// [MaxSteered].
	Steered []schemas.TraceContext
}

// MaxSteered bounds what is told of prompts that join one task.
const MaxSteered = 32

// And tells both, e first.
func (e Events) And(f Events) Events {
	return Events{
		Appended: both(e.Appended, f.Appended), Settled: both(e.Settled, f.Settled), TakenOver: both(e.TakenOver, f.TakenOver),
		RequestEnded: both(e.RequestEnded, f.RequestEnded), CallSettled: both(e.CallSettled, f.CallSettled), TaskEnded: both(e.TaskEnded, f.TaskEnded),
	}
}

func both[T any](f, g func(T)) func(T) {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	}
	return func(what T) { f(what); g(what) }
}
