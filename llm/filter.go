package llm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"braid/schemas"
)

// errOver is what a model's emit gets once the request is over.
var errOver = errors.New("the request is over")

// errEmitPanicked stands for the error of an emit that never returned one.
var errEmitPanicked = errors.New("emit panicked")

// filter stands between a model and its caller: it lets through what obeys the rules of
// segments, completes what can be completed, and refuses everything after the first fault.
type filter struct {
	ctx    context.Context //nolint:containedctx // of the one request: after its end nothing gets through
	emit   func(schemas.Message) error
	now    func() time.Time
	broken chan struct{} // closed at the first fault

	mu struct {
		sync.Mutex
		over    bool
		fault   error // what the model did wrong
		refused error // what emit said
		open    *segment
	}
}

// take is the emit that the model gets.
func (f *filter) take(m schemas.Message) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.mu.over:
		return errOver
	case f.mu.refused != nil:
		return f.mu.refused
	case f.mu.fault != nil:
		return f.mu.fault
	case f.ctx.Err() != nil:
		return context.Cause(f.ctx)
	}
	if f.mu.fault = f.check(m); f.mu.fault != nil {
		close(f.broken)
		return f.mu.fault
	}
	err := f.pass(m)
	if err != nil {
		close(f.broken)
	}
	return err
}

// check reports what is wrong with the message at this point.
func (f *filter) check(m schemas.Message) error {
	s, ok := read(m.Payload)
	what := string(m.Kind())
	if s.phase != "" {
		what += " (" + string(s.phase) + ")"
	}
	switch {
	case !ok:
		return fmt.Errorf("%s is nothing a model says", what)
	case len(m.Origin) != 0 || m.Scope != schemas.ScopeAll:
		return fmt.Errorf("%s comes with an origin or a scope, which a model has no say in", what)
	case s.role != schemas.RoleAssistant:
		return fmt.Errorf("%s has role %q, not assistant", what, s.role)
	case !utf8.ValidString(s.text):
		return fmt.Errorf("%s is not valid UTF-8", what)
	case s.text != "" && (s.phase == schemas.PhaseStart || s.phase == schemas.PhaseStop):
		return fmt.Errorf("%s carries content", what)
	}
	open := f.mu.open
	switch {
	case open == nil && (s.phase == schemas.PhaseStart || s.phase == ""):
		return nil
	case open == nil:
		return fmt.Errorf("%s without a start", what)
	case s.phase == schemas.PhaseStart || s.of != open.kind || s.id != open.id:
		return fmt.Errorf("%s while another %s is open", what, open.kind)
	case open.stopped != (s.phase == ""):
		return fmt.Errorf("%s at the wrong place of its segment", what)
	case s.phase == "" && s.text != open.said.String():
		return fmt.Errorf("%s differs from its %d bytes of fragments", what, open.said.Len())
	case s.phase == "" && s.name != open.name:
		return fmt.Errorf("%s has another name than its start", what)
	}
	return nil
}

// pass hands the message on and keeps the open segment. The message has been checked.
func (f *filter) pass(m schemas.Message) error {
	s, _ := read(m.Payload)
	switch {
	case s.phase == schemas.PhaseStart:
		f.mu.open = &segment{kind: s.of, id: s.id, name: s.name}
	case s.phase == schemas.PhaseDelta:
		f.mu.open.said.WriteString(s.text)
	case s.phase == schemas.PhaseStop:
		f.mu.open.stopped = true
	case f.mu.open != nil:
		f.mu.open = nil
	case s.of != "":
		return f.passWhole(m, s)
	}
	return f.send(m)
}

// passWhole gives a complete message that came alone its fragments.
func (f *filter) passWhole(m schemas.Message, s said) error {
	w := &segment{kind: s.of, id: s.id, name: s.name}
	fragments := []schemas.Payload{w.fragment(schemas.PhaseStart, "", "")}
	if s.text != "" {
		fragments = append(fragments, w.fragment(schemas.PhaseDelta, s.text, ""))
	}
	fragments = append(fragments, w.fragment(schemas.PhaseStop, "", s.reason))
	for _, p := range fragments {
		if err := f.send(schemas.Message{Timestamp: m.Timestamp, Type: m.Type, Payload: p}); err != nil {
			return err
		}
	}
	return f.send(m)
}

// send calls emit. Should emit panic, it counts as having refused.
func (f *filter) send(m schemas.Message) error {
	f.mu.refused = errEmitPanicked
	f.mu.refused = f.emit(m)
	return f.mu.refused
}

// finish ends the request: nothing gets through any more, what is open is closed, and the
// outcome is made to fit what happened.
func (f *filter) finish(o Outcome) Outcome {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.over = true
	o = f.judge(o)
	err := f.mu.refused
	if f.mu.open != nil && err == nil {
		err = f.closeAs(o.Status)
	}
	if err != nil {
		return withUsage(interruptedBy(err), o.Usage)
	}
	return o
}

// closeAs closes the open segment.
func (f *filter) closeAs(status schemas.StopReason) error {
	s := f.mu.open
	f.mu.open = nil
	if !s.stopped {
		if err := f.send(schemas.New(f.now(), s.fragment(schemas.PhaseStop, "", status))); err != nil {
			return err
		}
	}
	return f.send(schemas.New(f.now(), s.complete(status)))
}

// judge decides between the outcome the model gave and what is known of it.
func (f *filter) judge(o Outcome) Outcome {
	switch {
	case f.mu.fault != nil:
		return withUsage(malformed("the model broke the protocol: %v", f.mu.fault), o.Usage)
	case f.ctx.Err() != nil:
		return withUsage(Interrupted(f.ctx), o.Usage)
	}
	switch o.Status {
	case schemas.StopCompleted:
		if f.mu.open != nil {
			return withUsage(malformed("the model ended in the middle of a %s", f.mu.open.kind), o.Usage)
		}
		o.Error = nil
		return o
	case schemas.StopFailed, schemas.StopAborted, schemas.StopTimeout, schemas.StopMalformed, schemas.StopAuth:
		if o.Error == nil {
			o.Error = &Error{
				Kind: KindProvider, Message: fmt.Sprintf("the model ended as %s and gave no reason", o.Status),
				Retryable: o.Status != schemas.StopAuth,
			}
		}
		return o
	}
	return withUsage(malformed("the model ended with the unknown status %q", o.Status), o.Usage)
}

func withUsage(o Outcome, usage *schemas.TokenCounts) Outcome {
	o.Usage = usage
	return o
}

// said is what counts of a message for the rules of segments.
type said struct {
	of       schemas.Kind  // the complete kind of the segment; empty: it has no fragments
	phase    schemas.Phase // empty: complete
	role     schemas.Role
	id, name string
	text     string
	reason   schemas.StopReason
}

// read returns what counts of a payload, false if no model says such a thing.
func read(p schemas.Payload) (said, bool) {
	var s said
	switch p := p.(type) {
	case *schemas.PartialText:
		s = said{of: schemas.KindText, phase: p.EventType, role: p.Role, text: p.Text}
	case *schemas.PartialThinking:
		s = said{of: schemas.KindThinking, phase: p.EventType, role: p.Role, text: p.Thinking}
	case *schemas.PartialToolCall:
		s = said{of: schemas.KindToolCall, phase: p.EventType, role: p.Role, id: p.ToolCallID, name: p.Name, text: p.Arguments}
	case *schemas.Text:
		return said{of: schemas.KindText, role: p.Role, text: p.Text, reason: p.StopReason}, true
	case *schemas.Thinking:
		return said{of: schemas.KindThinking, role: p.Role, text: p.Thinking, reason: p.StopReason}, true
	case *schemas.ToolCall:
		return said{of: schemas.KindToolCall, role: p.Role, id: p.ToolCallID, name: p.Name, text: p.Arguments, reason: p.StopReason}, true
	case *schemas.InlineThinking:
		return said{role: p.Role}, true
	case *schemas.ImageURL:
		return said{role: p.Role}, true
	case *schemas.InlineData:
		return said{role: p.Role}, true
	}
	known := s.phase == schemas.PhaseStart || s.phase == schemas.PhaseDelta || s.phase == schemas.PhaseStop
	return s, known
}
