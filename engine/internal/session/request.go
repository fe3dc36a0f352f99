package session

import (
	"time"

	"braid/schemas"
)

// The retry ladder of a route: five more attempts after the first, from 2 s, doubling, at most 30 s. A wait
// that the provider asks for replaces a shorter step, up to retryAfterMax. Whatever it is, jitter
// makes it longer by less than a retryJitter-th: sessions that were turned away together do not come
// back together, and none comes back before its time.
const (
	maxAttempts   = 6
	retryBase     = 2 * time.Second
	retryCeiling  = 30 * time.Second
	retryAfterMax = 5 * time.Minute
	retryJitter   = 4
)

// begin opens a request and has its model called. attempt counts the requests of the turn, from 1.
func (st *step) begin(attempt int, model string) {
	st.joinSteering()
	p := &schemas.RequestBegin{}
	if model != st.ownModel() {
		p.Model = model
	}
	if attempt > 1 {
		p.Attempt = attempt
	}
	st.emit(p)
	st.requests++
	st.Task.Request.ID = st.requests
	st.do(CallModel{Request: st.requests, Attempt: attempt, Model: model, Input: st.input(model)})
}

// current reports that a model call is that of the open request: what any other call still says is ignored.
func (st *step) current(request uint64) bool {
	return st.Task != nil && st.Task.Request != nil && st.Task.Request.Open && st.Task.Request.ID == request
}

// modelMessage appends what the model streams, under the engine's own call ids.
func (st *step) modelMessage(e ModelMessage) {
	if !st.current(e.Request) || st.Task.Aborting {
		return
	}
	r := st.Task.Request
	m := e.Message
	m.Origin, m.Scope = nil, schemas.ScopeAll
	switch p := m.Payload.(type) {
	case *schemas.PartialToolCall:
		own := *p
		own.ToolCallID = st.ownCallID(r, p.ToolCallID, p.EventType == schemas.PhaseStart)
		m.Payload = &own
	case *schemas.ToolCall:
		own := *p
		own.ToolCallID = st.ownCallID(r, p.ToolCallID, false)
		delete(r.ids, p.ToolCallID) // the next call under it is another one
		m.Payload = &own
	case *schemas.PartialText, *schemas.PartialThinking, *schemas.Text, *schemas.Thinking,
		*schemas.InlineThinking, *schemas.InlineData:
	default:
		return // nothing else is the model's to say
	}
	// A stop waits for its complete message, so that both share a frame and nothing of another
	// producer, nor the loss of the owner, comes between them.
	if phaseOf(m) == schemas.PhaseStop {
		r.stop = &m
		return
	}
	if r.stop != nil && !m.Partial() {
		st.append(*r.stop)
	}
	r.stop = nil
	st.append(m)
}

// phaseOf is the phase of a fragment of the model; empty for a complete message.
func phaseOf(m schemas.Message) schemas.Phase {
	switch p := m.Payload.(type) {
	case *schemas.PartialText:
		return p.EventType
	case *schemas.PartialThinking:
		return p.EventType
	case *schemas.PartialToolCall:
		return p.EventType
	}
	return ""
}

// ownCallID is the engine's id for a provider's. Providers repeat theirs, leave them empty, or
// use characters no subject can hold; a start always gets a new one.
func (st *step) ownCallID(r *Request, theirs string, start bool) string {
	if r.ids == nil {
		r.ids = map[string]string{}
	}
	if own, ok := r.ids[theirs]; ok && !start {
		return own
	}
	own := st.nextCallID()
	r.ids[theirs] = own
	return own
}

// modelEnded closes the request as its outcome says.
func (st *step) modelEnded(e ModelEnded) {
	if !st.current(e.Request) {
		return
	}
	switch {
	case st.Task.Aborting: // whatever the model says of it
		st.endAborted(e.Usage, e.Estimated)
	case e.Status == schemas.StopCompleted:
		st.closeSegment(schemas.StopMalformed) // an adapter that completes closes its segments
		end := &schemas.RequestEnd{Status: schemas.StopCompleted}
		if a := st.Task.Request.Attempt; a > 1 {
			end.Attempt = a
		}
		st.use(e.Usage, e.Estimated)
		st.emit(end)
		st.marks()
	default:
		st.failRequest(e)
	}
}

// failRequest ends the open request without committing it, and announces what follows.
func (st *step) failRequest(e ModelEnded) {
	st.closeSegment(e.Status)
	st.useIfAny(e.Usage, e.Estimated)
	failure := e.Failure
	if failure == nil {
		failure = &schemas.ErrorInfo{Kind: schemas.FaultProvider}
	}
	end := &schemas.RequestEnd{
		Status: e.Status, Attempt: st.Task.Request.Attempt, ErrorMessage: failure.Message, ErrorInfo: failure,
	}
	st.goOn(end, e.RetryAfter)
	st.emit(end)
	st.marks()
}

// retryDelay is the wait after the given step of a ladder, in whole milliseconds: what is announced is what
// is waited.
func retryDelay(tries int, asked time.Duration, jitter float64) time.Duration {
	delay := min(retryBase<<(tries-1), retryCeiling)
	delay = max(delay, min(asked, retryAfterMax))
	delay += time.Duration(jitter * float64(delay/retryJitter))
	return delay.Truncate(time.Millisecond)
}

// waitOn waits for what is left of a wait that an owner before had announced. Clocks of owners differ, but
// none makes it longer than it was.
func (st *step) waitOn(r *Request) {
	announced := time.Duration(r.RetryInMS) * time.Millisecond
	left := min(r.Ended.Add(announced).Sub(st.now), announced).Truncate(time.Millisecond)
	if left <= 0 {
		return
	}
	st.waiting = true
	st.do(WaitRetry{Request: r.ID, Delay: left})
}

// refuseRetry says why there is no wait to be cut short; nil if there is one.
func (st *step) refuseRetry() *schemas.Error {
	switch {
	case st.Task == nil:
		return schemas.Errorf(schemas.CodeNotRunning, "session %s runs no task", st.Session.ID)
	case st.Task.Aborting || !st.waiting:
		return schemas.Errorf(schemas.CodeNotPending, "session %s does not wait to try again", st.Session.ID)
	}
	return nil
}

// closeSegment ends the open segment with what was streamed of it.
func (st *step) closeSegment(reason schemas.StopReason) {
	r := st.Task.Request
	seg := r.Segment
	r.stop = nil
	if seg == nil {
		return
	}
	text := seg.Text.String()
	if r.torn {
		text += "\n[part of this message may be lost]"
	}
	for _, p := range seg.closing(text, reason) {
		st.emit(p)
	}
}

// closing are the messages that close the segment, its stop and its complete message, both with the reason.
func (seg *Segment) closing(text string, reason schemas.StopReason) []schemas.Payload {
	switch seg.Of {
	case schemas.KindText:
		stop, p := schemas.TextFragment(schemas.PhaseStop, ""), schemas.AssistantText(text)
		stop.StopReason, p.StopReason = reason, reason
		return []schemas.Payload{stop, p}
	case schemas.KindThinking:
		stop, p := schemas.ThinkingFragment(schemas.PhaseStop, ""), schemas.AssistantThinking(text)
		stop.StopReason, p.StopReason = reason, reason
		return []schemas.Payload{stop, p}
	case schemas.KindToolCall:
		stop := schemas.ToolCallFragment(schemas.PhaseStop, seg.ToolCallID, "", "")
		p := schemas.NewToolCall(seg.ToolCallID, seg.Name, text)
		stop.StopReason, p.StopReason = reason, reason
		return []schemas.Payload{stop, p}
	}
	return nil
}
