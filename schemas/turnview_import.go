package schemas

import "cmp"

// imports counts off an imported trace, and ends its tasks where the trace does not say so: traces
// from elsewhere have no task_end, and a prompt that follows a finished turn begins the next task.
func (v *TurnView) imports(m Message) {
	if !m.Visible() {
		return
	}
	// Also within the trace: it may hold such an import itself.
	if p, ok := m.Payload.(*CommandOutcome); ok && len(m.Origin) == 0 && p.Code != CodeApplied && (p.Command == CommandImport || v.imported.Refuses(m)) {
		v.refused(p)
	}
	if !v.imported.Take(m, ViewStream) || !prompt(m) || len(m.Origin) > 0 || v.compacting {
		return
	}
	switch {
	case v.result.Aborted:
		v.taskEnd(&TaskEnd{Status: StopAborted, Cause: CauseUser})
	case v.request != nil: // it steers the task
	case v.lost != nil:
		v.taskEnd(&TaskEnd{Status: v.lost.Status, Cause: FaultProvider, ErrorInfo: &ErrorInfo{
			Kind: FaultProvider, Message: v.lost.ErrorMessage,
		}})
	case v.turn != nil && len(v.turn.calls) == 0:
		v.taskEnd(&TaskEnd{Status: StopCompleted, Cause: CauseDone})
	}
}

// refused ends what was shown of a task of a trace whose import has come to nothing.
func (v *TurnView) refused(p *CommandOutcome) {
	if r := &v.result; v.request == nil && v.turn == nil && v.lost == nil && r.Turns == 0 && !r.Aborted {
		return
	}
	v.failed(&TaskEnd{Status: StopAborted, Cause: CauseImport, ErrorInfo: &ErrorInfo{
		Kind: CauseImport, Message: cmp.Or(p.Message, "the import came to nothing"),
	}})
	v.reset()
}
