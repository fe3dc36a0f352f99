package engine

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/bus/bustest"
	"braid/llm"
	"braid/llm/scripted"
	"braid/schemas"
	"braid/trace"
)

// Who asks sees the models a session may go to, and which one its task is with. What was used and what
// failed counts for the model that was asked.
func TestFallbackIsTold(t *testing.T) {
	t.Parallel()
	scripts := map[string]*scripted.Script{}
	for name, text := range map[string]string{
		"m":      "turns: [{steps: [{fail: {status: auth, message: no key}}]}]",
		"backup": "turns: [{steps: [{text: [half, {wait: told}, done]}, {usage: {output: 2, total: 5}}]}]",
	} {
		script, err := scripted.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		scripts[name] = script
	}
	h := newHouse(t, bustest.Single(t), nil)
	var err error
	if h.models, err = llm.NewCatalog(scripted.New(scripts)); err != nil {
		t.Fatal(err)
	}
	e := h.engine("e1")
	h.send(schemas.Command{ID: "c", Type: schemas.CommandCreate, Session: ref, Create: &schemas.CreateBody{
		Model: "scripted/m", FallbackModels: []string{"scripted/backup"},
	}})
	h.task("t", "go")
	h.follow(func(m schemas.Message) bool { _, ok := m.Payload.(*schemas.PartialText); return ok })
	active := func() string {
		t.Helper()
		ends, err := h.conn.SessionEnds(context.Background(), ref)
		if err != nil {
			t.Fatal(err)
		}
		h.caughtUp(ref, ends.Log)
		info, err := h.conn.AskSession(context.Background(), ref, ends.Log)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"scripted/m", "scripted/backup"}, append([]string{info.Model}, info.FallbackModels...)); diff != "" {
			t.Errorf("the session's models (-want +got)\n%s", diff)
		}
		return info.ActiveModel
	}
	if got := active(); got != "scripted/backup" {
		t.Errorf("the task is with %q", got)
	}
	if err := scripts["backup"].Release("told"); err != nil {
		t.Fatal(err)
	}
	h.follow(taskEnded)
	if got := active(); got != "" {
		t.Errorf("at rest the session is with %q", got)
	}
	today := trace.DayOf(time.Now())
	rows, err := e.store.Usage(context.Background(), ref.Project, today-1, today+1)
	if err != nil || len(rows) != 1 || rows[0].Model != "scripted/backup" || rows[0].Tokens.Total != 5 {
		t.Errorf("used: %+v, %v", rows, err)
	}
	failures, err := e.store.Failures(context.Background(), ref.Project, trace.FailureFilter{}, trace.Paging{})
	if err != nil || len(failures.Failures) != 1 || failures.Failures[0].Model != "scripted/m" {
		t.Errorf("failed: %+v, %v", failures, err)
	}
}
