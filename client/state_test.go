package client_test

import (
	"iter"
	"strings"
	"testing"

	"braid/client"
	"braid/schemas"
)

// A state holds where its cursor says, also if the session goes on while it is asked for.
func TestAStateHoldsAtItsCursor(t *testing.T) {
	const script = "turns:\n  - steps: [{text: one}]\n  - steps: [{text: [two, {wait: go}]}]\n"
	w, scripts := newWorld(t, map[string]string{"http-messages": script, "http-turns": script, "nats-messages": script, "nats-turns": script})
	w.each(t, func(t *testing.T, c *client.Client) {
		ctx := testContext(t)
		for view, watch := range map[string]func(*client.Session, string) iter.Seq2[client.Event, error]{
			"messages": func(s *client.Session, after string) iter.Seq2[client.Event, error] {
				return s.Stream(ctx, client.WatchOptions{After: after})
			},
			"turns": func(s *client.Session, after string) iter.Seq2[client.Event, error] {
				return s.Turns(ctx, client.WatchOptions{After: after})
			},
		} {
			model := t.Name()[strings.LastIndexByte(t.Name(), '/')+1:] + "-" + view
			s := create(t, c, "scripted/"+model, schemas.ApproveAll)
			first, err := s.Start(ctx, client.Prompt("one"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := first.Wait(ctx); err != nil {
				t.Fatal(err)
			}
			var second *client.Task
			for event, err := range watch(s, first.Cursor) {
				if err != nil {
					t.Fatal(err)
				}
				if second == nil && ends(event) { // all there was is given, and the state not asked for yet
					if second, err = s.Start(ctx, client.Prompt("two")); err != nil {
						t.Fatal(err)
					}
				}
				state, ok := event.(client.State)
				if !ok {
					continue
				}
				if second == nil {
					t.Fatalf("%s: a state comes before what was missed: %+v", view, state)
				}
				if running := isBefore(t, second.Cursor, state.Cursor); running != (state.State == "running") {
					t.Errorf("%s: %s at %s, where the task has begun: %t", view, state.State, state.Cursor, running)
				}
				break
			}
			scripts[model].Release("go")
			if _, err := second.Wait(ctx); err != nil {
				t.Error(err)
			}
		}
	})
}

// ends reports that an event is the end of a task.
func ends(event client.Event) bool {
	switch e := event.(type) {
	case client.Message:
		return e.Kind() == schemas.KindTaskEnd
	case client.Turn:
		return e.Type == schemas.TurnDone
	}
	return false
}

// isBefore reports that one cursor of a stream is before another.
func isBefore(t *testing.T, a, b string) bool {
	t.Helper()
	x, err := schemas.ParseCursor(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := schemas.ParseCursor(b)
	if err != nil {
		t.Fatal(err)
	}
	return x.Position.Compare(y.Position) < 0
}
