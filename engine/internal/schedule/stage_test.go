package schedule

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/tools/txtar"

	"braid/bus"
	"braid/engine"
	"braid/engine/internal/session"
	"braid/engine/internal/timelinetest"
	"braid/llm/scripted"
	"braid/schemas"
)

var ref = schemas.SessionRef{Project: "p", ID: "s"}

// stepper is [session.State.Step], or something that a test puts in its place.
type stepper func(*session.State, time.Time, session.Event) session.Output

// story is a timeline that can be played.
type story struct {
	name    string
	free    bool
	archive *txtar.Archive
	models  map[string]*scripted.Script
	prices  engine.Prices
	cues    []timelinetest.Cue
	step    stepper
}

// breach ends a run: something that must hold does not.
type breach struct{ what string }

// stage is one run of a story: a broker, the engines there are, at most one of which owns the
// session, its model and its tools.
type stage struct {
	*story
	*script
	now   time.Time
	names timelinetest.Names
	steps []string // what has happened

	log       []schemas.Entry
	frames    uint64
	lines     []string // the log, a message a line
	stored    *session.State
	commands  []session.CommandReceived
	schedules map[string]session.SetDeadline
	claim     claim

	engines []*instance // that live
	owner   *tenure
	fence   uint64
	runners []string // toolrunners that live
	tools   []*tool
	inputs  []string // what models were sent
	gates   map[string]bool

	checks *checks
}

// claim is who has the session.
type claim struct {
	by   string
	held bool
	wake bool // handed over in mid-task: an engine was rung for
}

// instance is an engine that lives.
type instance struct {
	name                         string
	patient, announced, reserved bool // cancels=patiently, retries=announced, suspend=never
	policy                       session.Policy
}

// tenure is one owner's.
type tenure struct {
	*instance
	state  *session.State
	said   *session.State // fold of all that it has said, stored or not
	batch  bus.Batch
	flight []schemas.Message // the frame in flight
	mark   bus.Mark          // of it
	added  bus.Mark
	done   bus.Mark
	wait   []heldEffects
	read   uint64 // commands are read up to here

	model     *modelCall
	unsent    []uint64 // requests whose calls were not made
	listing   bool
	timers    []session.WaitRetry
	deadlines []session.Effect
}

// heldEffects wait for a frame.
type heldEffects struct {
	mark    bus.Mark
	effects []session.Effect
}

func (s *stage) fail(format string, args ...any) { panic(breach{fmt.Sprintf(format, args...)}) }

func newStage(t *story) *stage {
	s := &stage{
		story: t, now: time.Unix(1e9, 0), stored: session.New(ref), checks: newChecks(),
		schedules: map[string]session.SetDeadline{}, gates: map[string]bool{},
	}
	s.script = newScript(s)
	return s
}

// own has an engine claim the session: it folds the log and goes on.
func (s *stage) own(e *instance) {
	before := s.claim
	s.fence++
	s.claim = claim{by: e.name, held: true}
	o := &tenure{instance: e, state: s.fold(0), said: s.fold(0)}
	s.checkTraceFold(o.state)
	o.state.Own(s.fence)
	o.state.Policy = e.policy
	o.read = o.state.Cursor
	s.owner = o
	for _, t := range s.tools {
		t.newOwner()
	}
	taken := session.TakenOver{To: e.name, Lost: s.lost(o.state)}
	if o.state.Task != nil && (before.held || !o.state.Suspendable()) {
		taken.From, taken.Cause = before.by, "handover"
		if before.held {
			taken.Cause = "lost"
		}
	}
	s.event(taken)
	if taken.From != "" && (o.flight == nil || o.flight[0].Kind() != schemas.KindOwnerChanged) {
		s.fail("%s does not begin with saying that the owner has changed", e.name)
	}
}

// fold reads the log from the beginning: recorded messages up to the frame, then everything.
func (s *stage) fold(point uint64) *session.State {
	folded := session.New(ref)
	for _, e := range s.log {
		if e.Position.Sequence >= point || e.Message.Recorded() {
			folded.Apply(e.Message)
		}
	}
	return folded
}

// event takes one event through the core.
func (s *stage) event(e session.Event) {
	o := s.owner
	s.now = s.now.Add(time.Millisecond)
	out := s.step(o.state, s.now, e)
	for _, m := range out.Messages {
		o.said.Apply(m)
	}
	s.same("what it has said", o.said, o.state)
	if len(out.Messages) > 0 {
		mark, err := o.batch.Add(out.Messages...)
		if err != nil {
			s.fail("append: %v", err)
		}
		o.added = mark
	}
	if len(out.Effects) > 0 {
		if o.added <= o.done {
			s.perform(out.Effects)
		} else {
			o.wait = append(o.wait, heldEffects{o.added, out.Effects})
		}
	}
	s.flush()
}

// maxFrame is more than any timeline says at once.
const maxFrame = 1 << 20

// flush hands the next frame out, if none is in flight.
func (s *stage) flush() {
	if o := s.owner; o.flight == nil && !o.batch.Empty() {
		o.flight, o.mark = o.batch.Take(maxFrame)
	}
}

// ack stores the frame in flight, and lets the effects go that waited for it.
func (s *stage) ack() {
	o := s.owner
	s.store(o.flight)
	o.flight, o.done = nil, o.mark
	for len(o.wait) > 0 && o.wait[0].mark <= o.done {
		held := o.wait[0]
		o.wait = o.wait[1:]
		s.perform(held.effects)
	}
	s.flush()
	if o.flight == nil {
		s.same("the log", s.stored, o.state)
	}
}

// store adds a frame to the log, as whoever reads it finds it.
func (s *stage) store(frame []schemas.Message) {
	s.frames++
	for line, m := range frame {
		encoded, err := schemas.Encode(m)
		if err == nil {
			m, err = schemas.Decode(encoded)
		}
		if err != nil {
			s.fail("store: %v", err)
		}
		e := schemas.Entry{Position: schemas.Position{Sequence: s.frames, Line: line}, Message: m}
		s.log = append(s.log, e)
		s.lines = append(s.lines, s.names.Line(m))
		s.stored.Apply(m)
		s.checkEntry(e)
	}
}

// perform carries out effects whose messages are stored.
func (s *stage) perform(effects []session.Effect) {
	o := s.owner
	for _, effect := range effects {
		switch e := effect.(type) {
		case session.Answer:
			if s.outcomes(e.Outcome.CommandID) == 0 {
				s.fail("command %s is answered before its outcome is stored", e.Outcome.CommandID)
			}
		case session.ListTools:
			o.listing = true
		case session.CallModel:
			s.callModel(e)
		case session.StopModel:
			s.stopModel(e.Request)
		case session.StartTool:
			s.startTool(e)
		case session.CancelTool:
			if t := s.tool(e.ToolCallID); t != nil && t.attached {
				t.cancelled = true
			}
		case session.ResendOutput:
			if t := s.tool(e.ToolCallID); t != nil {
				t.resend(e.Attempt, e.From)
			}
		case session.SetDeadline, session.ClearDeadline:
			o.deadlines = append(o.deadlines, effect)
		case session.WaitRetry:
			o.timers = append(o.timers, e)
		}
	}
}

// require asserts that the message that announces an effect is stored.
func (s *stage) require(what, line string) {
	for i := range slices.Backward(s.lines) {
		if timelinetest.Matches(line, s.lines[i]) {
			return
		}
	}
	s.fail("%s before %q is stored", what, line)
}

// drop loses the owner; keep says whether the frame in flight was stored.
func (s *stage) drop(keep bool) {
	o := s.owner
	s.owner = nil
	s.stopModelOf(o)
	if keep && o.flight != nil {
		s.store(o.flight)
	}
}

// handOver lets the owner go in an orderly way: what it has said is stored, answers are given, and
// other effects are the next owner's.
func (s *stage) handOver() {
	o := s.owner
	s.stopModelOf(o)
	for o.flight != nil {
		s.store(o.flight)
		o.flight, o.done = nil, o.mark
		s.flush()
	}
	s.same("the log", s.stored, o.state)
	for _, held := range o.wait {
		s.perform(slices.DeleteFunc(held.effects, func(e session.Effect) bool { _, ok := e.(session.Answer); return !ok }))
	}
	s.owner = nil
	s.claim = claim{by: o.name, wake: !o.state.AtRest()}
}

// letGo ends a tenure that has nothing to do.
func (s *stage) letGo() {
	s.stopModelOf(s.owner)
	s.checkDeadline()
	s.claim = claim{by: s.owner.name}
	s.owner = nil
}

// idle reports that the owner may let go of the session.
func (s *stage) idle() bool {
	o := s.owner
	if o.flight != nil || len(o.wait) > 0 || len(o.deadlines) > 0 || s.unread() {
		return false
	}
	if slices.ContainsFunc(s.tools, func(t *tool) bool { return t.attached && !t.reported }) {
		return false
	}
	return o.state.AtRest() || o.state.Suspendable() && !o.reserved
}

// unread reports that commands wait for the session's owner.
func (s *stage) unread() bool {
	read := s.stored.Cursor
	if s.owner != nil {
		read = max(s.owner.read, s.owner.state.Cursor)
	}
	return read < uint64(len(s.commands))
}

// wanted reports that engines were rung for the session.
func (s *stage) wanted() bool { return s.owner == nil && (s.claim.held || s.claim.wake || s.unread()) }

// readCommand hands the owner the next command.
func (s *stage) readCommand() {
	o := s.owner
	o.read = max(o.read, o.state.Cursor) + 1
	s.event(s.commands[o.read-1])
}

// post stores a command.
func (s *stage) post(c schemas.Command, at time.Time) {
	received := session.CommandReceived{Sequence: uint64(len(s.commands) + 1), Time: at, Command: c}
	if c.Task != nil {
		received.Refused = s.story.models["m"].Info().Refuse(c.Task)
	}
	s.commands = append(s.commands, received)
}

// tellDeadline has the broker hear the next thing said of deadlines.
func (s *stage) tellDeadline() {
	o := s.owner
	switch e := o.deadlines[0].(type) {
	case session.SetDeadline:
		s.schedules[e.Command.Deadline.ToolCallID] = e
	case session.ClearDeadline:
		delete(s.schedules, e.ToolCallID)
	}
	o.deadlines = o.deadlines[1:]
}

// fireDeadline has the broker send a deadline.
func (s *stage) fireDeadline(call string) {
	e := s.schedules[call]
	delete(s.schedules, call)
	if s.now.Before(e.At) {
		s.now = e.At
	}
	s.post(e.Command, e.At)
}
