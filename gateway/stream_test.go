package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/schemas"
)

func TestStream(t *testing.T) {
	w := newWorld(t)
	w.create("s")
	e := w.openStream("/v1/sessions/s/stream", "")
	if state := e.state(); state.State != bus.StateIdle || len(state.Pending) != 0 {
		t.Errorf("a new session is %+v", state)
	}
	start := w.task("s")
	s := w.engine.session("s")
	s.say(schemas.TextFragment(schemas.PhaseStart, ""), schemas.TextFragment(schemas.PhaseDelta, "<he"))
	s.say(schemas.TextFragment(schemas.PhaseDelta, "llo>"))
	s.say(schemas.TextFragment(schemas.PhaseStop, ""), schemas.AssistantText("<hello>"))
	s.say(&schemas.TokenUsage{}, &schemas.RequestEnd{Status: schemas.StopCompleted})
	s.say(&schemas.TaskEnd{Status: schemas.StopCompleted, Cause: "done"})
	want := s.seen(false)
	if diff := cmp.Diff(want, e.take(len(want))); diff != "" {
		t.Errorf("(-stored +streamed)\n%s", diff)
	}

	again := w.openStream("/v1/sessions/s/stream?include=prompt", start.Cursor)
	want = s.seen(true)
	if !strings.Contains(want[0], "go on") {
		t.Fatalf("the prompt is not the first message: %s", want[0])
	}
	got, state := again.resumed(len(want))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("from the cursor of the task (-stored +streamed)\n%s", diff)
	}
	if state.State != bus.StateIdle {
		t.Errorf("after the task: %+v", state)
	}
	if a := w.do("GET", "/v1/sessions/none/stream", ""); a.status != http.StatusNotFound {
		t.Errorf("an unknown session: %d %s", a.status, a.body)
	}
}
