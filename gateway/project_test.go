package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// told reads events until a session is told to be in a state; "deleted" is one. It returns the id.
func (e *events) told(session string, state bus.SessionState) string {
	e.t.Helper()
	for {
		switch got := e.next(); got.name {
		case "":
			var v shownView
			if err := schemas.DecodeJSON([]byte(got.data), &v); err != nil {
				e.t.Fatal(err)
			}
			if v.Session.ID == session && v.Session.State == state {
				return got.id
			}
		case eventDeleted:
			if state == "deleted" && strings.Contains(got.data, `"`+session+`"`) {
				return got.id
			}
		default:
			e.t.Fatalf("got event %q %s", got.name, got.data)
		}
	}
}

// Seven tabs that watch seven sessions need a connection each, not one for each session: with two
// connections in all, of which one is the stream, everything else still goes through.
func TestCase_C12_OneConnectionTellsOfAllSessions(t *testing.T) {
	w := newWorld(t)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 2}}
	t.Cleanup(client.CloseIdleConnections)
	do := func(method, path, body string) *http.Response {
		r, err := http.NewRequestWithContext(testContext(t), method, w.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+testToken)
		r.Header.Set("Content-Type", "application/json")
		response, err := client.Do(r)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		return response
	}
	stream := do("GET", "/v1/events", "")
	e := newEvents(t, "/v1/events", stream)
	e.expect(eventWatching)
	for i := range 7 {
		id := fmt.Sprint("s", i)
		do("POST", "/v1/sessions", `{"id":"`+id+`","model":"shell/demo"}`).Body.Close()
		e.told(id, bus.StateIdle)
		do("POST", "/v1/sessions/"+id+"/tasks", `{"prompt":"x"}`).Body.Close()
		e.told(id, bus.StateRunning)
	}
}

// Whatever a session does that lists show is told: that it begins, runs, waits, goes on, rests and
// is deleted.
func TestProjectStream(t *testing.T) {
	w := newWorld(t)
	e := w.openStream("/v1/events?token="+testToken, "", header("Authorization", ""))
	e.expect(eventWatching)
	w.create("s")
	e.told("s", bus.StateIdle)
	w.task("s")
	e.told("s", bus.StateRunning)
	s := w.engine.session("s")
	s.say(schemas.NewToolCall("c1", "exec", "{}"), &schemas.ApprovalRequest{ToolCallID: "c1", Name: "exec", Arguments: "{}", Hash: "h1"})
	e.told("s", bus.StateWaiting)
	w.must(202, "POST", "/v1/sessions/s/approvals/c1", `{"decision":"allow"}`)
	e.told("s", bus.StateRunning)
	s.say(&schemas.TaskEnd{Status: schemas.StopCompleted, Cause: "done"})
	e.told("s", bus.StateIdle)
	w.create("t") // another one, between
	s.say(&schemas.SessionDeleted{})
	e.told("s", "deleted")
	if err := w.conn.DeleteSession(testContext(t), w.engine.session("t").ref, "double"); err != nil {
		t.Fatal(err)
	}
	e.told("t", "deleted") // without a last word
}

// An engine owns a session that is imported before there is a frame of it, and marks its end from time
// to time meanwhile: the session is told of when it is there, and was never said to be deleted.
func TestProjectStreamTellsOfASessionThatIsImportedSlowly(t *testing.T) {
	w := newWorld(t)
	e := w.openStream("/v1/events", "")
	e.expect(eventWatching)
	s := w.engine.own(schemas.SessionRef{Project: "default", ID: "s"})
	if err := s.owner.PublishTail(); err != nil {
		t.Fatal(err)
	}
	w.create("other")
	var v shownView
	if err := schemas.DecodeJSON([]byte(e.expect("").data), &v); err != nil || v.Session.ID != "other" {
		t.Fatalf("told of %+v, %v", v, err)
	}
	s.append(schemas.NewTraceOnly(time.Now(), &schemas.SessionMeta{SessionID: "s", Provider: "shell", ModelID: "demo"}))
	e.told("s", bus.StateIdle)
	if err := s.owner.PublishTail(); err != nil {
		t.Fatal(err)
	}
	s.say(&schemas.RequestBegin{}, &schemas.TaskEnd{Status: schemas.StopCompleted})
	e.told("s", bus.StateIdle)
}

// Who comes back with an id gets what follows it, once; who can't be told that is told so.
func TestProjectStreamResumes(t *testing.T) {
	w := newWorld(t)
	first := w.openStream("/v1/events", "")
	begun := first.expect(eventWatching).id
	w.create("a")
	a := first.told("a", bus.StateIdle)
	w.create("b")
	b := first.told("b", bus.StateIdle)
	first.close()
	w.create("c")

	for _, row := range []struct {
		after string
		want  []string
	}{
		{begun, []string{"a", "b", "c"}}, {a, []string{"b", "c"}}, {b, []string{"c"}},
	} {
		e := w.openStream("/v1/events", row.after)
		var got []string
		for len(got) < len(row.want) {
			var v shownView
			if err := schemas.DecodeJSON([]byte(e.expect("").data), &v); err != nil {
				t.Fatal(err)
			}
			got = append(got, v.Session.ID)
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("after %s (-want +got)\n%s", row.after, diff)
		}
		e.close()
	}
	other := serve(t, w.conn)
	for why, open := range map[string]func() *events{
		"an id of another gateway": func() *events { return other.openStream("/v1/events", a) },
		"an id of the future":      func() *events { return w.openStream("/v1/events", strings.Split(a, "-")[0]+"-99") },
		"no id at all":             func() *events { return w.openStream("/v1/events?last_event_id=x", "") },
	} {
		e := open()
		t.Log(why)
		e.expect(eventResync)
		e.expect(eventWatching)
		e.close()
	}
	w.must(400, "GET", "/v1/events?last_event_id="+strings.Repeat("x", 200), "")
}

// A broker that was away may have told of something: watchers learn that, and from where on it is whole
// again, as those do that come back themselves.
func TestProjectStreamOutlivesTheBroker(t *testing.T) {
	t.Parallel()
	broker := bustest.Listening(t)
	d := startDouble(t, broker.Conn(t))
	s := serve(t, broker.Conn(t))
	e := s.openStream("/v1/events", "")
	e.expect(eventWatching)
	broker.Stop(0)
	broker.Start(t, 0)
	e.expect(eventResync)
	watching := e.expect(eventWatching)
	var v watchingView
	if err := schemas.DecodeJSON([]byte(watching.data), &v); err != nil || v.Cursor != watching.id {
		t.Errorf("%s is told with the id %s, %v", watching.data, watching.id, err)
	}
	waitFor(t, "the double is back", d.conn.Connected)
	d.open("s")
	got := e.next()
	for got.name == eventResync || got.name == eventWatching { // each of the hub's feeds notices by itself
		got = e.next()
	}
	var shown shownView
	if err := schemas.DecodeJSON([]byte(got.data), &shown); err != nil || shown.Session.ID != "s" {
		t.Errorf("told of %+v, %v", got, err)
	}
	d.stop()
}

// The hub's ring keeps the newest events within its limit, and knows what it does not have.
func TestProjectRing(t *testing.T) {
	h := &projectHub{limit: 200, epoch: "e"}
	h.mu.changed = make(chan struct{})
	for range 50 {
		h.pushLocked("", []byte("{}"))
	}
	if h.mu.size > 200 || h.mu.last != 50 {
		t.Errorf("%d bytes, %d events", h.mu.size, h.mu.last)
	}
	kept := uint64(len(h.mu.ring))
	for _, row := range []struct {
		why    string
		number uint64
		ok     bool
	}{
		{"the end", 50, true}, {"the ring's beginning", 50 - kept, true},
		{"before it", 49 - kept, false}, {"the very beginning", 0, false}, {"beyond the end", 51, false},
	} {
		got, _, ok := h.read(row.number)
		if ok != row.ok || ok && uint64(len(got)) != 50-row.number {
			t.Errorf("%s: %d events, %v", row.why, len(got), ok)
		}
	}
	for _, id := range []string{"", "e", "e-", "e-x", "f-50", "-50", "e--1"} {
		if _, ok := h.place(id); ok {
			t.Errorf("%q is a place", id)
		}
	}
	if n, ok := h.place("e-50"); !ok || n != 50 {
		t.Errorf("e-50 is %d, %v", n, ok)
	}
}

// The first feed that opens begins the hub, and tells of no loss; each one after it does.
func TestProjectBeginsWithItsFirstFeed(t *testing.T) {
	h := &projectHub{limit: 1 << 10, epoch: "e", begun: make(chan struct{})}
	h.mu.changed = make(chan struct{})
	for feed := range uint64(3) {
		h.listening()
		if h.mu.last != 2*feed { // that something is lost, and that changes are told again
			t.Errorf("feed %d: %d events", feed+1, h.mu.last)
		}
		select {
		case <-h.begun:
		default:
			t.Fatalf("feed %d: it has not begun", feed+1)
		}
	}
}

// What was told is told again after a loss, and not before.
func TestProjectTellsOnce(t *testing.T) {
	h := &projectHub{limit: 1 << 10, epoch: "e"}
	h.mu.changed = make(chan struct{})
	stands := func(t *bus.Told) bool { return t.Stands("a", 7) }
	for _, want := range []uint64{1, 1} {
		if err := h.tell(stands, "", deletedView{ID: "a"}); err != nil || h.mu.last != want {
			t.Errorf("%d events, want %d, %v", h.mu.last, want, err)
		}
	}
	h.lost()
	if err := h.tell(stands, "", deletedView{ID: "a"}); err != nil || h.mu.last != 4 {
		t.Errorf("after a loss: %d events, %v", h.mu.last, err)
	}
}
