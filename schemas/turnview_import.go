package schemas

// imports counts off an imported trace, and ends its tasks where the trace does not say so: traces
// from elsewhere have no task_end, and a prompt that follows a finished turn begins the next task.
func (v *TurnView) imports(m Message) {
	if !m.Visible() {
		if !v.imported.Has(m) {
			v.imported.Left = 0 // its import was refused
		}
		return
	}
	if !v.imported.Take(m, ViewStream) || !prompt(m) || len(m.Origin) > 0 || v.compacting {
		return
	}
	switch {
	case v.result.Aborted:
		v.taskEnd(&TaskEnd{Status: StopAborted, Cause: CauseUser})
	case v.request != nil: // it steers the task
	case v.lost != nil:
		v.taskEnd(&TaskEnd{Status: v.lost.Status, Cause: "provider", ErrorInfo: &ErrorInfo{
			Kind: "provider", Message: v.lost.ErrorMessage,
		}})
	case v.turn != nil && len(v.turn.calls) == 0:
		v.taskEnd(&TaskEnd{Status: StopCompleted, Cause: CauseDone})
	}
}
