package session

import "braid/schemas"

// The first call that works on the session's files says where they are from then on. Until one has
// started, such calls go one at a time, in the order in which they were allowed: two at once could
// start in two places. The order is in the log, so that the next owner holds back the same ones.

// startTool sends an allowed call on its way, or back to where it was, unless it must wait for
// another to say where the files are.
func (st *step) startTool(c *Call, resumed bool) {
	if st.heldBack(c) {
		return
	}
	c.sent = true
	start := StartTool{
		Call: *c.ToolCall, Definition: st.Tools[c.Name], Workspace: st.Meta.Workspace, Resumed: resumed,
		Attempt: c.Attempt, Offset: c.Offset,
	}
	if start.Definition.Workspace {
		start.Bound = st.Bound
	}
	st.do(start)
}

// heldBack reports that another call, allowed earlier, may be about to say where the files are. In a task
// that is being aborted nothing is held back: what is sent is cancelled right away.
func (st *step) heldBack(c *Call) bool {
	if st.Bound != nil || st.Task.Aborting || !st.Tools[c.Name].Workspace {
		return false
	}
	for _, other := range st.Task.Request.Calls {
		if other.running() && other.order < c.order && st.Tools[other.Name].Workspace {
			return true
		}
	}
	return false
}

// toolStarted binds the session to the place where the first call on its files has started.
func (st *step) toolStarted(e ToolStarted) {
	c := st.call(e.ToolCallID)
	if c == nil || !c.running() || st.Bound != nil || !st.Tools[c.Name].Workspace {
		return
	}
	st.emit(&schemas.WorkspaceBound{Toolrunner: e.Toolrunner, Volume: e.Volume})
	st.startHeldBack()
}

// startHeldBack sends the calls that were held back and need not wait any more.
func (st *step) startHeldBack() {
	if st.Task == nil || st.Task.Request == nil {
		return
	}
	for _, c := range st.Task.Request.Calls {
		if c.running() && !c.sent {
			st.startTool(c, true)
		}
	}
}
