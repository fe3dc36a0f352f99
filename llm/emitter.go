package llm

import (
	"errors"
	"strings"
	"time"

	"braid/schemas"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrNoToolCall is what [Emitter.ToolCallArgs] returns when no tool call is open.
var ErrNoToolCall = errors.New("arguments without an open tool call")

// Emitter turns what a provider sends into segments. Whatever order its methods are called in,
// what comes out obeys the rules of the package comment: starting something else closes the
// open segment, and an empty delta is nothing.
//
// The first error of emit sticks: every later method returns it and emits nothing. An Emitter
// belongs to one request and one goroutine.
type Emitter struct {
	emit func(schemas.Message) error
	now  func() time.Time
	open *segment
	err  error
}

// NewEmitter returns an emitter into emit. The clock stamps the messages; nil means time.Now.
func NewEmitter(emit func(schemas.Message) error, now func() time.Time) *Emitter {
	if now == nil {
		now = time.Now
	}
	return &Emitter{emit: emit, now: now}
}

// TextStart opens a text, closing what is open.
func (e *Emitter) TextStart() error { return e.start(&segment{kind: schemas.KindText}) }

// Text adds a delta to the open text, opening one if none is.
func (e *Emitter) Text(delta string) error { return e.say(schemas.KindText, delta) }

// ThinkingStart opens a piece of reasoning, closing what is open.
func (e *Emitter) ThinkingStart() error { return e.start(&segment{kind: schemas.KindThinking}) }

// Thinking adds a delta to the open reasoning, opening a piece if none is.
func (e *Emitter) Thinking(delta string) error { return e.say(schemas.KindThinking, delta) }

// ToolCallStart opens a tool call, closing what is open.
func (e *Emitter) ToolCallStart(id, name string) error {
	return e.start(&segment{
		kind: schemas.KindToolCall, id: schemas.ValidText(id), name: schemas.ValidText(name),
	})
}

// ToolCallArgs adds a delta to the arguments of the open tool call, [ErrNoToolCall] if none is.
func (e *Emitter) ToolCallArgs(delta string) error {
	if e.err == nil && (e.open == nil || e.open.kind != schemas.KindToolCall) {
		return ErrNoToolCall
	}
	return e.say(schemas.KindToolCall, delta)
}

// Fidelity sets what the provider wants back with the open segment's complete message: one JSON
// object without insignificant white space. Nothing happens if no segment is open.
func (e *Emitter) Fidelity(raw jsontext.Value) {
	if e.open != nil {
		e.open.fidelity = raw
	}
}

// Message emits a complete message that has no fragments, such as a picture, closing what is
// open.
func (e *Emitter) Message(p schemas.Payload) error {
	if err := e.Close(); err != nil {
		return err
	}
	return e.send(p)
}

// Close closes the open segment, if any, as complete. A tool call that got no arguments gets
// the empty object, which is what providers mean by sending none.
func (e *Emitter) Close() error {
	if s := e.open; s != nil && s.kind == schemas.KindToolCall && strings.TrimSpace(s.said.String()) == "" {
		if err := e.say(schemas.KindToolCall, "{}"); err != nil {
			return err
		}
	}
	return e.closeAs(schemas.StopCompleted)
}

// End closes the open segment as the outcome demands and returns the outcome, or, if emit has
// failed, the one that says so. A provider's Stream ends with it on every path.
func (e *Emitter) End(o Outcome) Outcome {
	err := e.err
	switch {
	case err != nil:
	case o.Status == schemas.StopCompleted:
		err = e.Close()
	default:
		err = e.closeAs(o.Status)
	}
	if err != nil {
		usage := o.Usage
		o = interruptedBy(err)
		o.Usage = usage
	}
	return o
}

func (e *Emitter) start(s *segment) error {
	if err := e.Close(); err != nil {
		return err
	}
	if err := e.send(s.fragment(schemas.PhaseStart, "", "")); err != nil {
		return err
	}
	e.open = s
	return nil
}

func (e *Emitter) say(kind schemas.Kind, delta string) error {
	if e.err != nil || delta == "" {
		return e.err
	}
	if e.open == nil || e.open.kind != kind {
		if err := e.start(&segment{kind: kind}); err != nil {
			return err
		}
	}
	delta = schemas.ValidText(delta)
	e.open.said.WriteString(delta)
	return e.send(e.open.fragment(schemas.PhaseDelta, delta, ""))
}

func (e *Emitter) closeAs(reason schemas.StopReason) error {
	s := e.open
	if e.err != nil || s == nil {
		return e.err
	}
	e.open = nil
	if err := e.send(s.fragment(schemas.PhaseStop, "", reason)); err != nil {
		return err
	}
	return e.send(s.complete(reason))
}

func (e *Emitter) send(p schemas.Payload) error {
	if e.err == nil {
		e.err = e.emit(schemas.New(e.now(), p))
	}
	return e.err
}
