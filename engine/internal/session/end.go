package session

import "braid/schemas"

// abortTask takes the abort of the running task.
func (st *step) abortTask(e CommandReceived) {
	already := st.Task.Aborting
	st.applied(e, abortReason(&e.Command))
	if e.Command.Abort != nil && e.Command.Abort.DropQueue {
		st.dropQueue()
	}
	if !already {
		st.abort()
	}
}

func abortReason(c *schemas.Command) string {
	if c.Abort == nil {
		return ""
	}
	return c.Abort.Reason
}

// abort ends the task as soon as what runs has been ended, the model and the tools, each within the
// bound that canceling it has. The model's last word is what it used.
func (st *step) abort() {
	st.waiting = false
	r := st.Task.Request
	if r == nil {
		return
	}
	if r.Open {
		st.do(StopModel{Request: r.ID})
		st.closeSegment(schemas.StopAborted)
	}
	st.startHeldBack() // or nobody would settle them
	for _, c := range r.Calls {
		if c.running() {
			st.do(CancelTool{ToolCallID: c.ToolCallID})
		}
	}
}

// endAborted ends the open request of an aborted task.
func (st *step) endAborted(used schemas.TokenCounts, estimated bool) {
	st.closeSegment(schemas.StopAborted)
	st.useIfAny(used, estimated)
	st.emit(&schemas.RequestEnd{Status: schemas.StopAborted, Attempt: st.Task.Request.Attempt})
	st.marks()
}

// finishAbort closes the task once the model has ended and every decided call has its output.
func (st *step) finishAbort() {
	t := st.Task
	if r := t.Request; r != nil {
		if r.Open {
			return
		}
		for _, c := range r.Calls {
			if c.running() {
				return
			}
		}
	}
	st.emit(&schemas.Abort{Reason: t.AbortReason})
	st.endTask(&schemas.TaskEnd{Status: schemas.StopAborted, Cause: schemas.CauseUser})
}

// gaveUp ends the task as failed for a reason of the engine's own, or as aborted if somebody has aborted
// it. Nothing is left unpaired: what runs is cancelled, and its outcome said to be unknown. A call that
// this owner has not taken up is taken up to be cancelled: one that still waits for a toolrunner would
// start after the task's end.
func (st *step) gaveUp(e GaveUp) {
	t := st.Task
	if t == nil || st.imports() {
		return
	}
	st.waiting = false
	why := &schemas.ErrorInfo{Kind: schemas.FaultEngine, Message: e.Message}
	if r := t.Request; r != nil {
		if r.Open {
			st.giveUpRequest(e, why)
		}
		for _, c := range r.Calls {
			if c.running() {
				st.startTool(c, true)
				st.do(CancelTool{ToolCallID: c.ToolCallID})
				st.toolEnded(ToolEnded{ToolCallID: c.ToolCallID, Attempt: c.Attempt, Result: schemas.ToolResult{
					Output: "[" + e.Message + "; the outcome of the call is unknown]", Appends: true, StopReason: schemas.StopFailed,
				}})
			}
		}
	}
	if t.Aborting {
		st.finishAbort()
		return
	}
	st.emit(&schemas.Abort{Reason: e.Message})
	st.endTask(&schemas.TaskEnd{Status: schemas.StopFailed, Cause: schemas.FaultEngine, ErrorInfo: why})
}

// giveUpRequest ends the open request of a task that the engine gives up.
func (st *step) giveUpRequest(e GaveUp, why *schemas.ErrorInfo) {
	r := st.Task.Request
	st.do(StopModel{Request: r.ID})
	if st.Task.Aborting {
		st.endAborted(e.Lost, true)
		return
	}
	st.closeSegment(schemas.StopFailed)
	st.useIfAny(e.Lost, true)
	st.emit(&schemas.RequestEnd{Status: schemas.StopFailed, ErrorMessage: e.Message, Attempt: r.Attempt, ErrorInfo: why})
	st.marks()
}
