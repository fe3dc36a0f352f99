package client_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/client"
	"braid/schemas"
)

// said is how much a model says while a range is stalled, in bytes: more than anything keeps for it.
const said = 2 << 20

// stalled is a range in which nothing is taken from its first state on until meanwhile returns. It gives
// what comes until a task ends.
func stalled(t *testing.T, events func(func(client.Event, error) bool), meanwhile func()) (got []client.Event) {
	t.Helper()
	begun := false
	for event, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, event)
		switch e := event.(type) {
		case client.State:
			if !begun {
				begun = true
				meanwhile()
			}
		case client.Message:
			if e.Kind() == schemas.KindTaskEnd {
				return got
			}
		case client.Turn:
			if e.Type == schemas.TurnDone {
				return got
			}
		}
	}
	t.Fatal("the range ended")
	return nil
}

// shortLived is how long fragments live that are to expire. The engine stores what is open four times in
// that time: a large text, which takes so long under the race detector that a slow machine gets to nothing
// else if it has to be done every second.
const shortLived = 10 * time.Second

// longTask runs a task whose model says much, to its end. A stalled range keeps it from nothing.
func longTask(t *testing.T, ctx context.Context, s *client.Session) {
	t.Helper()
	if r, err := s.Run(ctx, client.Prompt("go")); err != nil || len(r.Output) != said {
		t.Errorf("%d bytes are said, %v", len(r.Output), err)
	}
}

// In the stream of messages a stalled range gets what fits its bounds, then a gap that says that
// fragments are missing, then everything that is recorded, each once and in order.
func TestAStalledStream(t *testing.T) {
	script := "turns:\n  - steps:\n      - text: " + strings.Repeat("0123456789abcdef", said/16) + "\n        deltas: 150\n"
	w, _ := newWorldOf(t, map[string]string{"m": script}, bus.Topology{LiveTTL: shortLived})
	w.each(t, func(t *testing.T, c *client.Client) {
		ctx := testContext(t)
		s := create(t, c, "scripted/m", schemas.ApproveAll)
		got := stalled(t, s.Stream(ctx, client.WatchOptions{}), func() {
			longTask(t, ctx, s)
			w.expire(t, s.ID())
		})
		var want, kept []string
		for m, err := range s.History(ctx, "") {
			if err != nil {
				t.Fatal(err)
			}
			if m.Shown(false) {
				want = append(want, m.Cursor+" "+string(m.Kind()))
			}
		}
		fragments, gaps := 0, 0
		last := ""
		for _, event := range got {
			switch e := event.(type) {
			case client.Gap:
				if gaps++; e.Reset || e.Reason == "" {
					t.Errorf("the gap is %+v", e)
				}
			case client.Message:
				if p, ok := e.Payload.(*schemas.PartialText); ok {
					fragments += len(p.Text)
					continue
				}
				if e.Cursor == last {
					t.Errorf("%s comes twice", last)
				}
				if last = e.Cursor; e.Recorded() {
					kept = append(kept, e.Cursor+" "+string(e.Kind()))
				}
			}
		}
		if diff := cmp.Diff(want, kept); diff != "" {
			t.Errorf("what is recorded (-stored +given)\n%s", diff)
		}
		if gaps == 0 || fragments == said {
			t.Errorf("%d gaps; %d bytes of fragments were kept for the range", gaps, fragments)
		}
	})
}

// What is stored still is read for a range that was stalled: it gets all of it, without a gap.
func TestAStalledStreamIsFilled(t *testing.T) {
	script := "turns:\n  - steps:\n      - text: " + strings.Repeat("0123456789abcdef", said/16) + "\n        deltas: 150\n"
	w, _ := newWorld(t, map[string]string{"m": script})
	w.each(t, func(t *testing.T, c *client.Client) {
		ctx := testContext(t)
		s := create(t, c, "scripted/m", schemas.ApproveAll)
		fragments := 0
		for _, event := range stalled(t, s.Stream(ctx, client.WatchOptions{}), func() { longTask(t, ctx, s) }) {
			switch e := event.(type) {
			case client.Gap:
				t.Errorf("a gap: %+v", e)
			case client.Message:
				if p, ok := e.Payload.(*schemas.PartialText); ok {
					fragments += len(p.Text)
				}
			}
		}
		if fragments != said {
			t.Errorf("%d bytes are streamed, want %d", fragments, said)
		}
	})
}

// Turns are made of what is recorded, which does not expire: a stalled range gets each of them.
func TestAStalledViewOfTurns(t *testing.T) {
	script := "turns:\n  - steps:\n      - text: " + strings.Repeat("0123456789abcdef", said/16) + "\n        deltas: 150\n"
	w, _ := newWorldOf(t, map[string]string{"m": script}, bus.Topology{LiveTTL: shortLived})
	w.each(t, func(t *testing.T, c *client.Client) {
		ctx := testContext(t)
		s := create(t, c, "scripted/m", schemas.ApproveAll)
		got := stalled(t, s.Turns(ctx, client.WatchOptions{}), func() {
			longTask(t, ctx, s)
			w.expire(t, s.ID())
		})
		var types []string
		for _, event := range got {
			switch e := event.(type) {
			case client.Gap:
				t.Errorf("a gap: %+v", e)
			case client.Turn:
				types = append(types, string(e.Type))
			}
		}
		if want := []string{"text", "done"}; !slices.Equal(types, want) {
			t.Errorf("got %v, want %v", types, want)
		}
	})
}

// A stalled range over all sessions is told what it costs, and is told of none wrongly.
func TestStalledEvents(t *testing.T) {
	w, _ := newWorld(t, nil)
	w.each(t, func(t *testing.T, c *client.Client) {
		ctx := testContext(t)
		const many = 40
		var sessions []*client.Session
		states := map[string]bus.SessionState{}
		for event, err := range c.Events(ctx, "") {
			if err != nil {
				t.Fatal(err)
			}
			switch e := event.(type) {
			case client.Missed: // nobody tells again what is over by now
				for _, s := range sessions {
					info, err := s.Info(ctx)
					if err != nil {
						t.Fatal(err)
					}
					states[s.ID()] = info.State
				}
			case client.Watching:
				for range many - len(sessions) {
					s := create(t, c, "shell/demo", schemas.ApproveAll)
					if _, err := s.Run(ctx, client.Prompt("hello")); err != nil {
						t.Fatal(err)
					}
					sessions = append(sessions, s)
				}
			case client.Changed:
				states[e.ID] = e.State
			}
			if !slices.ContainsFunc(sessions, func(s *client.Session) bool { return states[s.ID()] != bus.StateIdle }) {
				break
			}
		}
	})
}
