package schedule

import (
	"maps"
	"slices"

	"braid/engine/internal/session"
	"braid/engine/internal/timelinetest"
	"braid/schemas"
)

// move is one thing that can happen now.
type move struct {
	name string
	do   func()
	// extra moves are never made of themselves: an order must ask for them.
	extra bool
	line  int // of the script
}

// moves lists what can happen now. What comes first in the story does.
func (s *stage) moves() (all []move) {
	add := func(can bool, name string, do func()) {
		if can {
			all = append(all, move{name: name, do: do})
		}
	}
	o := s.owner
	if o != nil {
		add(o.flight != nil, "ack", s.ack)
		add(len(o.deadlines) > 0, "tell deadline", s.tellDeadline)
		add(o.listing, "list tools", s.listTools)
		add(s.unread(), "read command", s.readCommand)
		add(s.canSpeak(), "model", s.modelSpeaks)
		add(len(o.unsent) > 0, "model never left", s.modelNeverLeft)
	} else {
		for _, e := range s.engines {
			add(s.wanted(), "claim by "+e.name, func() { s.own(e) })
		}
	}
	for _, t := range s.tools {
		s.toolMoves(t, add)
	}
	all = append(all, s.cueMoves()...)
	if o != nil {
		for i, timer := range o.timers {
			add(!o.announced || s.free || len(s.rest) == 0, "retry", func() {
				o.timers = slices.Delete(o.timers, i, i+1)
				s.event(session.RetryDue{Request: timer.Request})
			})
		}
		bounded := o.state.Meta != nil && (o.state.Meta.Limits.IdleTimeoutMS > 0 || o.state.Meta.Limits.RequestTimeoutMS > 0)
		add(o.model != nil && !s.canSpeak() && bounded, "model falls silent", s.modelFallsSilent)
		add(s.idle(), "let go", s.letGo)
	}
	late := s.free || len(all) == 0 // a strict script waits for a deadline, and for nothing else then
	for _, call := range slices.Sorted(maps.Keys(s.schedules)) {
		add(late, "deadline", func() { s.fireDeadline(call) })
	}
	return append(all, s.extraMoves()...)
}

func (s *stage) listTools() {
	s.owner.listing = false
	var tools []schemas.ToolDefinition
	if len(s.runners) > 0 {
		tools = timelinetest.Tools()
	}
	s.event(session.ToolsListed{Tools: tools})
}

// toolMoves are what a tool, its queue and its records can do.
func (s *stage) toolMoves(t *tool, add func(bool, string, func())) {
	served := t.pooled && len(s.runners) > 0
	add(t.state == queued && served, "start "+t.name, func() { t.start(s.runners[0]) })
	if s.owner == nil || !t.attached || t.reported {
		return
	}
	add(len(t.fragments) > 0, "hear "+t.name, func() {
		f := t.fragments[0]
		t.fragments = t.fragments[1:]
		s.event(session.ToolOutput{Fragment: f})
	})
	add(t.state == done, "result "+t.name, func() {
		t.reported = true
		s.event(session.ToolEnded{ToolCallID: t.id, Attempt: t.attempt, Result: *t.result})
	})
	add(t.state == queued && t.cancelled, "withdraw "+t.name, func() {
		t.end(schemas.ToolResult{Output: "[aborted before it started]", Appends: true, StopReason: schemas.StopAborted})
	})
	add(t.state == queued && !t.cancelled && (!t.pooled || s.free && !served), "nobody takes "+t.name, func() { t.end(t.nobodyTook()) })
	add(t.state == started && !slices.Contains(s.runners, t.runner), "miss toolrunner of "+t.name, t.missed)
	add(t.state == started && t.cancelled && !s.owner.patient, "give up "+t.name, func() {
		t.end(given(schemas.StopAborted, "aborted; the tool did not end in time and may still be running"))
	})
}

// extraMoves are faults, and what makes no difference.
func (s *stage) extraMoves() (extra []move) {
	add := func(name string, do func()) { extra = append(extra, move{name: name, do: do, extra: true}) }
	o := s.owner
	if o == nil {
		return nil
	}
	for _, c := range s.cueMoves() {
		if o.flight != nil && c.name == "kill "+o.name {
			add(c.name+", its frame stored", func() {
				s.drop(true)
				c.do()
			})
		}
	}
	if !s.free {
		return extra
	}
	if o.state.Busy() {
		add("checkpoint", func() { s.event(session.CheckpointDue{}) })
	}
	if len(s.commands) > 0 {
		add("read again", func() { s.event(s.commands[len(s.steps)%int(max(o.read, 1))]) })
	}
	for _, t := range s.tools {
		if len(t.fragments) > 0 {
			add("lose fragment of "+t.name, func() { t.fragments = t.fragments[1:] })
		}
	}
	return extra
}
