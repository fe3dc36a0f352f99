package gateway

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// turns returns all events of a session's turn view, as "id data" lines.
func (s *owned) turns() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kept []schemas.Entry
	for _, e := range s.entries {
		if e.Message.Recorded() && (e.Message.Visible() || e.Message.TaskInput()) {
			kept = append(kept, e)
		}
	}
	view := schemas.NewTurnView()
	var lines []string
	for i, e := range kept {
		events := view.Add(e)
		if i+1 == len(kept) || kept[i+1].Position.Sequence != e.Position.Sequence {
			events = append(events, view.Flush()...)
		}
		for n, event := range events {
			data, err := schemas.EncodeJSON(event)
			if err != nil {
				s.d.t.Fatal(err)
			}
			id := schemas.Cursor{Epoch: s.d.conn.Epoch(s.ref), Position: e.Position}.String()
			if n+1 < len(events) {
				id += fmt.Sprintf(".%d", n+1)
			}
			lines = append(lines, id+" "+string(data))
		}
	}
	return lines
}

// takeTurns reads n events of the turn view; how the session stands is passed over.
func (e *events) takeTurns(n int) []string {
	e.t.Helper()
	var lines []string
	for len(lines) < n {
		switch got := e.next(); got.name {
		case "":
			lines = append(lines, got.line())
		case eventTaskState:
		default:
			e.t.Fatalf("got event %q %s", got.name, got.data)
		}
	}
	return lines
}

const turnsPath = "/v1/sessions/s/stream?view=turns"

// call is a whole turn that makes one call.
func (s *owned) call(id string) {
	s.say(schemas.AssistantText("calling"), schemas.NewToolCall(id, "ls", "{}"),
		&schemas.ApprovalDecision{Decision: schemas.DecisionAllow, ToolCallID: id})
	s.say(&schemas.TokenUsage{}, &schemas.RequestEnd{Status: schemas.StopCompleted})
	s.say(schemas.NewToolCallOutput(id, "out of "+id, schemas.StopCompleted))
	s.say(&schemas.RequestBegin{})
}

func (s *owned) answer(text string) {
	s.say(schemas.AssistantText(text))
	s.say(&schemas.TokenUsage{}, &schemas.RequestEnd{Status: schemas.StopCompleted}, &schemas.TaskEnd{Status: schemas.StopCompleted, Cause: "done"})
}

func TestTurnsStream(t *testing.T) {
	w := newWorld(t)
	w.create("s")
	e := w.openStream(turnsPath, "")
	if state := e.state(); state.State != bus.StateIdle {
		t.Errorf("a new session is %+v", state)
	}
	begin := w.task("s")
	if state := e.state(); state.State != bus.StateRunning {
		t.Errorf("when the task begins: %+v", state)
	}
	s := w.engine.session("s")
	s.call("A")
	s.call("B")
	got := e.takeTurns(6)

	// Who comes in the middle of the task gets what comes from then on, and the whole result.
	late := w.openStream(turnsPath, "")
	if state := late.state(); state.State != bus.StateRunning {
		t.Errorf("in the middle: %+v", state)
	}
	s.answer("done")
	want := s.turns()
	if len(want) != 8 {
		t.Fatalf("the projection is %q", want)
	}
	if diff := cmp.Diff(want, append(got, e.takeTurns(2)...)); diff != "" {
		t.Errorf("from the beginning (-projected +streamed)\n%s", diff)
	}
	if diff := cmp.Diff(want[6:], late.takeTurns(2)); diff != "" {
		t.Errorf("from the middle (-projected +streamed)\n%s", diff)
	}
	if !strings.Contains(want[7], `"turns":3`) || strings.Contains(want[7], "incomplete") {
		t.Errorf("the result is %s", want[7])
	}
	if state := late.state(); state.State != bus.StateIdle {
		t.Errorf("at the end: %+v", state)
	}
	if diff := cmp.Diff(want, w.openStream(turnsPath, begin.Cursor).takeTurns(8)); diff != "" {
		t.Errorf("from the cursor of the task (-projected +streamed)\n%s", diff)
	}
}

// This view has no approval requests, so it says when somebody is waited for.
func TestTurnsTellWhoIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	s := w.engine.open("s")
	s.say(&schemas.RequestBegin{})
	e := w.openStream(turnsPath, "")
	e.state()
	s.say(schemas.NewToolCall("A", "rm", "{}"), &schemas.ApprovalRequest{ToolCallID: "A", Name: "rm", Arguments: "{}", Hash: "h"})
	if state := e.state(); state.State != bus.StateWaiting || len(state.Pending) != 1 || state.Pending[0].Hash != "h" {
		t.Errorf("when a person is asked: %+v", state)
	}
	s.say(&schemas.ApprovalDecision{Decision: schemas.DecisionDeny, ToolCallID: "A"}, schemas.NewToolCallOutput("A", "no", schemas.StopAborted))
	if state := e.state(); state.State != bus.StateRunning || len(state.Pending) != 0 {
		t.Errorf("when it was decided: %+v", state)
	}
	s.say(&schemas.TokenUsage{}, &schemas.RequestEnd{Status: schemas.StopCompleted})
	if diff := cmp.Diff(s.turns(), e.takeTurns(2)); diff != "" {
		t.Errorf("(-projected +streamed)\n%s", diff)
	}
}

// Whatever a session says, and wherever a watcher loses its connection, on whichever gateway it
// comes back: together it gets the whole projection, each event once, in order.
func TestTurnsSurviveReconnects(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.RingBytes = 4000 })
	other := serve(t, w.broker.Conn(t), func(o *Options) { o.Linger = 1 })
	for seed := range 12 {
		id := fmt.Sprintf("s%d", seed)
		s := w.engine.open(id)
		start := s.cursorAt(s.lastFrame(), 0)
		var watchers sync.WaitGroup
		all := legal(seed)
		for n := range 4 {
			watchers.Go(func() {
				r := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
				got := watchTurnsBadly(t, []*served{w.served, other}, id, start, ends(all), r)
				if diff := cmp.Diff(s.turns(), got); diff != "" {
					t.Errorf("session %d, watcher %d (-projected +got)\n%s", seed, n, diff)
				}
			})
		}
		for _, f := range all {
			s.append(f...)
		}
		watchers.Wait()
	}
}

// ends counts the tasks of a session that end.
func ends(all [][]schemas.Message) int {
	n := 0
	for _, f := range all {
		for _, m := range f {
			if _, ok := m.Payload.(*schemas.TaskEnd); ok && len(m.Origin) == 0 {
				n++
			}
		}
	}
	return n
}

// watchTurnsBadly follows a session until so many tasks have ended, through connections that
// break after a few events: also between two events of one message.
func watchTurnsBadly(t *testing.T, gateways []*served, id, cursor string, tasks int, r *rand.Rand) []string {
	var got []string
	for {
		e, err := gateways[r.IntN(len(gateways))].tryStream("/v1/sessions/"+id+"/stream?view=turns", cursor)
		if err != nil || e.response.StatusCode != http.StatusOK {
			t.Errorf("reconnect at %s: %v", cursor, err)
			return got
		}
		for range 1 + r.IntN(5) {
			next, err := e.read()
			if err != nil || next.name == eventResync {
				t.Errorf("session %s at %s: %+v %v", id, cursor, next, err)
				return got
			}
			if next.id != "" {
				cursor = next.id
			}
			if !next.comment && next.name == "" {
				got = append(got, next.line())
				var event schemas.TurnEvent
				if err := schemas.DecodeJSON([]byte(next.data), &event); err != nil {
					t.Error(err)
				}
				if event.Type == schemas.TurnDone {
					tasks--
				}
			}
			if tasks == 0 {
				e.close()
				return got
			}
		}
		e.close()
	}
}

// Every event is a place to go on from.
func TestTurnsResumeFromEveryEvent(t *testing.T) {
	w := newWorld(t)
	s := w.engine.open("s")
	for range 2 {
		s.say(&schemas.RequestBegin{})
		s.call("A" + fmt.Sprint(s.lastFrame()))
		s.say(schemas.NewToolCall("B"+fmt.Sprint(s.lastFrame()), "ls", "{}"), schemas.NewToolCall("C"+fmt.Sprint(s.lastFrame()), "ls", "{}"))
		s.answer("done")
	}
	all := s.turns()
	for i, line := range all {
		id, _, _ := strings.Cut(line, " ")
		e := w.openStream(turnsPath, id)
		if diff := cmp.Diff(all[i+1:], e.takeTurns(len(all)-i-1), cmpEmpty); diff != "" {
			t.Errorf("after %s (-projected +streamed)\n%s", id, diff)
		}
		e.close()
	}
}

var cmpEmpty = cmp.Transformer("empty", func(s []string) string { return strings.Join(s, "\n") })

// Fragments that have expired are in no turn: nothing is missing.
func TestTurnsNeedNoFragments(t *testing.T) {
	t.Parallel()
	broker := bustest.Single(t)
	conn := broker.Connect(t, bus.Options{Topology: bus.Topology{Shards: 2, Replicas: 1, LiveTTL: time.Second}})
	d := startDouble(t, conn)
	s := d.open("s")
	s.say(&schemas.RequestBegin{})
	lost := s.say(schemas.TextFragment(schemas.PhaseStart, ""), schemas.TextFragment(schemas.PhaseDelta, "done"))
	waitFor(t, "the fragments expire", func() bool {
		ends, err := conn.SessionEnds(testContext(t), s.ref)
		return err == nil && ends.Live == 0
	})
	s.answer("done")
	g := serve(t, conn)
	want := s.turns()
	if diff := cmp.Diff(want, g.openStream(turnsPath, s.cursorAt(lost, 0)).takeTurns(len(want))); diff != "" {
		t.Errorf("(-projected +streamed)\n%s", diff)
	}
}

// A gap amid a live stream loses fragments, and so nothing that this view shows.
func TestTurnsPassAGap(t *testing.T) {
	w := newWorld(t)
	s := w.engine.open("s")
	before := s.say(&schemas.RequestBegin{})
	e := w.openStream(turnsPath, "")
	e.state()
	h, release, err := w.g.hubs.use(testContext(t), s.ref)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	h.gap(bus.GapEvent{After: before, Before: before + 1})
	s.answer("done")
	if diff := cmp.Diff(s.turns(), e.takeTurns(2)); diff != "" {
		t.Errorf("(-projected +streamed)\n%s", diff)
	}
}

// What can't be continued is said to be, and the view begins again with the running task.
func TestTurnsResync(t *testing.T) {
	w := newWorld(t)
	s := w.engine.open("s")
	s.say(&schemas.RequestBegin{})
	s.call("A")
	for _, row := range []struct{ why, after, reason string }{
		{"another stream", "older-57.0", reasonEpoch},
		{"the stream ends before", s.cursorAt(s.lastFrame()+1000, 0), reasonBeyond},
	} {
		e := w.openStream(turnsPath, row.after)
		if reason, _ := e.resync(); reason != row.reason {
			t.Errorf("%s: reason %q", row.why, reason)
		}
		if state := e.state(); state.State != bus.StateRunning {
			t.Errorf("%s: %+v", row.why, state)
		}
		e.close()
	}
	e := w.openStream(turnsPath, "")
	e.state() // it may still be on its way to the hub's place: that must not hide what follows
	h, release, err := w.g.hubs.use(testContext(t), s.ref)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, err := h.begin(testContext(t), testTime, "the tail was lost"); err != nil {
		t.Fatal(err)
	}
	if reason, _ := e.resync(); reason != "the tail was lost" {
		t.Errorf("reason %q", reason)
	}
	e.state()
	s.answer("done")
	want := s.turns()
	if diff := cmp.Diff(want[len(want)-2:], e.takeTurns(2)); diff != "" {
		t.Errorf("after a fresh beginning (-projected +streamed)\n%s", diff)
	}
}

func TestPlaces(t *testing.T) {
	for _, text := range []string{"a-7.0", "a-7.0.3"} {
		if p, err := turnCursorParameter("after", text); err != nil || p.String() != text {
			t.Errorf("%s became %s, %v", text, p, err)
		}
	}
	if p, err := turnCursorParameter("after", ""); err != nil || !p.IsZero() {
		t.Errorf("no place became %s, %v", p, err)
	}
	for _, text := range []string{"a-7", "7.0.1", "a-7.0.01", "a-7.0.-1", "a-7.0.x", "a-7.0.1.2", "a-7.0.", "a-7.0.0"} {
		if _, err := turnCursorParameter("after", text); err == nil {
			t.Errorf("%q is a place", text)
		}
	}
}

// Whoever was away while more was said than is read at once gets all of it, also if nothing more
// happens then.
func TestTurnsBehindALargePiece(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.RingBytes = 1 << 10 })
	w.create("s")
	begin := w.task("s")
	s := w.engine.session("s")
	s.say(schemas.AssistantText(strings.Repeat("x", replayBytes)))
	s.say(&schemas.TokenUsage{}, &schemas.RequestEnd{Status: schemas.StopCompleted}, &schemas.TaskEnd{Status: schemas.StopCompleted, Cause: "done"})
	s.say(&schemas.SessionChanged{}) // what the ring holds
	if diff := cmp.Diff(s.turns(), w.openStream(turnsPath, begin.Cursor).takeTurns(2)); diff != "" {
		t.Errorf("(-projected +streamed)\n%.500s", diff)
	}
}
