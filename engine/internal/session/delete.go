package session

import "braid/schemas"

// deletedReason is why the running task of a session that is deleted is aborted.
const deletedReason = "the session is deleted"

// refuseDelete says why the session can't be deleted now; nil if it can.
func (st *step) refuseDelete(b *schemas.DeleteBody) *schemas.Error {
	if st.Task != nil && !st.Deleting && (b == nil || !b.Force) {
		return schemas.Errorf(schemas.CodeTaskInProgress, "session %s runs a task: abort it first, or delete with force", st.Session.ID)
	}
	return nil
}

// deleteSession begins the session's end: its task is aborted, and what waits is taken back.
func (st *step) deleteSession(e CommandReceived) {
	already := st.Deleting || st.Task == nil || st.Task.Aborting
	st.applied(e, "")
	st.dropQueue()
	if !already {
		st.abort()
	}
}

// endSession says the session's last word, once no task runs.
func (st *step) endSession() {
	if st.Deleting && !st.Deleted && st.recovered && st.Task == nil {
		st.note(&schemas.SessionDeleted{CommandID: st.deleter})
	}
}
