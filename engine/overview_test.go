package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// modest is a model that says what it used.
const modest = `
turns:
  - steps: [{text: done}, {usage: {total: 12, output: 2}}]
`

// Lists and usage tell of what happened, and refuse what they can't mean.
func TestOverview(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"counted": modest})
	h.engine("e1", func(o *Options) { o.Prices = Prices{"scripted/counted": {Input: schemas.Dollar}, "gone/x": {}} })
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	h.create("scripted/counted", schemas.ApproveAll)
	other := schemas.SessionRef{Project: ref.Project, ID: "t"} // behind "s" also if all of it took less than a millisecond
	h.putAgent(schemas.Agent{Name: "a", Model: "shell/demo"})
	made := h.send(schemas.Command{ID: "create", Type: schemas.CommandCreate, Session: other, Create: &schemas.CreateBody{Model: "shell/demo", Agent: "a"}})
	h.task("t1", "hello")
	h.follow(taskEnded)
	ends, err := h.conn.SessionEnds(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	h.caughtUp(other, made.Log)
	h.caughtUp(ref, ends.Log)
	info, err := h.conn.AskSession(ctx, ref, ends.Log)
	if err != nil {
		t.Fatal(err)
	}

	for _, row := range []struct {
		why  string
		args bus.SessionsArgs
		want []string
	}{
		{"all of them, the last active first", bus.SessionsArgs{}, []string{"s", "t"}},
		{"an agent's", bus.SessionsArgs{Agent: "a"}, []string{"t"}},
		{"a model's", bus.SessionsArgs{Model: "scripted/counted"}, []string{"s"}},
		{"those at rest", bus.SessionsArgs{State: "idle"}, []string{"s", "t"}},
		{"those whose last task ended well", bus.SessionsArgs{TaskStatus: []schemas.StopReason{schemas.StopCompleted}}, []string{"s"}},
		{"those whose last task did not", bus.SessionsArgs{TaskStatus: []schemas.StopReason{schemas.StopFailed, schemas.StopTimeout}}, nil},
		{"those that wait", bus.SessionsArgs{State: "waiting"}, nil},
		{"those that are not older than one", bus.SessionsArgs{CreatedSince: info.Created}, []string{"s", "t"}},
		{"those that are older than it", bus.SessionsArgs{CreatedUntil: info.Created}, nil},
	} {
		row.args.Current = true
		page, err := h.conn.AskSessions(ctx, ref.Project, row.args)
		if err != nil {
			t.Fatalf("%s: %v", row.why, err)
		}
		var got []string
		for _, s := range page.Sessions {
			got = append(got, s.Session.ID)
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", row.why, diff)
		}
	}
	for field, args := range map[string]bus.SessionsArgs{
		"state": {State: "resting"}, "task_status": {TaskStatus: []schemas.StopReason{schemas.StopFailed, "fialed"}}, "created_since": {CreatedSince: "yesterday"}, "created_until": {CreatedUntil: "2026-01-02"}, "cursor": {Cursor: "!"},
	} {
		_, err := h.conn.AskSessions(ctx, ref.Project, args)
		if refused, ok := errors.AsType[*schemas.Error](err); !ok || refused.Code != schemas.CodeInvalid || refused.Field != field {
			t.Errorf("an odd %s: %v", field, err)
		}
	}

	today := time.Now().UTC()
	days := bus.UsageArgs{From: today.AddDate(0, 0, -1).Format(time.DateOnly), To: today.AddDate(0, 0, 1).Format(time.DateOnly)}
	for _, of := range []schemas.SessionRef{{Project: ref.Project}, ref} {
		table, err := h.conn.AskUsage(ctx, of, 0, days)
		if err != nil || len(table.Rows) != 1 || table.Rows[0].Model != "scripted/counted" || table.Rows[0].Requests != 1 || table.Rows[0].Tokens.Total != info.TotalTokens || info.TotalTokens == 0 {
			t.Errorf("usage of %v: %+v, %v; the session used %d", of, table, err, info.TotalTokens)
		}
	}
	if table, err := h.conn.AskUsage(ctx, other, 0, days); err != nil || len(table.Rows) != 0 {
		t.Errorf("usage of a session without tasks: %+v, %v", table, err)
	}
	for field, args := range map[string]bus.UsageArgs{"to": {From: "2026-01-02"}, "from": {From: "soon", To: "2026-01-02"}} {
		_, err := h.conn.AskUsage(ctx, ref, 0, args)
		if refused, ok := errors.AsType[*schemas.Error](err); !ok || refused.Field != field {
			t.Errorf("an odd %s: %v", field, err)
		}
	}

	list, err := h.conn.AskModels(ctx, ref.Project)
	if err != nil {
		t.Fatal(err)
	}
	want := bus.ModelList{
		Models:    []bus.ModelInfo{{Name: "scripted/counted", Price: &bus.ModelPrice{Input: schemas.Dollar}}, {Name: "shell/demo"}},
		Providers: []string{"scripted", "shell"},
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("models (-want +got)\n%s", diff)
	}
}
