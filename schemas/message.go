package schemas

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Type is the class of a message, the envelope's "type".
type Type string

// The three classes of messages.
const (
	// TypeSessionMeta opens a model context: what it runs on.
	TypeSessionMeta Type = "session_meta"
	// TypeModel is something the model sees or says.
	TypeModel Type = "model_msg"
	// TypeEvent is something that happened around the model.
	TypeEvent Type = "event_msg"
)

// Scope says where a message is visible.
type Scope string

const (
	// ScopeAll is the default: the message is in the stream and in the trace.
	ScopeAll Scope = ""
	// ScopeTrace marks a message that is kept, but is no part of the stream that watchers
	// see: the prompt (its sender has it), session_meta, command outcomes, checkpoints.
	ScopeTrace Scope = "trace"
)

// Message is one envelope. It is immutable once built.
type Message struct {
	// Timestamp is when the message was made: RFC 3339, UTC, milliseconds. It informs people;
	// nothing is ever ordered by it. It is kept as text so that imported traces come back
	// out exactly as they went in.
	Timestamp string
	// Type is the message's class. It always fits the payload.
	Type Type
	// Payload is the content, never nil in a decoded message.
	Payload Payload
	// Origin is empty for the session's own messages, else the chain of child sessions the
	// message came through, the outermost first.
	Origin []string
	// Scope limits visibility; empty means stream and trace.
	Scope Scope
	// Extra holds the envelope members this version does not know, as one JSON object.
	Extra jsontext.Value
}

// timestampLayout is RFC 3339 with exactly three decimals.
const timestampLayout = "2006-01-02T15:04:05.000Z"

// FormatTime renders an instant the way envelopes carry it.
func FormatTime(t time.Time) string { return t.UTC().Format(timestampLayout) }

// Time parses the timestamp; the zero time if it is not a time.
func (m Message) Time() time.Time {
	t, err := time.Parse(time.RFC3339Nano, m.Timestamp)
	if err != nil {
		return time.Time{}
	}
	return t
}

// New wraps a payload in an envelope.
func New(now time.Time, p Payload) Message {
	return Message{Timestamp: FormatTime(now), Type: typeOf(p), Payload: p}
}

// NewTraceOnly wraps a payload in an envelope of scope "trace".
func NewTraceOnly(now time.Time, p Payload) Message {
	m := New(now, p)
	m.Scope = ScopeTrace
	return m
}

// Kind is the payload's kind.
func (m Message) Kind() Kind {
	if m.Payload == nil {
		return ""
	}
	return m.Payload.Kind()
}

// Partial reports whether the message is a streamed fragment of a complete one.
func (m Message) Partial() bool {
	switch m.Payload.(type) {
	case *PartialText, *PartialThinking, *PartialToolCall, *PartialToolCallOutput:
		return true
	}
	return false
}

// Recorded reports whether the trace keeps the message: everything but fragments and the
// messages of child sessions, which have traces of their own.
func (m Message) Recorded() bool { return !m.Partial() && len(m.Origin) == 0 }

// Visible reports whether the message is part of the stream that watchers see.
func (m Message) Visible() bool { return m.Scope != ScopeTrace }

// WithOrigin returns the message as its parent session forwards it: child prepended to the
// chain. The receiver is unchanged.
func (m Message) WithOrigin(child string) Message {
	origin := make([]string, 0, len(m.Origin)+1)
	m.Origin = append(append(origin, child), m.Origin...)
	return m
}

// Position is the place of a message in its session: the broker sequence of its frame and its
// line in it, from 0. Positions of one session are totally ordered and never reused.
type Position struct {
	Sequence uint64 `json:"sequence"`
	Line     int    `json:"line"`
}

// wholeFrame is a line after all lines of a frame.
const wholeFrame = 1<<31 - 1

// Behind is the place behind all lines of the frame at a sequence.
func Behind(sequence uint64) Position { return Position{Sequence: sequence, Line: wholeFrame} }

// Compare is -1, 0 or +1 as p stands before, at or after q.
func (p Position) Compare(q Position) int {
	switch {
	case p.Sequence != q.Sequence:
		if p.Sequence < q.Sequence {
			return -1
		}
		return 1
	case p.Line < q.Line:
		return -1
	case p.Line > q.Line:
		return 1
	}
	return 0
}

// String renders the position as "sequence.line".
func (p Position) String() string { return fmt.Sprintf("%d.%d", p.Sequence, p.Line) }

// Entry is a message at its position.
type Entry struct {
	Position Position
	Message  Message
}

// SessionRef names a session: its project and its id.
type SessionRef struct {
	Project string `json:"project"`
	ID      string `json:"id"`
}

// String renders the reference as "project/id".
func (r SessionRef) String() string { return r.Project + "/" + r.ID }

// Validate reports the first part of the reference that can't be a name.
func (r SessionRef) Validate() error {
	if err := ValidateName("project", r.Project); err != nil {
		return err
	}
	return ValidateName("session", r.ID)
}
