package session

import "braid/schemas"

// This file takes a trace into the log, and says what becomes of commands meanwhile. What its messages mean
// is in import.go.

// imports reports that the session is being made of a trace: nothing else happens to it meanwhile.
func (s *State) imports() bool { return s.importing != nil || s.source != nil }

// importTrace takes up an import, from its beginning or where an owner before left it.
func (st *step) importTrace(e CommandReceived) {
	st.source = &e
	read := ReadTrace{Command: e.Sequence, Import: *e.Command.Import}
	if i := st.importing; i != nil {
		read.Settings, read.From = i.settings, i.taken
	}
	st.do(read)
}

// reads reports that the trace of that command is the one being read. What still comes of the trace of an
// import before it is ignored.
func (st *step) reads(command uint64) bool { return st.source != nil && st.source.Sequence == command }

// whileImporting takes a command that comes while the trace is on its way: it waits for the end of the
// import, or is its end.
func (st *step) whileImporting(e CommandReceived) {
	c := &e.Command
	switch ends := e.Refused == nil; {
	case ends && c.Type == schemas.CommandAbort:
		message := "the import was aborted"
		if why := abortReason(c); why != "" {
			message += ": " + why
		}
		st.endImport(schemas.Errorf(schemas.CodeAborted, "%s", message))
		if st.Task != nil { // of a session that was created behind it
			st.abortTask(e)
			return
		}
		st.applied(e, abortReason(c))
	case ends && c.Type == schemas.CommandDelete:
		st.Deleting, st.deleter = true, c.ID // what waits is refused
		st.endImport(schemas.Errorf(schemas.CodeDeleted, "the session was deleted before it was imported"))
		st.applied(e, "")
	default:
		st.held = append(st.held, e)
	}
}

// endImport ends the import, and any that waited behind it, refused. Everything that was asked before
// has its outcome then, in one frame with this one.
func (st *step) endImport(refused *schemas.Error) {
	for st.source != nil {
		st.importDone(refused)
	}
}

// traceRead appends the next messages of the trace, and behind the last what makes it whole: the
// end of its last task, and the outcome of the command, in one frame.
func (st *step) traceRead(e TraceRead) {
	if !st.reads(e.Command) {
		return
	}
	if st.importing == nil {
		st.emit(&schemas.SessionImported{
			Messages: e.Facts.Messages, Visible: e.Facts.Visible, Settings: e.Settings,
			CommandID: st.source.Command.ID, Sequence: st.source.Sequence,
		})
	}
	i := st.importing
	for _, m := range e.Messages[min(max(0, i.taken-e.From), len(e.Messages)):] {
		if i.left.Refuses(m) { // readers would take it for the import's own
			st.importDone(schemas.Errorf(schemas.CodeInvalid, "the trace holds an outcome like that of its import: import it by a command of another id"))
			return
		}
		st.append(m)
	}
	if i.left.Left > 0 {
		return
	}
	st.closeTrace()
	st.importDone(nil)
}

// importDone gives the import its outcome, applied or refused as refused says, and then takes the commands
// that have waited for its end.
func (st *step) importDone(refused *schemas.Error) {
	source, waiting := st.source, st.held
	st.source, st.held = nil, nil
	outcome := schemas.CommandOutcome{Code: schemas.CodeApplied}
	if refused != nil {
		outcome.Code, outcome.Message, outcome.Field = refused.Code, refused.Message, refused.Field
	}
	st.answer(*source, &outcome)
	st.do(DropTrace{Trace: source.Command.Import.Trace, Before: source.Time})
	for _, e := range waiting {
		st.command(e)
	}
}

// closeTrace ends the last task of a trace that does not say how it ended. One that was cut off in
// the middle of a turn ends as if it had failed there, unless somebody had asked for its end.
func (st *step) closeTrace() {
	i := st.importing
	var r *Request
	if st.Task != nil {
		r = st.Task.Request
	}
	switch {
	case !i.begun:
	case i.aborted:
		st.emit(&schemas.TaskEnd{Status: schemas.StopAborted, Cause: schemas.CauseUser})
	case r == nil || !r.last() || len(i.inputs) > 0:
		st.cutOff()
	case r.Status != schemas.StopCompleted:
		st.emit(&schemas.TaskEnd{Status: r.Status, Cause: r.Failure.Kind, ErrorInfo: r.Failure})
	case st.Committed == len(st.Context):
		st.emit(&schemas.TaskEnd{Status: schemas.StopCompleted, Cause: schemas.CauseDone})
	default: // a prompt stands behind it
		st.cutOff()
	}
}

// cutOff ends a task in the middle of a turn. Nobody will ever know what became of calls that have
// no output.
func (st *step) cutOff() {
	if t := st.Task; t != nil && t.Request != nil {
		r := t.Request
		if r.Open {
			st.emit(&schemas.RequestEnd{Status: schemas.StopAborted, Attempt: r.Attempt})
		}
		for _, c := range r.Calls {
			if c.running() {
				st.emit(schemas.NewToolCallOutput(st.importing.original(c.ToolCallID), unknownOutput, schemas.StopAborted))
			}
		}
	}
	st.emit(&schemas.Abort{Reason: "the imported trace ends in the middle of this task"})
	st.emit(&schemas.TaskEnd{Status: schemas.StopAborted, Cause: schemas.CauseImport})
}

// unknownOutput is what the model reads of a call whose output the trace does not have.
const unknownOutput = "[the record ends before the output of this call; its outcome is unknown]"

// original is the trace's id of a call.
func (i *importing) original(own string) string {
	for theirs, id := range i.ids {
		if id == own {
			return theirs
		}
	}
	return own
}
