package toolrunner

import (
	"time"

	"braid/schemas"
)

// Events tell whoever counts or draws it what a toolrunner does. Nil fields are left out. Many
// goroutines call the functions, each for its own call, and wait for them.
type Events struct {
	// Serving: engines can find the tools.
	Serving func(Serving)
	// Began: a call is about to run, which Ended follows. Tool is as in [EndedCall].
	Began func(tool string)
	// Ended: a call has its result. What becomes of the result is not known yet.
	Ended func(EndedCall)
}

// Serving is what a toolrunner offers to whom.
type Serving struct {
	Instance string
	Projects []string
	// Pools are the queues of each project, [PrivatePool] among them.
	Pools []string
	Slots int
}

// EndedCall is one attempt of a call that has its result.
type EndedCall struct {
	Session    schemas.SessionRef
	ToolCallID string
	Attempt    int
	// Tool is its tool; empty if there is none of the name that the call has.
	Tool         string
	Begun, Ended time.Time
	StopReason   schemas.StopReason
	// TraceContext is what the call carries; nowhere if its engine draws nothing.
	schemas.TraceContext
}

// And tells both, e first.
func (e Events) And(f Events) Events {
	return Events{Serving: both(e.Serving, f.Serving), Began: both(e.Began, f.Began), Ended: both(e.Ended, f.Ended)}
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

// observed runs a call and tells of it.
func (r *Runner) observed(request schemas.ToolRequest, tool Tool, run func() schemas.ToolResult) schemas.ToolResult {
	name := tool.Definition.Name // the one that says there is none has none
	if r.events.Began != nil {
		r.events.Began(name)
	}
	begun := time.Now()
	result := run()
	if r.events.Ended != nil {
		r.events.Ended(EndedCall{
			Session: request.Session, ToolCallID: request.ToolCallID, Attempt: request.Attempt, Tool: name,
			Begun: begun, Ended: time.Now(), StopReason: result.StopReason, TraceContext: request.TraceContext,
		})
	}
	return result
}
