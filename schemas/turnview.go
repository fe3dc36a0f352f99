package schemas

import (
	"cmp"
	"fmt"
	"strings"
)

// TurnView turns a session's stream into events at the grain of turns, task by task. It takes one
// message at a time and knows nothing but what it was given, so it works on a live stream as on a
// stored one, through any [View], and gives the same events through each.
//
// When a request completes: its text, if it has any, in one piece; budget_exceeded and
// loop_detected, where they apply; then one tool_use a call, in call order, and one tool_result a
// call, in the same order, each as soon as it and those before it are known. When the task ends:
// exactly one done or error. A task that a person aborted, that ran out of turns or over its
// budget ends in done, with a mark.
//
// Not in this view: requests that did not complete and what their calls did, compactions (but for
// the tokens they used), notices, reasoning, prompts, and messages of child sessions.
//
// # When a tool_use comes
//
// What stands directly after a request_end, in its frame, may be a mark that goes before the
// calls. So tool_use comes with the next message that can't be one: any of a later frame, or one
// of the same frame that is neither a mark nor an aside such as a command's outcome. Who knows
// that the frame is over, and does not want to wait for the next one, says so by
// [TurnView.Flush]; the events are the same and in the same order either way.
//
// After loop_detected the calls wait longer, since nothing says at once whether the task goes on.
// It does if a call is allowed, denied or asked about, or if another request begins: then they are
// given, as they are when the task ends for another reason. If it ends because of the loop they
// never are, and the calls, which were all forbidden, are in none of the events.
//
// # What is missing
//
// A call that was undecided when its task was aborted gets no tool_result, since it has no output.
// Of a task whose beginning was not seen (see [TurnView.Missed]) the requests that begin later are
// shown; the text, calls and results of the others are not, and its done is marked incomplete. A
// task is over at its task_end alone; in an imported trace, which may have none, also at the prompt
// that follows a turn without calls, an abort, or the last attempt of a request.
//
// Memory grows with the messages of the running task, which done repeats. A TurnView is not safe
// for concurrent use.
type TurnView struct {
	imported   Imported
	lost       *RequestEnd // the last request, if it did not complete
	compacting bool
	request    *viewRequest         // the open one, if its beginning was seen
	turn       *viewTurn            // the last one that was committed
	calls      map[string]*viewCall // those of both
	result     TaskResult           // so far
	out        []TurnEvent
}

// viewRequest is what an open request has said.
type viewRequest struct {
	text     strings.Builder
	messages []Message
	calls    []*viewCall
}

// viewTurn is a committed request and its calls.
type viewTurn struct {
	at     Position // of its request_end
	calls  []*viewCall
	looped bool
	phase  viewPhase
	given  int // calls whose results were given, or never will be
}

// viewPhase says whether a turn's calls were given.
type viewPhase int

const (
	viewOpen  viewPhase = iota // a mark may follow
	viewHeld                   // a loop was detected: the task may end instead
	viewGiven                  // they were
)

// viewCall is a call and what is known of it.
type viewCall struct {
	call     *ToolCall
	asked    bool
	decision Decision
	output   *Message
}

func (c *viewCall) result() *ToolCallOutput { return c.output.Payload.(*ToolCallOutput) }

// NewTurnView returns the view of a session from its beginning, or from after any task_end.
func NewTurnView() *TurnView { return new(TurnView).reset() }

func (v *TurnView) reset() *TurnView {
	*v = TurnView{
		calls: map[string]*viewCall{}, out: v.out, imported: v.imported,
		result: TaskResult{Messages: []Message{}, ToolCalls: []TaskToolCall{}},
	}
	return v
}

// Missed says that recorded messages before the next one were not seen: the reader joined in the
// middle of a task, or lost something. Fragments and messages of child sessions don't count.
func (v *TurnView) Missed() {
	v.compacting, v.request = false, nil
	v.result.Incomplete = true
}

// Add takes the session's next message and returns the events that it completes, usually none.
// The entry's position tells which frame it belongs to; the zero position tells nothing.
func (v *TurnView) Add(e Entry) []TurnEvent {
	v.out = nil
	if v.settles(e) {
		v.settle()
	}
	v.imports(e.Message)
	if len(e.Message.Origin) == 0 && e.Message.Visible() { // of a compaction's request nothing is
		v.take(e)
	}
	return v.out
}

// Flush says that the frame of the last message is over, and returns the events that have waited
// for that.
func (v *TurnView) Flush() []TurnEvent {
	v.out = nil
	if v.turn != nil && v.turn.phase == viewOpen {
		v.settle()
	}
	return v.out
}

// settles reports whether no mark can follow any more.
func (v *TurnView) settles(e Entry) bool {
	t, none := v.turn, Position{}
	if t == nil || t.phase != viewOpen {
		return false
	}
	if e.Position != none && t.at != none && e.Position.Sequence != t.at.Sequence {
		return true
	}
	if len(e.Message.Origin) > 0 {
		return false
	}
	switch e.Message.Payload.(type) {
	case *BudgetExceeded, *LoopDetected:
		return false
	case nil, *Unknown, *CommandOutcome, *Checkpoint, *Subagent, *SessionMeta, *OwnerChanged, *SessionChanged,
		*TaskQueued, *TaskDequeued, *SessionDeleted, *SessionImported:
		return false // may stand anywhere
	}
	return true
}

// settle gives the turn's calls, unless the task may end instead.
func (v *TurnView) settle() {
	if t := v.turn; t.looped && len(t.calls) > 0 && !t.goesOn() {
		t.phase = viewHeld
		return
	}
	v.give()
}

// goesOn reports whether the calls are dealt with as in any turn.
func (t *viewTurn) goesOn() bool {
	for _, c := range t.calls {
		if c.asked || c.decision == DecisionAllow || c.decision == DecisionDeny {
			return true
		}
	}
	return false
}

func (v *TurnView) emit(t TurnEventType, data any) {
	v.out = append(v.out, TurnEvent{Type: t, Data: data})
}

// give gives the turn's calls and the results that are known.
func (v *TurnView) give() {
	v.turn.phase = viewGiven
	for _, c := range v.turn.calls {
		v.emit(TurnToolUse, NewToolUseBlock(c.call))
	}
	v.giveResults()
}

func (v *TurnView) giveResults() {
	t := v.turn
	for t.given < len(t.calls) && t.calls[t.given].output != nil {
		v.emit(TurnToolResult, newToolResultBlock(t.calls[t.given].result()))
		t.given++
	}
}

// take takes the session's own next message.
func (v *TurnView) take(e Entry) {
	if v.compacting && !v.leavesCompaction(e.Message) {
		return
	}
	switch p := e.Message.Payload.(type) {
	case *RequestBegin:
		v.closeTurn()
		v.request = new(viewRequest)
	case *RequestEnd:
		v.requestEnd(p, e.Position)
	case *TokenUsage:
		v.used(p)
	case *BudgetExceeded:
		v.budgetExceeded(p)
	case *LoopDetected:
		v.loopDetected(p)
	case *ApprovalRequest:
		v.heard(p.ToolCallID, func(c *viewCall) { c.asked = true })
	case *ApprovalDecision:
		v.heard(p.ToolCallID, func(c *viewCall) { c.decision = p.Decision })
	case *ToolCallOutput:
		v.heard(p.ToolCallID, func(c *viewCall) { c.output = &e.Message })
	case *CompactionBegin:
		v.compacting = true
	case *Abort:
		v.result.Aborted = true
		v.closeTurn()
	case *TaskEnd:
		v.taskEnd(p)
	default:
		v.said(e.Message)
	}
}

// leavesCompaction takes a message inside a compaction and reports whether it ends it and counts
// outside as well.
func (v *TurnView) leavesCompaction(m Message) bool {
	switch p := m.Payload.(type) {
	case *TokenUsage:
		v.used(p)
	case *CompactionEnd:
		v.compacting = false
	case *Abort, *TaskEnd:
		v.compacting = false
		return true
	}
	return false
}

func (v *TurnView) used(p *TokenUsage) {
	v.result.TokenUsage = v.result.TokenUsage.Add(NewTaskUsage(p.Request))
}

// said takes a complete message of the model.
func (v *TurnView) said(m Message) {
	r := v.request
	if r == nil || m.Partial() || m.Type != TypeModel || roleOf(m.Payload) == RoleUser {
		return
	}
	switch p := m.Payload.(type) {
	case *Text:
		r.text.WriteString(p.Text)
	case *ToolCall:
		c := &viewCall{call: p}
		r.calls = append(r.calls, c)
		v.calls[p.ToolCallID] = c
	}
	r.messages = append(r.messages, m)
}

// heard notes something about a call, and gives what it was waited for.
func (v *TurnView) heard(id string, note func(*viewCall)) {
	c := v.calls[id]
	if c == nil {
		return // of a request that did not complete, or was not seen
	}
	note(c)
	switch t := v.turn; {
	case t == nil:
	case t.phase == viewHeld && t.goesOn():
		v.give()
	case t.phase == viewGiven:
		v.giveResults()
	}
}

func (v *TurnView) requestEnd(p *RequestEnd, at Position) {
	r := v.request
	v.request, v.lost = nil, nil
	if p.Status != StopCompleted && p.RetryInMS == 0 {
		v.lost = p
	}
	if r == nil || p.Status != StopCompleted {
		v.closeTurn() // there is none, unless the request's beginning was missed
		return
	}
	v.turn = &viewTurn{at: at, calls: r.calls}
	v.result.Turns++
	v.result.Messages = append(v.result.Messages, r.messages...)
	v.result.Output = r.text.String()
	if v.result.Output != "" {
		v.emit(TurnText, v.result.Output)
	}
}

func (v *TurnView) budgetExceeded(p *BudgetExceeded) {
	v.result.BudgetExceeded = true
	v.emit(TurnBudgetExceeded, &BudgetExceededInfo{
		Message: p.Amounts() + " are used",
		Used:    p.Used, Limit: p.Limit, Unit: p.Unit,
	})
}

func (v *TurnView) loopDetected(p *LoopDetected) {
	v.result.LoopDetected = true
	if v.turn != nil {
		v.turn.looped = true
	}
	v.emit(TurnLoopDetected, &LoopDetectionInfo{Kind: p.Repeated, Repetitions: p.Repetitions, Detail: p.Detail})
}

// closeTurn gives what is left of the turn and adds its outputs to the result.
func (v *TurnView) closeTurn() {
	if t := v.turn; t != nil {
		if t.phase != viewGiven {
			v.give()
		}
		for _, c := range t.calls[t.given:] {
			if c.output != nil { // those before have none and never will
				v.emit(TurnToolResult, newToolResultBlock(c.result()))
			}
		}
		v.keep(t, true)
	}
	v.turn = nil
	clear(v.calls)
}

// keep adds the turn's outputs to the result, and its calls if they were given.
func (v *TurnView) keep(t *viewTurn, given bool) {
	for _, c := range t.calls {
		if c.output == nil {
			continue
		}
		v.result.Messages = append(v.result.Messages, *c.output)
		if given {
			o := c.result()
			v.result.ToolCalls = append(v.result.ToolCalls, TaskToolCall{
				ID: c.call.ToolCallID, ToolName: c.call.Name, Input: inputOf(c.call.Arguments),
				Output: o.Output, IsError: failed(o),
			})
		}
	}
}

func (v *TurnView) taskEnd(p *TaskEnd) {
	if t := v.turn; t != nil && t.phase == viewHeld && p.Cause == CauseLoop {
		v.keep(t, false)
		v.turn = nil
	}
	v.closeTurn()
	r := &v.result
	r.TaskID, r.Success = p.TaskID, p.Status == StopCompleted
	// An abort alone says nothing of who wanted it: the engine ends a task that it gives up with one.
	r.Aborted = p.Cause == CauseUser || r.Aborted && p.Cause == "" && p.Status == StopAborted
	switch p.Cause {
	case CauseUser:
	case CauseMaxTurns:
		r.MaxTurns = true
	case CauseBudget:
		r.BudgetExceeded = true
	case CauseLoop:
		r.LoopDetected = true
	default:
		if !r.Success && !r.Aborted {
			v.failed(p)
			v.reset()
			return
		}
	}
	result := *r
	v.emit(TurnDone, &result)
	v.reset()
}

func (v *TurnView) failed(p *TaskEnd) {
	info := &TurnErrorInfo{Kind: cmp.Or(p.Cause, FaultEngine), Message: fmt.Sprintf("the task ended: %s", p.Status)}
	if e := p.ErrorInfo; e != nil {
		info = &TurnErrorInfo{
			Kind: e.Kind, Provider: e.Provider, Retryable: e.Retryable, StatusCode: e.StatusCode, Message: e.Message,
		}
	}
	v.out = append(v.out, TurnEvent{Type: TurnError, Data: &TaskFailure{TaskID: p.TaskID, Message: info.Message}, ErrorInfo: info})
}
