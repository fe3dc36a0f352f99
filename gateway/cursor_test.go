package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// speak appends n committed texts, each streamed in a frame of its own.
func (s *owned) speak(n int) {
	s.d.t.Helper()
	for i := range n {
		s.say(schemas.TextFragment(schemas.PhaseStart, ""))
		s.say(schemas.TextFragment(schemas.PhaseDelta, fmt.Sprint("word ", i)))
		s.say(schemas.TextFragment(schemas.PhaseStop, ""), schemas.AssistantText(fmt.Sprint("word ", i)))
	}
}

func (s *owned) cursorAt(sequence uint64, line int) string {
	return schemas.Cursor{Epoch: s.d.conn.Epoch(s.ref), Position: schemas.Position{Sequence: sequence, Line: line}}.String()
}

// resync reads the event that says that the stream can't be continued.
func (e *events) resync() (reason, first string) {
	e.t.Helper()
	var v struct {
		Reason string `json:"reason"`
		First  string `json:"first_available"`
	}
	if err := schemas.DecodeJSON([]byte(e.expect(eventResync).data), &v); err != nil {
		e.t.Fatal(err)
	}
	if v.Reason == "" {
		e.t.Error("no reason is given")
	}
	return v.Reason, v.First
}

func TestCase_C01_IdsAreUnique(t *testing.T) {
	w := newWorld(t)
	s := w.engine.open("s")
	// Three messages of one instant, in one frame.
	now := time.Now()
	s.append(schemas.NewTraceOnly(now, schemas.UserText("x")), schemas.New(now, &schemas.RequestBegin{}),
		schemas.New(now, schemas.TextFragment(schemas.PhaseStart, "")), schemas.New(now, schemas.TextFragment(schemas.PhaseDelta, "a")))
	want := s.seen(false)
	for i := range want {
		first := parseID(t, want[i])
		e := w.openStream("/v1/sessions/s/stream", first.String())
		got, _ := e.resumed(len(want) - i - 1)
		if diff := cmp.Diff(want[i+1:], got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("after message %d (-want +got)\n%s", i, diff)
		}
		e.close()
	}
}

// parseID is the cursor of an "id data" line.
func parseID(t testing.TB, line string) schemas.Cursor {
	t.Helper()
	var id string
	if _, err := fmt.Sscan(line, &id); err != nil {
		t.Fatal(err)
	}
	c, err := schemas.ParseCursor(id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCase_C02_AReconnectGetsWhatFollows(t *testing.T) {
	w := newWorld(t)
	s := w.engine.open("s")
	s.say(&schemas.RequestBegin{})
	s.speak(5)
	all := s.seen(false)
	last := parseID(t, all[len(all)-1])
	e := w.openStream("/v1/sessions/s/stream", last.String())
	e.state() // nothing is replayed
	s.speak(1)
	fresh := s.seen(false)[len(all):]
	if diff := cmp.Diff(fresh, e.take(len(fresh))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// From the beginning of all: everything.
	e = w.openStream("/v1/sessions/s/stream", s.cursorAt(0, 0))
	got, _ := e.resumed(len(all) + len(fresh))
	if diff := cmp.Diff(s.seen(false), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, odd := range []string{"20", "-1", "x", "e-1", "e-1.-1", "e-01.0", "e-18446744073709551616.0", "é-1.0"} {
		a := w.do("GET", "/v1/sessions/s/stream", "", header("Last-Event-ID", odd))
		if a.status != http.StatusBadRequest || a.problem(t).Field != "Last-Event-ID" {
			t.Errorf("cursor %q: %d %s", odd, a.status, a.body)
		}
	}
	// Above the end: never silence.
	e = w.openStream("/v1/sessions/s/stream", s.cursorAt(1<<40, 0))
	e.resync()
	if state := e.state(); state.State != bus.StateRunning {
		t.Errorf("state %+v", state)
	}
	s.speak(1)
	e.take(4)
}

func TestCase_C03_IdsOutliveGateways(t *testing.T) {
	w := newWorld(t)
	s := w.engine.open("s")
	s.say(&schemas.RequestBegin{})
	s.speak(3)
	other := serve(t, w.broker.Conn(t))
	half := s.seen(false)[:4]
	from := s.cursorAt(0, 0)
	e, f := w.openStream("/v1/sessions/s/stream", from), other.openStream("/v1/sessions/s/stream", from)
	one, _ := e.resumed(len(s.seen(false)))
	two, _ := f.resumed(len(s.seen(false)))
	if diff := cmp.Diff(one, two); diff != "" {
		t.Errorf("two gateways disagree\n%s", diff)
	}
	w.stop()
	s.speak(2)
	next := serve(t, w.broker.Conn(t))
	e = next.openStream("/v1/sessions/s/stream", parseID(t, half[3]).String())
	want := s.seen(false)[4:]
	got, _ := e.resumed(len(want))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after a restart (-want +got)\n%s", diff)
	}
	// A stream that was made anew has another epoch.
	e = next.openStream("/v1/sessions/s/stream", "older-57.0")
	if reason, _ := e.resync(); reason != reasonEpoch {
		t.Errorf("reason %q", reason)
	}
	e.state()
}

func TestCase_C04_AnExpiredCursorIsSaidToBe(t *testing.T) {
	t.Parallel()
	broker := bustest.Single(t)
	// Fragments live for a second.
	conn := broker.Connect(t, bus.Options{Topology: bus.Topology{Shards: 2, Replicas: 1, LiveTTL: time.Second}})
	d := startDouble(t, conn)
	s := d.open("s")
	recorded := s.say(&schemas.RequestBegin{})
	lost := s.say(schemas.TextFragment(schemas.PhaseStart, ""), schemas.TextFragment(schemas.PhaseDelta, "a"))
	waitFor(t, "the fragments expire", func() bool {
		ends, err := conn.SessionEnds(testContext(t), s.ref)
		return err == nil && ends.Live == 0
	})
	first := s.say(schemas.TextFragment(schemas.PhaseDelta, "b"), schemas.TextFragment(schemas.PhaseStop, ""), schemas.AssistantText("ab"))
	g := serve(t, conn)
	for _, row := range []struct {
		why   string
		after string
		first string
	}{
		{"the cursor's own frame is gone", s.cursorAt(lost, 0), ""},
		{"what follows the cursor is gone", s.cursorAt(recorded, 0), s.cursorAt(first, 0)},
	} {
		e := g.openStream("/v1/sessions/s/stream", row.after)
		if _, got := e.resync(); got != row.first {
			t.Errorf("%s: first available %q, want %q", row.why, got, row.first)
		}
		if state := e.state(); state.State != bus.StateRunning {
			t.Errorf("%s: state %+v", row.why, state)
		}
		s.say(&schemas.TokenUsage{}, &schemas.RequestEnd{Status: schemas.StopCompleted})
		e.take(2)
		s.say(&schemas.RequestBegin{})
		e.take(1)
	}
}

func TestCase_C06_CursorAsParameter(t *testing.T) {
	w := newWorld(t)
	s := w.engine.open("s")
	s.say(&schemas.RequestBegin{})
	s.speak(3)
	all := s.seen(false)
	third, sixth := parseID(t, all[2]).String(), parseID(t, all[5]).String()
	e := w.openStream("/v1/sessions/s/stream?last_event_id="+third, "")
	got, _ := e.resumed(len(all) - 3)
	if diff := cmp.Diff(all[3:], got); diff != "" {
		t.Errorf("parameter (-want +got)\n%s", diff)
	}
	e = w.openStream("/v1/sessions/s/stream?last_event_id="+third, sixth)
	got, _ = e.resumed(len(all) - 6)
	if diff := cmp.Diff(all[6:], got); diff != "" {
		t.Errorf("the header did not win (-want +got)\n%s", diff)
	}
	if a := w.do("GET", "/v1/sessions/s/stream?last_event_id=7", ""); a.status != 400 || a.problem(t).Field != "last_event_id" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A small ring: what a watcher missed comes from the broker, in several stretches.
func TestReplayFromTheBroker(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.RingBytes = 2000 })
	s := w.engine.open("s")
	s.say(&schemas.RequestBegin{})
	s.speak(100)
	all := s.seen(false)
	for _, from := range []int{0, 1, 150, len(all) - 2} {
		e := w.openStream("/v1/sessions/s/stream", parseID(t, all[from]).String())
		got, _ := e.resumed(len(all) - from - 1)
		if diff := cmp.Diff(all[from+1:], got); diff != "" {
			t.Errorf("from %d (-want +got)\n%s", from, diff)
		}
		e.close()
	}
}

// The snapshot holds at its position, whatever the engine that was asked has seen since.
func TestSnapshots(t *testing.T) {
	w := newWorld(t)
	w.create("s")
	s := w.engine.session("s")
	fresh := func() stateView {
		e := w.openStream("/v1/sessions/s/stream", "")
		defer e.close()
		return e.state()
	}
	check := func(why string, state bus.SessionState, calls ...string) {
		t.Helper()
		got := fresh()
		pending := []string{}
		for _, p := range got.Pending {
			pending = append(pending, p.ToolCallID)
		}
		if got.State != state || !slices.Equal(pending, calls) {
			t.Errorf("%s: %s %v, want %s %v", why, got.State, pending, state, calls)
		}
	}
	ask := func(id string) schemas.Payload {
		return &schemas.ApprovalRequest{ToolCallID: id, Name: "exec", Arguments: "{}", Hash: "h"}
	}
	check("a new session", bus.StateIdle)
	keep := w.openStream("/v1/sessions/s/stream", "") // the hub lives from here on
	keep.state()
	w.task("s")
	keep.take(1)
	check("a task", bus.StateRunning)
	s.say(schemas.NewToolCall("a", "exec", "{}"), schemas.NewToolCall("b", "exec", "{}"), ask("a"))
	keep.take(3)
	check("one call waits", bus.StateWaiting, "a")
	s.say(&schemas.ApprovalDecision{ToolCallID: "a", Decision: schemas.DecisionAllow}, ask("b"))
	keep.take(2)
	check("another one waits", bus.StateWaiting, "b")
	s.append(schemas.New(time.Now(), ask("x")).WithOrigin("child"))
	keep.take(1)
	check("a child's call is the child's", bus.StateWaiting, "b")
	s.say(&schemas.RequestEnd{Status: schemas.StopFailed})
	keep.take(1)
	check("the request failed", bus.StateRunning)
	s.say(&schemas.TaskEnd{Status: schemas.StopFailed})
	keep.take(1)
	check("the end", bus.StateIdle)
	s.say(&schemas.CompactionBegin{})
	keep.take(1)
	check("a compaction", bus.StateRunning)
	s.say(&schemas.CompactionEnd{Status: schemas.StopCompleted})
	keep.take(1)
	check("its end", bus.StateIdle)
}
