package session

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"braid/schemas"
)

// importing is a trace on its way into the log: how far it has come, and what its messages mean.
// They are folded apart from the session's own: what stands in a trace from elsewhere commits no
// command, changes no setting and begins nothing.
type importing struct {
	settings   *schemas.SessionMeta // what the session runs on from there
	left       schemas.Imported     // messages of the trace that are not in the log
	taken      int                  // those that are
	model      string               // who said the next messages, unless their request says otherwise
	nested     []nested             // imports that the trace itself holds, one in the other
	compacting bool
	steering   bool              // the next prompt belongs to the task that runs
	inputs     []schemas.Message // prompts that came while a request ran, or its tools
	begun      bool              // something stands behind the last task_end
	aborted    bool              // the last thing was an abort

	ids  map[string]string // the trace's call ids to those of the context, the newest
	used map[string]bool   // ids of the context
}

// nested is an import within the trace.
type nested struct {
	schemas.Imported
	after string // who said the messages behind it
}

// nest counts the message off the imports within the trace. It reports that one of them was refused
// there.
func (i *importing) nest(m schemas.Message) (refused bool) {
	for n := range i.nested {
		if refused = i.nested[n].Refuses(m); !refused && i.nested[n].Take(m, schemas.ViewRecorded) {
			continue
		}
		i.model = i.nested[n].after
		i.nested = i.nested[:n]
		break
	}
	if p, ok := m.Payload.(*schemas.SessionImported); ok {
		inner := nested{after: modelOf(&p.Settings)}
		inner.Take(m, schemas.ViewRecorded)
		i.nested = append(i.nested, inner)
	}
	return refused
}

// Imported reports that the message, which is the next of the log, belongs to an imported trace.
func (s *State) Imported(m schemas.Message) bool {
	return s.importing != nil && s.importing.left.Has(m)
}

// Importing reports that the import of that sequence has begun to be stored, and has no outcome yet.
func (s *State) Importing(sequence uint64) bool {
	return s.importing != nil && s.importing.left.Sequence == sequence
}

// applyImport opens an import: nothing that was before it counts.
func (s *State) applyImport(m schemas.Message, p *schemas.SessionImported) {
	s.importing = &importing{settings: &p.Settings, ids: map[string]string{}, used: map[string]bool{}}
	s.importing.left.Take(m, schemas.ViewRecorded)
	s.forget()
}

// forget makes nothing of what was imported: it came to nothing, or another import begins.
func (s *State) forget() {
	s.Context, s.Committed, s.Refused, s.Said, s.Task, s.Usage = nil, 0, false, nil, nil, schemas.TokenCounts{}
	if i := s.importing; i != nil {
		i.inputs, i.begun, i.aborted, i.steering = nil, false, false, false
		i.ids, i.used = map[string]string{}, map[string]bool{}
	}
}

// importEnded closes the import by the outcome of its command: it made the session, or nothing.
func (s *State) importEnded(code schemas.Code) {
	i := s.importing
	s.takeInputs()
	s.importing = nil
	if code == schemas.CodeApplied {
		s.Meta, s.Mode = i.settings, i.settings.ApprovalMode
		return
	}
	s.forget()
}

// applyImported folds a message of the trace. Prompts reach the model with the next request, as
// they did: also those that came while a request ran, or its tools.
func (s *State) applyImported(m schemas.Message) {
	i := s.importing
	i.left.Take(m, schemas.ViewRecorded)
	i.taken++
	if i.nest(m) {
		s.forget()
	}
	if i.compacting && s.skipCompaction(m) {
		return
	}
	switch p := m.Payload.(type) {
	case *schemas.CommandOutcome:
		if s.Task != nil && p.Command == schemas.CommandAbort && p.Code == schemas.CodeApplied {
			s.Task.Aborting = true
		}
	case *schemas.Checkpoint, *schemas.OwnerChanged, *schemas.SessionChanged,
		*schemas.ToolListReady, *schemas.MCPConnectBegin, *schemas.MCPConnectEnd,
		*schemas.TaskQueued, *schemas.WorkspaceBound:
	case *schemas.TaskDequeued:
		i.steering = p.Cause == schemas.DequeuedSteering
	case *schemas.SessionImported:
		s.forget()
	case *schemas.SessionMeta:
		i.model = modelOf(p)
	case *schemas.CompactionBegin:
		i.compacting = true
	case *schemas.TokenUsage:
		s.Usage = p.Session
	case *schemas.RequestBegin:
		s.openImported()
		own := *p
		own.Model = cmp.Or(p.Model, i.model)
		s.beginRequest(&own)
		s.takeInputs()
	case *schemas.Abort:
		i.begun, i.aborted = true, true
	case *schemas.TaskEnd:
		i.begun, i.aborted, i.steering = false, false, false
		s.endImported(askedFor(p))
	default:
		if roleOf(m.Payload) == schemas.RoleUser {
			s.importedPrompt(m)
			return
		}
		s.applyModel(s.translate(m))
	}
}

// askedFor reports that somebody wanted the task to end. What an import cut off nobody did, nor what ended by
// a failure, of whatever status.
func askedFor(p *schemas.TaskEnd) bool {
	return p.Status == schemas.StopAborted && p.Cause != schemas.CauseImport && p.ErrorInfo == nil
}

// skipCompaction takes a message inside a compaction. One that completed is not imported, so the
// context stands as it is; only what was used counts.
func (s *State) skipCompaction(m schemas.Message) bool {
	switch p := m.Payload.(type) {
	case *schemas.TokenUsage:
		s.Usage = p.Session
	case *schemas.CompactionEnd:
		s.importing.compacting = false
	case *schemas.Abort, *schemas.TaskEnd:
		s.importing.compacting = false
		return false
	}
	return true
}

// importedPrompt takes what somebody said to the model. Behind a turn that needs no answer more it
// opens the next task, whether the trace says so or not.
func (s *State) importedPrompt(m schemas.Message) {
	i := s.importing
	if t := s.Task; t != nil && t.Request != nil && t.Request.last() && !i.steering {
		s.endTask()
	}
	i.steering = false
	s.openImported()
	switch r := s.Task.Request; {
	case r == nil:
	case r.Open || !r.quiet():
		i.inputs = append(i.inputs, m)
		return
	default:
		s.closeRequest()
	}
	s.Context = append(s.Context, m)
}

// last reports that no request follows by itself.
func (r *Request) last() bool {
	if r.Status == schemas.StopCompleted {
		return len(r.Calls) == 0
	}
	return !r.Open && r.RetryInMS == 0 && r.Fallback == ""
}

func (s *State) takeInputs() {
	s.Context = append(s.Context, s.importing.inputs...)
	s.importing.inputs = nil
}

// openImported takes note that something of a task follows. A trace that says nothing else than abort
// of the end of a task has come to the next one.
func (s *State) openImported() {
	i := s.importing
	if i.aborted {
		s.endImported(true)
	}
	i.begun, i.aborted = true, false
	if s.Task == nil {
		s.Task = &Task{}
	}
}

// endImported ends the task of the trace: what it leaves for the next one is what a task of our own
// would.
func (s *State) endImported(aborted bool) {
	if t := s.Task; t != nil {
		t.Aborting = t.Aborting || aborted
		if t.Request != nil && len(s.importing.inputs) > 0 {
			s.closeRequest()
		}
	}
	s.takeInputs()
	s.endTask()
}

// translate returns the message as the context has it: with a call id that is a name and names one
// call. The log keeps what came.
func (s *State) translate(m schemas.Message) schemas.Message {
	i := s.importing
	switch p := m.Payload.(type) {
	case *schemas.ToolCall:
		own := *p
		own.ToolCallID = i.newID(p.ToolCallID)
		s.stepOver(p.ToolCallID)
		m.Payload = &own
	case *schemas.ToolCallOutput:
		own := *p
		own.ToolCallID = cmp.Or(i.ids[p.ToolCallID], p.ToolCallID)
		m.Payload = &own
	case *schemas.ApprovalDecision:
		own := *p
		own.ToolCallID = cmp.Or(i.ids[p.ToolCallID], p.ToolCallID)
		m.Payload = &own
	}
	return m
}

func (i *importing) newID(theirs string) string {
	own := theirs
	for n := 1; !schemas.ValidName(own) || i.used[own]; n++ {
		own = fmt.Sprintf("i%d-%d", len(i.used), n)
	}
	i.ids[theirs], i.used[own] = own, true
	return own
}

// stepOver keeps the ids that this session gives out apart from one of the trace that has their shape.
func (s *State) stepOver(id string) {
	_, number, ok := strings.Cut(id, "-")
	if n, err := strconv.Atoi(number); ok && err == nil && n < maxForeignCalls {
		s.foreignCalls = max(s.foreignCalls, n)
		s.calls = max(s.calls, n)
	}
}

// maxForeignCalls bounds the numbers that are stepped over. No session ever comes to that one.
const maxForeignCalls = 1 << 40
