package session

import (
	"strings"
	"time"

	"braid/schemas"
)

// State is what the log says of one session, plus the little an owner keeps while it runs it.
type State struct {
	// Session is the session's name.
	Session schemas.SessionRef
	// Meta is nil until the session was created.
	Meta *schemas.SessionMeta
	// Mode is the approval mode in force.
	Mode schemas.ApprovalMode
	// Tools is the session's snapshot, by name; nil until it was taken.
	Tools map[string]schemas.ToolDefinition
	// ToolList is the same in the order the model gets it.
	ToolList []schemas.ToolDefinition
	// Bound is where the session's files are; nil as long as no call has worked on them.
	Bound *schemas.WorkspaceBound
	// Cursor is the sequence of the last command that has its outcome.
	Cursor uint64
	// Context is what the model is sent: complete model messages of committed requests, prompts,
	// and outputs in call order.
	Context []schemas.Message
	// Committed is how much of it completed requests have answered: what comes behind is still to be
	// answered, and is rewritten if the task ends before.
	Committed int
	// Refused is set if what stands there was carried over of a request that its provider had refused.
	Refused bool
	// Said are the stretches of it that other models than the session's own said, in order.
	Said []Said
	// Usage is the session's total.
	Usage schemas.TokenCounts
	// GivenUp are the models that were given up lately, and when: see route.go.
	GivenUp map[string]time.Time
	// Task is the open task, nil at rest.
	Task *Task
	// Queue is what waits for it, in the order in which it was asked for.
	Queue []Queued

	// importing is the trace that the session is being made of; nil once it is, or if it was created.
	importing *importing
	// foreignCalls is the highest number among the ids of an imported trace's calls.
	foreignCalls int

	// Deleting is set once the session is to be deleted, Deleted once nothing more will be said.
	Deleting, Deleted bool

	// deleter is the command by which it is.
	deleter string
	// opener is the id of the task that the next prompt opens: that of the newest applied command, or of
	// the newest task to leave the queue.
	opener string

	// What follows belongs to the owner and is not in the log.

	// Policy judges calls before anybody is asked; nil if there are no rules.
	Policy Policy

	fence     uint64            // the owner's, part of the call ids that it gives out
	calls     int               // ids given out under the fence
	requests  uint64            // model calls started by this owner
	listing   bool              // the tool list was asked for
	waiting   bool              // a retry timer runs
	recovered bool              // TakenOver was taken: nothing happens by itself before
	source    *CommandReceived  // the import under way
	held      []CommandReceived // commands that wait for its end
	armed     string            // the call whose deadline the broker holds; empty: none
	arms      int               // how many deadlines this owner has had it hold
}

// Task is what one prompt started.
type Task struct {
	// ID is the id of the command that started it.
	ID string
	// Turn counts from 1 once a request began.
	Turn int
	// Request is the newest request; nil before the first.
	Request *Request
	// Aborting is set from the abort command until the task ends.
	Aborting bool
	// AbortReason is what the command said.
	AbortReason string
	// Asked are the models that its requests went to, in order.
	Asked []string
	// Used is what its requests used, those that did not complete included.
	Used schemas.TokenCounts
	// OverBudget is set once that is more than it may be: no further request begins.
	OverBudget bool
	// Warned is set if the committed turn before the newest repeated others.
	Warned bool
	// Past are the committed turns that loop detection looks back at, the newest last.
	Past []Turn
}

// Said is a stretch of the context, from one index up to before another, that a model said.
type Said struct {
	Model    string
	From, To int
}

// Request is one model call.
type Request struct {
	// ID tells model calls of this owner apart; 0 if another owner began it.
	ID uint64
	// Attempt counts the requests of the turn, from 1.
	Attempt int
	// Model is who is asked, "provider/model".
	Model string
	// Tries is its step on the retry ladder of its model, from 1, see request.go.
	Tries int
	// Moved is set once an owner has handed the session over while the request was open: it has not
	// failed, and is made again on the same step of the ladder.
	Moved bool
	// Open until request_end.
	Open bool
	// Status is how it ended.
	Status schemas.StopReason
	// Ended is when it ended.
	Ended time.Time
	// RetryInMS is the announced wait from there to the next attempt; 0 if there is none.
	RetryInMS int64
	// Fallback is the model that makes the next attempt instead; empty if it is given none.
	Fallback string
	// Hurried is set once a person has cut that wait short.
	Hurried bool
	// Looped is set once its turn was found to repeat others.
	Looped bool
	// Failure says why it did not complete.
	Failure *schemas.ErrorInfo
	// Messages are the complete ones, in order.
	Messages []schemas.Message
	// Segment is the open one.
	Segment *Segment
	// Calls are its tool calls, in call order.
	Calls []*Call

	decided int               // how many of its calls have a decision
	folded  bool              // its outputs are in the context
	torn    bool              // fragments of the open segment may be missing, see [State.Gap]
	ids     map[string]string // the provider's call ids to the engine's
	stop    *schemas.Message  // the open segment's stop, which waits for the complete message
}

// Segment is a message of the model that is still being streamed.
type Segment struct {
	// Of is the kind of the complete message.
	Of         schemas.Kind
	Text       strings.Builder
	Name       string
	ToolCallID string
}

// Call is one tool call and what became of it.
type Call struct {
	*schemas.ToolCall
	// Asked is set once a person was asked.
	Asked bool
	// Deadline is when a call that was asked about counts as denied; zero if it waits without end.
	Deadline time.Time
	// Decision is empty until the call was decided.
	Decision schemas.Decision
	// Output is its one complete output.
	Output *schemas.ToolCallOutput
	// Streaming is set between the output's start and stop.
	Streaming bool
	// Text is everything streamed so far.
	Text strings.Builder
	// Attempt and Offset say how much of which attempt is merged.
	Attempt int
	Offset  int64

	order  int  // its place among the calls of the request that have a decision, from 1; 0: it has none
	sent   bool // this owner has asked for its start, or follows it
	torn   bool // fragments of the output may be missing, see [State.Gap]
	ruled  bool // the owner's policy has judged it
	ruling Ruling
}

// New returns the state of a session of which nothing is known yet.
func New(ref schemas.SessionRef) *State { return &State{Session: ref} }

// Own makes the state that of a new owner, once the log is folded: ids that it gives out carry the fence,
// and what the owner before had under way is not under way any more.
func (s *State) Own(fence uint64) {
	s.fence, s.calls, s.requests = fence, s.foreignCalls, 0
	s.source, s.held = nil, nil
	s.listing, s.waiting, s.recovered = false, false, false
	s.armed, s.arms = "", 0
}

// AtRest reports that no task is open, and no import.
func (s *State) AtRest() bool { return s.Task == nil && !s.imports() }

// Suspendable reports that the task waits for a person and for nothing else: no model stream,
// no tool, no timer.
func (s *State) Suspendable() bool {
	if s.imports() || s.Task == nil || s.Task.Aborting || s.waiting || s.Task.Request == nil || s.Task.Request.Open {
		return false
	}
	asked := false
	for _, c := range s.Task.Request.Calls {
		asked = asked || s.Task.Request.awaitsPerson(c)
		if c.running() {
			return false
		}
	}
	return asked
}

// Pending lists the calls that wait for a person, at most one.
func (s *State) Pending() []*Call {
	if s.imports() || s.Task == nil || s.Task.Request == nil || s.Task.Aborting {
		return nil
	}
	for _, c := range s.Task.Request.Calls {
		if s.Task.Request.awaitsPerson(c) {
			return []*Call{c}
		}
	}
	return nil
}

// Busy reports that something is open that a checkpoint should describe.
func (s *State) Busy() bool {
	if s.imports() || s.Task == nil || s.Task.Request == nil {
		return false
	}
	if s.Task.Request.Segment != nil {
		return true
	}
	for _, c := range s.Task.Request.Calls {
		if c.Streaming {
			return true
		}
	}
	return false
}

// call finds a call of the current request.
func (s *State) call(id string) *Call {
	if s.Task == nil || s.Task.Request == nil {
		return nil
	}
	for _, c := range s.Task.Request.Calls {
		if c.ToolCallID == id {
			return c
		}
	}
	return nil
}

// live reports that calls of the request can still be decided: it is open, or it has committed.
func (r *Request) live() bool { return r.Open || r.Status == schemas.StopCompleted }

// awaitsPerson reports that a person was asked about the call and has not decided.
func (r *Request) awaitsPerson(c *Call) bool {
	return r.live() && c.Asked && c.Decision == ""
}

// running reports that the call was allowed and has no output yet.
func (c *Call) running() bool { return c.Decision == schemas.DecisionAllow && c.Output == nil }

// settled reports that nothing more will come of the call: it has its output, or it was
// withdrawn undecided with its request.
func (r *Request) settled(c *Call) bool {
	if c.Decision == "" {
		return !r.live()
	}
	return c.Output != nil
}

// quiet reports that every call of the request is settled.
func (r *Request) quiet() bool {
	for _, c := range r.Calls {
		if !r.settled(c) {
			return false
		}
	}
	return true
}

// Merged is how much of which attempt of a call's output is in the stream.
func (s *State) Merged(id string) (attempt int, offset int64) {
	if c := s.call(id); c != nil {
		return c.Attempt, c.Offset
	}
	return 0, 0
}
