package session

import "braid/schemas"

// takenOver continues a session from its log. The row of each situation:
//
//	request open                      close its segment, count what it used as estimated, end it as
//	                                  timed out, climb the ladder
//	request ended, retry announced    wait for what is left, unless a person had cut the wait short
//	calls allowed, without output     find out what became of them
//	calls undecided                   of a live request: advance resumes the approval queue
//	abort begun                       cancel what still runs
//	outputs complete, no next request advance begins it
//
// A segment or an output of which fragments have expired goes on with a mark that says so, and
// owner_changed tells readers that it need not add up. Whatever is still being streamed gets a
// checkpoint at once: that of the owner before may be about as old as fragments can be.
func (st *step) takenOver(e TakenOver) {
	st.recovered = true
	t := st.Task
	if t == nil || st.imports() { // the command of an import comes again: it has no outcome
		return
	}
	r := t.Request
	if e.From != "" {
		st.emit(&schemas.OwnerChanged{From: e.From, To: e.To, Cause: e.Cause, Gap: r != nil && r.gapped()})
	}
	if r == nil {
		return
	}
	switch {
	case r.Hurried: // its wait is over
	case r.Open && t.Aborting:
		st.endAborted(e.Lost, true)
	case r.Open:
		message := "the engine that ran the request was lost"
		if e.Cause == schemas.OwnerLetGo {
			message = "the engine that ran the request was stopped"
		}
		st.failRequest(ModelEnded{
			Status: schemas.StopTimeout, Usage: e.Lost, Estimated: true,
			Failure: &schemas.ErrorInfo{Kind: schemas.FaultEngine, Message: message, Retryable: true},
		})
	case r.RetryInMS > 0 && !t.Aborting:
		st.waitOn(r)
	}
	for _, c := range r.Calls {
		if !c.running() {
			continue
		}
		if c.torn && c.Streaming {
			st.delta(c, "\n[part of the output before this may be lost]\n", c.Offset)
		}
		st.startTool(c, true)
		if t.Aborting {
			st.do(CancelTool{ToolCallID: c.ToolCallID})
		}
	}
	st.checkpoint()
}

// checkpoint records everything that is being streamed, if anything is, so that a takeover never depends on
// fragments that have expired.
func (st *step) checkpoint() {
	if !st.Busy() {
		return
	}
	p := &schemas.Checkpoint{}
	r := st.Task.Request
	if seg := r.Segment; seg != nil {
		p.Segment = &schemas.OpenSegment{Of: seg.Of, Text: seg.Text.String(), Name: seg.Name, ToolCallID: seg.ToolCallID}
	}
	for _, c := range r.Calls {
		if c.Streaming {
			p.Outputs = append(p.Outputs, schemas.OpenOutput{
				ToolCallID: c.ToolCallID, Attempt: c.Attempt, Offset: c.Offset, Text: c.Text.String(),
			})
		}
	}
	st.note(p)
}
