package client_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/client"
	"braid/schemas"
)

func TestAgents(t *testing.T) {
	w, _ := newWorld(t, nil)
	w.each(t, func(t *testing.T, c *client.Client) {
		ctx := testContext(t)
		coder := schemas.Agent{
			Name: "coder", Model: "shell/demo", SystemPrompt: "Code.", Tools: []string{"exec_*"}, ApprovalMode: schemas.ApproveAll,
			Limits: schemas.Limits{MaxTurns: 7},
		}
		if err := c.PutAgent(ctx, coder); err != nil {
			t.Fatal(err)
		}
		got, err := c.Agent(ctx, "coder")
		if diff := cmp.Diff(coder, got); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		all, err := c.Agents(ctx)
		if diff := cmp.Diff([]schemas.Agent{coder}, all); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		s, err := c.Create(ctx, client.CreateOptions{CreateBody: schemas.CreateBody{Agent: "coder"}})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := s.Info(ctx); err != nil || info.Agent != "coder" || info.Limits.MaxTurns != 7 || info.Model != "shell/demo" {
			t.Errorf("its session is %+v %v", info, err)
		}
		trace := []byte(`{"timestamp":"2026-11-30T08:00:00.000Z","type":"session_meta","payload":{"session_id":"old","provider":"no","model_id":"such","system_prompt":"","workspace":""}}`)
		made, err := c.Import(ctx, trace, client.ImportOptions{Agent: "coder"})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := made.Info(ctx); err != nil || info.Agent != "coder" || info.ApprovalMode != schemas.ApproveAll || info.Limits.MaxTurns != 7 {
			t.Errorf("an import of it is %+v %v", info, err)
		}
		for range 2 {
			if err := c.DeleteAgent(ctx, "coder"); err != nil {
				t.Error(err)
			}
		}
		for _, row := range []struct {
			why  string
			err  error
			code schemas.Code
		}{
			{"it is gone", second(c.Agent(ctx, "coder")), schemas.CodeNotFound},
			{"an import of what is gone", second(c.Import(ctx, trace, client.ImportOptions{Agent: "coder"})), schemas.CodeInvalid},
			{"a name that is none", second(c.Agent(ctx, "a/b")), schemas.CodeInvalid},
			{"no model", c.PutAgent(ctx, schemas.Agent{Name: "x"}), schemas.CodeInvalid},
			{"a name that can't be deleted", c.DeleteAgent(ctx, "a b"), schemas.CodeInvalid},
		} {
			if !client.IsCode(row.err, row.code) {
				t.Errorf("%s: %v", row.why, row.err)
			}
		}
	})
}

func TestUsage(t *testing.T) {
	w, _ := newWorld(t, nil)
	w.each(t, func(t *testing.T, c *client.Client) {
		ctx := testContext(t)
		s := create(t, c, "shell/demo", schemas.ApproveAll)
		if _, err := s.Run(ctx, client.Prompt("hello")); err != nil {
			t.Fatal(err)
		}
		one, err := c.Usage(ctx, client.UsageOptions{Session: s.ID()})
		if err != nil || one.Total.Requests != 1 || one.Total.Tokens.Total == 0 || one.From != "" || len(one.Usage) != 1 || one.Usage[0].Model != "shell/demo" {
			t.Errorf("of a session: %+v %v", one, err)
		}
		all, err := c.Usage(ctx, client.UsageOptions{})
		if err != nil || all.Total.Requests < 1 || all.From == "" || all.To < one.To { // a day may end in between
			t.Errorf("of all: %+v %v", all, err)
		}
		day := time.Date(2020, 2, 29, 12, 0, 0, 0, time.UTC)
		old, err := c.Usage(ctx, client.UsageOptions{From: day, To: day})
		if err != nil || old.Total.Requests != 0 || old.From != "2020-02-29" || old.To != old.From {
			t.Errorf("of a day long ago: %+v %v", old, err)
		}
		if _, err := c.Usage(ctx, client.UsageOptions{Session: "none"}); !client.IsCode(err, schemas.CodeUnknownSession) {
			t.Errorf("of no session: %v", err)
		}
	})
}

// All sessions on one range: who keeps a list hears of each change, and the end of it.
func TestEvents(t *testing.T) {
	w, _ := newWorld(t, nil)
	w.each(t, func(t *testing.T, c *client.Client) {
		ctx := testContext(t)
		s, last := c.Session("none-yet"), ""
		var told []string
		for event, err := range c.Events(ctx, "") {
			if err != nil {
				t.Fatal(err)
			}
			switch e := event.(type) {
			case client.Watching:
				s = create(t, c, "shell/demo", schemas.ApproveAsk)
				if _, err := s.Start(ctx, client.Prompt("$ echo hello")); err != nil {
					t.Fatal(err)
				}
			case client.Missed:
				t.Errorf("something was missed: %s", e.Reason)
			case client.Changed:
				if e.ID != s.ID() {
					continue
				}
				last = e.Cursor
				if told = append(told, string(e.State)); len(e.Pending) == 1 {
					if err := s.Approve(ctx, e.Pending[0].ToolCallID, e.Pending[0].Hash); err != nil && !client.IsCode(err, schemas.CodeNotPending) {
						t.Error(err)
					}
				}
				if e.State == "idle" && e.Turns == 2 {
					if err := s.Delete(ctx, false); err != nil {
						t.Fatal(err)
					}
				}
			case client.Deleted:
				if e.ID == s.ID() {
					told = append(told, "deleted")
				}
			}
			if slices.Contains(told, "deleted") {
				break
			}
		}
		if !slices.Contains(told, "waiting") || told[len(told)-2] != "idle" || last == "" {
			t.Errorf("told %v, at %q", told, last)
		}
	})
}

// What can't be resumed says so, and what is whole begins there; from a cursor that is kept nothing is
// told twice.
func TestEventsResumed(t *testing.T) {
	w, _ := newWorld(t, nil)
	w.each(t, func(t *testing.T, c *client.Client) {
		var got []client.ProjectEvent
		for event, err := range c.Events(testContext(t), "elsewhere-7") {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, event); len(got) == 2 {
				break
			}
		}
		if _, ok := got[0].(client.Missed); !ok {
			t.Errorf("first comes %+v", got[0])
		}
		if _, ok := got[1].(client.Watching); !ok {
			t.Errorf("then comes %+v", got[1])
		}
	})
	f := &faults{cut: func() int { return 1000 }}
	c := client.New(client.HTTP(f.proxy(t, w.url), token))
	defer c.Close()
	places := map[string]bool{}
	var made []string
	for event, err := range c.Events(testContext(t), "") {
		if err != nil {
			t.Fatal(err)
		}
		switch e := event.(type) {
		case client.Watching:
			for range 6 {
				made = append(made, create(t, c, "shell/demo", schemas.ApproveAll).ID())
			}
		case client.Missed:
			t.Errorf("something was missed: %s", e.Reason)
		case client.Changed:
			if places[e.Cursor] {
				t.Errorf("%s is told twice", e.Cursor)
			}
			places[e.Cursor] = true
			made = slices.DeleteFunc(made, func(id string) bool { return id == e.ID })
		}
		if len(places) > 0 && len(made) == 0 {
			break
		}
	}
	if f.requests.Load() < 8 { // six are made, and one stream is opened
		t.Errorf("%d requests: the connection never broke", f.requests.Load())
	}
}
