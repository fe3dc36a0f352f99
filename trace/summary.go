package trace

import (
	"cmp"
	"slices"

	"braid/schemas"
)

// State says what a session is doing, as far as its messages tell, in the words that clients know.
type State string

// The states.
const (
	// StateIdle: no task is open.
	StateIdle State = "idle"
	// StateRunning: a task is open, or the context is being compacted.
	StateRunning State = "running"
	// StateWaiting: the task waits for a person to decide on a tool call.
	StateWaiting State = "waiting"
)

// titleLength is how much of the first prompt becomes the title, in characters.
const titleLength = 120

// summary is what is known of a session without its messages. It is a fold over them: each
// message is taken once, in order, and costs the same however many came before. It holds only
// what stays small; what it must name at length it names by position.
type summary struct {
	// Created and Active are the broker's times of the first and the last frame, in Unix
	// milliseconds.
	Created int64 `json:"created"`
	Active  int64 `json:"active"`

	Model string `json:"model,omitzero"` // "provider/model"
	// Fallbacks stand in for it; Asked is the one that the newest request went to, if it was one.
	Fallbacks []string `json:"fallbacks,omitzero"`
	Asked     string   `json:"asked,omitzero"`

	Agent string `json:"agent,omitzero"`
	Title string `json:"title,omitzero"`

	Mode              schemas.ApprovalMode `json:"mode,omitzero"` // in force
	Limits            schemas.Limits       `json:"limits,omitzero"`
	ApprovalTimeoutMS int64                `json:"approval_timeout_ms,omitzero"`

	Open       bool               `json:"open,omitzero"`       // a task is
	Compacting bool               `json:"compacting,omitzero"` // inside a compaction span
	TaskStatus schemas.StopReason `json:"task_status,omitzero"`
	TaskCause  string             `json:"task_cause,omitzero"`
	Pending    []pending          `json:"pending,omitzero"`
	Queue      []queued           `json:"queue,omitzero"`

	Imported  schemas.Imported `json:"imported,omitzero"`  // what is still to come of an imported trace
	Importing bool             `json:"importing,omitzero"` // until the import has its outcome

	Deleted bool `json:"deleted,omitzero"` // its end is recorded; the tombstone follows

	Usage    schemas.TokenCounts `json:"usage,omitzero"`
	Tasks    int64               `json:"tasks,omitzero"`
	Turns    int64               `json:"turns,omitzero"`
	Messages int64               `json:"messages,omitzero"`
}

// pending is an approval request without decision: the call, and where the request stands.
type pending struct {
	Call string           `json:"call"`
	At   schemas.Position `json:"at"`
}

// queued is a task that waits, and where it says so.
type queued struct {
	Task string           `json:"task"`
	At   schemas.Position `json:"at"`
}

// touch takes note of a frame. Active never goes back, even if the broker's clock does.
func (s *summary) touch(millis int64) {
	if s.Created == 0 {
		s.Created = millis
	}
	s.Active = max(s.Active, millis)
}

// fold takes the next recorded message. What an imported trace says counts as if it had happened
// here, but for what the session runs on.
func (s *summary) fold(at schemas.Position, m schemas.Message, imported bool) {
	s.Messages++
	if imported && ofAnother(m) {
		return
	}
	switch p := m.Payload.(type) {
	case *schemas.SessionImported:
		s.runsOn(&p.Settings)
		s.Importing = true
	case *schemas.CommandOutcome:
		s.foldImportEnd(p)
	case *schemas.SessionMeta:
		s.runsOn(p)
	case *schemas.SessionChanged:
		if p.ApprovalMode != "" {
			s.Mode = p.ApprovalMode
		}
	case *schemas.Text, *schemas.ImageURL, *schemas.InlineData:
		s.foldPrompt(m)
	case *schemas.RequestBegin:
		// Nothing waits across the beginning of a request.
		s.Pending = nil
		s.Open = s.Open || !s.Compacting
		s.Asked = p.Model
	case *schemas.RequestEnd:
		s.foldRequestEnd(p)
	case *schemas.ApprovalRequest:
		s.Pending = append(s.Pending, pending{Call: p.ToolCallID, At: at})
	case *schemas.ApprovalDecision:
		s.Pending = slices.DeleteFunc(s.Pending, func(w pending) bool { return w.Call == p.ToolCallID })
	case *schemas.TokenUsage:
		s.Usage = p.Session
		s.Usage.Extra = nil
	case *schemas.CompactionBegin:
		s.Compacting = true
	case *schemas.CompactionEnd:
		s.Compacting = false
	case *schemas.Abort:
		s.Pending = nil
	case *schemas.TaskQueued:
		s.Queue = append(s.Queue, queued{Task: p.TaskID, At: at})
	case *schemas.TaskDequeued:
		s.Queue = slices.DeleteFunc(s.Queue, func(q queued) bool { return q.Task == p.TaskID })
	case *schemas.TaskEnd:
		s.foldTaskEnd(p)
	case *schemas.SessionDeleted:
		s.Deleted = true
	}
}

// runsOn takes what the session runs on from here.
func (s *summary) runsOn(p *schemas.SessionMeta) {
	s.Model, s.Fallbacks, s.Agent = p.Provider+"/"+p.ModelID, p.FallbackModels, p.Agent
	s.Mode, s.Limits, s.ApprovalTimeoutMS = p.ApprovalMode, p.Limits, p.ApprovalTimeoutMS
}

// foldImportEnd takes the outcome of an import. One that failed left nothing but its time: the session
// is as it was before, with no messages that count.
func (s *summary) foldImportEnd(p *schemas.CommandOutcome) {
	if !s.Importing || p.Command != schemas.CommandImport {
		return
	}
	if s.Importing = false; p.Code != schemas.CodeApplied {
		*s = summary{Created: s.Created, Active: s.Active, Messages: s.Messages}
	}
}

// ofAnother reports that a message of an imported trace is about the session it was, not about the
// one that it became.
func ofAnother(m schemas.Message) bool {
	switch m.Payload.(type) {
	case *schemas.SessionImported, *schemas.SessionMeta, *schemas.SessionChanged, *schemas.CommandOutcome,
		*schemas.TaskQueued, *schemas.TaskDequeued, *schemas.SessionDeleted:
		return true
	}
	return false
}

// foldPrompt opens a task at a prompt; the first words name the session.
func (s *summary) foldPrompt(m schemas.Message) {
	if s.Compacting || !m.Prompt() {
		return
	}
	s.Open, s.Asked = true, ""
	if p, ok := m.Payload.(*schemas.Text); ok && s.Title == "" {
		s.Title = firstRunes(p.Text, titleLength)
	}
}

// foldRequestEnd counts a committed turn. A request that ends otherwise withdraws its undecided
// calls, and no others can be waiting.
func (s *summary) foldRequestEnd(p *schemas.RequestEnd) {
	if p.Status != schemas.StopCompleted {
		s.Pending = nil
	} else if !s.Compacting {
		s.Turns++
	}
}

func (s *summary) foldTaskEnd(p *schemas.TaskEnd) {
	s.Open, s.Compacting, s.Pending = false, false, nil
	s.TaskStatus, s.TaskCause = p.Status, p.Cause
	s.Tasks++
}

// asked is the model that the newest request went to.
func (s *summary) asked() string { return cmp.Or(s.Asked, s.Model) }

// active is that model while a task is open, if it is not the session's own.
func (s *summary) active() string {
	if !s.Open {
		return ""
	}
	return s.Asked
}

// state is what the session is doing.
func (s *summary) state() State {
	switch {
	case len(s.Pending) > 0 && !s.Importing:
		return StateWaiting
	case s.Open || s.Compacting || s.Importing:
		return StateRunning
	}
	return StateIdle
}

// firstRunes returns the first n characters of text.
func firstRunes(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}
