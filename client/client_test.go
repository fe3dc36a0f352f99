package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"braid/client"
	"braid/schemas"
)

// gated is a model that answers when a gate is opened.
const gated = `
repeat: true
turns:
  - steps:
      - text: ["one ", {wait: go}, two]
`

func TestRun(t *testing.T) {
	w, _ := newWorld(t, nil)
	w.each(t, func(t *testing.T, c *client.Client) {
		s := create(t, c, "shell/demo", schemas.ApproveAll)
		r, err := s.Run(testContext(t), client.Prompt("$ echo hello"))
		if err != nil {
			t.Fatal(err)
		}
		if r.Status != schemas.StopCompleted || !r.Success || r.Turns != 2 || !strings.Contains(r.Output, "hello") ||
			r.TokenUsage.OutputTokens == 0 || len(r.ToolCalls) != 1 || r.Failure != nil {
			t.Errorf("got %+v", r)
		}
		info, err := s.Info(testContext(t))
		if err != nil || info.ID != s.ID() || info.State != "idle" || info.Tasks != 1 || info.TaskStatus != schemas.StopCompleted || info.TaskCause != schemas.CauseDone || info.Model != "shell/demo" {
			t.Errorf("got %+v %v", info, err)
		}
		found := false
		for info, err := range c.Sessions(testContext(t), client.SessionsOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			found = found || info.ID == s.ID()
		}
		if !found {
			t.Error("the session is not in the list")
		}
		var trace strings.Builder
		if err := s.Export(testContext(t), &trace); err != nil || !strings.Contains(trace.String(), s.ID()) {
			t.Errorf("the trace is %q %v", trace.String(), err)
		}
	})
}

// What a prompt says of its caller's trace is recorded with it, and no other prompt has it.
func TestTraced(t *testing.T) {
	w, _ := newWorld(t, nil)
	w.each(t, func(t *testing.T, c *client.Client) {
		s := create(t, c, "shell/demo", schemas.ApproveAll)
		const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		for _, option := range []client.Option{
			client.Traced(parent, "vendor=1"), client.Traced("", ""), client.Traced("a\r\nb: c", "d\r\ne: f"), client.Key("k"),
		} {
			if _, err := s.Run(testContext(t), client.Prompt("hello"), option); err != nil {
				t.Fatal(err)
			}
		}
		var trace strings.Builder
		if err := s.Export(testContext(t), &trace); err != nil {
			t.Fatal(err)
		}
		want := `"taken":"started","caller":{"traceparent":"` + parent + `","tracestate":"vendor=1"}`
		if strings.Count(trace.String(), want) != 1 || strings.Count(trace.String(), "caller") != 1 {
			t.Errorf("the trace is %s", trace.String())
		}
	})
}

// seen is what one range gave until a task ended.
type seen struct {
	messages, turns []string // cursor and JSON
	kinds           []schemas.Kind
	states          []client.State
	last            string
}

// untilEnd ranges until a task ends, and checks the order on the way.
func untilEnd(t *testing.T, s *client.Session, turns bool, after string) seen {
	t.Helper()
	var got seen
	events := s.Stream
	if turns {
		events = s.Turns
	}
	for event, err := range events(testContext(t), client.WatchOptions{After: after}) {
		if err != nil {
			t.Fatal(err)
		}
		switch e := event.(type) {
		case client.State:
			got.states = append(got.states, e)
		case client.Gap:
			t.Fatalf("a gap: %+v", e)
		case client.Message:
			line, err := schemas.Encode(e.Message)
			if err != nil {
				t.Fatal(err)
			}
			got.messages, got.last = append(got.messages, e.Cursor+" "+string(line)), e.Cursor
			got.kinds = append(got.kinds, e.Kind())
			if e.Kind() == schemas.KindTaskEnd {
				return got
			}
		case client.Turn:
			data, err := schemas.EncodeJSON(e.TurnEvent)
			if err != nil {
				t.Fatal(err)
			}
			got.turns, got.last = append(got.turns, e.Cursor+" "+string(data)), e.Cursor
			if e.Type == schemas.TurnDone {
				return got
			}
		}
	}
	t.Fatal("the range ended")
	return got
}

// Both transports give the same events at the same cursors, in both views, from any of them on.
func TestTheTransportsAgree(t *testing.T) {
	w, _ := newWorld(t, nil)
	byHTTP, byNATS := client.New(client.HTTP(w.url, token)), client.New(client.NATS(w.conn, project))
	defer byHTTP.Close()
	session := create(t, byHTTP, "shell/demo", schemas.ApproveAll)
	task, err := session.Start(testContext(t), client.Prompt("$ echo one\n$ echo two"))
	if err != nil {
		t.Fatal(err)
	}
	for _, turns := range []bool{false, true} {
		a := untilEnd(t, session, turns, task.Cursor)
		b := untilEnd(t, byNATS.Session(session.ID()), turns, task.Cursor)
		if diff := cmp.Diff(a.messages, b.messages); diff != "" {
			t.Errorf("(-http +nats)\n%s", diff)
		}
		if diff := cmp.Diff(a.turns, b.turns); diff != "" {
			t.Errorf("(-http +nats)\n%s", diff)
		}
		all := slices.Concat(a.messages, a.turns)
		for i, line := range all[:len(all)-1] {
			cursor, _, _ := strings.Cut(line, " ")
			for name, c := range map[string]*client.Client{"http": byHTTP, "nats": byNATS} {
				rest := untilEnd(t, c.Session(session.ID()), turns, cursor)
				if diff := cmp.Diff(all[i+1:], slices.Concat(rest.messages, rest.turns)); diff != "" {
					t.Errorf("%s after %s (-want +got)\n%s", name, cursor, diff)
				}
			}
		}
	}
}

// An approval in both views: who is asked finds the call in the stream, or in the state.
func TestApproval(t *testing.T) {
	w, _ := newWorld(t, nil)
	w.each(t, func(t *testing.T, c *client.Client) {
		ctx := testContext(t)
		s := create(t, c, "shell/demo", schemas.ApproveAsk)
		task, err := s.Start(ctx, client.Prompt("$ echo yes\n$ echo no"))
		if err != nil {
			t.Fatal(err)
		}
		decided := map[string]bool{}
		for event, err := range s.Turns(ctx, client.WatchOptions{After: task.Cursor}) {
			if err != nil {
				t.Fatal(err)
			}
			if state, ok := event.(client.State); ok {
				for _, call := range state.Pending {
					decide := s.Approve
					if strings.Contains(call.Arguments, "no") {
						decide = s.Deny
					}
					if err := decide(ctx, call.ToolCallID, "0123", client.Key("wrong-"+call.ToolCallID)); !decided[call.ToolCallID] && !client.IsCode(err, schemas.CodeHashMismatch) {
						t.Errorf("another hash: %v", err)
					}
					if err := decide(ctx, call.ToolCallID, call.Hash); err != nil && !decided[call.ToolCallID] {
						t.Error(err)
					}
					decided[call.ToolCallID] = true
				}
			}
			if turn, ok := event.(client.Turn); ok && turn.Type == schemas.TurnDone {
				break
			}
		}
		r, err := task.Wait(ctx)
		if err != nil || len(r.ToolCalls) != 2 || r.ToolCalls[0].IsError || !r.ToolCalls[1].IsError {
			t.Errorf("got %+v %v", r, err)
		}
	})
}

func TestQueueSteerAbortDelete(t *testing.T) {
	w, scripts := newWorld(t, map[string]string{"http": gated, "nats": gated})
	w.each(t, func(t *testing.T, c *client.Client) {
		ctx := testContext(t)
		name := t.Name()[strings.LastIndexByte(t.Name(), '/')+1:]
		s := create(t, c, "scripted/"+name, schemas.ApproveAll)
		first, err := s.Start(ctx, client.Prompt("first"))
		if err != nil || first.Taken != schemas.TakenStarted {
			t.Fatalf("got %+v %v", first, err)
		}
		// A prompt that steers before the first request begins would join it, and end with it below.
		if err := scripts[name].Reached(ctx, "go"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Start(ctx, client.Prompt("second")); !client.IsCode(err, schemas.CodeTaskInProgress) {
			t.Errorf("a busy session: %v", err)
		}
		queue := func(text string) *client.Task {
			task, err := s.Start(ctx, schemas.TaskBody{Prompt: text, WhenBusy: schemas.BusyQueue})
			if err != nil || task.Taken != schemas.TakenQueued {
				t.Fatalf("got %+v %v", task, err)
			}
			return task
		}
		queued, withdrawn := queue("queued"), queue("withdrawn")
		steering, err := s.Steer(ctx, client.Prompt("and this"))
		if err != nil || steering.Taken != schemas.TakenSteering {
			t.Fatalf("got %+v %v", steering, err)
		}
		if err := withdrawn.Withdraw(ctx); err != nil {
			t.Error(err)
		}
		if _, err := withdrawn.Wait(ctx); !errors.Is(err, client.ErrWithdrawn) {
			t.Errorf("a task that was withdrawn: %v", err)
		}
		if err := withdrawn.Withdraw(ctx); !client.IsCode(err, schemas.CodeNotPending) {
			t.Errorf("withdrawn twice: %v", err)
		}
		if info, err := s.Info(ctx); err != nil || info.State != "running" || len(info.Queue) != 2 {
			t.Errorf("got %+v %v", info, err)
		}
		if err := s.Delete(ctx, false); !client.IsCode(err, schemas.CodeTaskInProgress) {
			t.Errorf("delete a busy session: %v", err)
		}
		waiting, giveUp := context.WithCancel(ctx)
		giveUp()
		if _, err := first.Wait(waiting); !errors.Is(err, context.Canceled) {
			t.Errorf("a wait that was given up: %v", err)
		}
		if err := s.Abort(ctx, "enough", false); err != nil {
			t.Error(err)
		}
		if r, err := first.Wait(ctx); err != nil || r.Status != schemas.StopAborted || !r.Aborted {
			t.Errorf("got %+v %v", r, err)
		}
		scripts[name].Release("go")
		for _, task := range []*client.Task{queued, steering} {
			if r, err := task.Wait(ctx); err != nil || r.Output != "one two" {
				t.Errorf("%s: got %+v %v", task.Taken, r, err)
			}
		}
		if err := s.Abort(ctx, "", false); !client.IsCode(err, schemas.CodeNotRunning) {
			t.Errorf("abort an idle session: %v", err)
		}
		if err := s.RetryNow(ctx); !client.IsCode(err, schemas.CodeNotRunning) {
			t.Errorf("retry in an idle session: %v", err)
		}
		if err := s.SetApprovalMode(ctx, schemas.ApproveNone); err != nil {
			t.Error(err)
		}
		watched := false
		for event, err := range s.Stream(ctx, client.WatchOptions{}) {
			if state, ok := event.(client.State); ok && !watched {
				watched = true
				if state.State != "idle" {
					t.Errorf("the state is %+v", state)
				}
				if err := s.Delete(ctx, false); err != nil {
					t.Error(err)
				}
			}
			if err != nil && !client.IsCode(err, schemas.CodeDeleted) && !client.IsCode(err, schemas.CodeUnknownSession) {
				t.Errorf("a deleted session is watched: %v", err)
			}
		}
		if err := s.Delete(ctx, false); err != nil {
			t.Errorf("deleted twice: %v", err)
		}
	})
}

// What is refused is told with the server's own code and field.
func TestRefusals(t *testing.T) {
	w, _ := newWorld(t, nil)
	w.each(t, func(t *testing.T, c *client.Client) {
		ctx := testContext(t)
		s := create(t, c, "shell/demo", schemas.ApproveAll)
		image := schemas.InputPart{Type: schemas.KindImageURL, ImageURL: "ftp://somewhere"}
		for _, test := range []struct {
			why   string
			err   error
			code  schemas.Code
			field string
		}{
			{"a model of no provider", second(c.Create(ctx, client.CreateOptions{CreateBody: schemas.CreateBody{Model: "no/where"}})), schemas.CodeUnknownModel, "model"},
			{"a session that exists", second(c.Create(ctx, client.CreateOptions{ID: s.ID(), CreateBody: schemas.CreateBody{Model: "shell/demo"}})), schemas.CodeSessionExists, ""},
			{"no session", second(c.Session("none").Info(ctx)), schemas.CodeUnknownSession, ""},
			{"a task of no session", second(c.Session("none").Run(ctx, client.Prompt("hi"))), schemas.CodeUnknownSession, ""},
			{"a name that is none", second(c.Session("a/b").Info(ctx)), schemas.CodeInvalid, "session"},
			{"a key that is no name", second(s.Run(ctx, client.Prompt("hi"), client.Key("a b"))), schemas.CodeInvalid, "key"},
			{"a picture that is none", second(s.Run(ctx, schemas.TaskBody{Input: []schemas.InputTurn{{Role: schemas.RoleUser, Content: []schemas.InputPart{image}}}})), schemas.CodeInvalid, "input[0].content[0].image_url"},
			{"a call that does not wait", s.Approve(ctx, "c1", ""), schemas.CodeNotPending, ""},
			{"a mode that is none", s.SetApprovalMode(ctx, "perhaps"), schemas.CodeInvalid, "approval_mode"},
		} {
			refused, ok := errors.AsType[*schemas.Error](test.err)
			if !ok || refused.Code != test.code || refused.Field != test.field {
				t.Errorf("%s: %#v", test.why, test.err)
			}
		}
		for _, turns := range []bool{false, true} {
			events := c.Session("none").Stream
			if turns {
				events = c.Session("none").Turns
			}
			n := 0
			for _, err := range events(ctx, client.WatchOptions{}) {
				if n++; !client.IsCode(err, schemas.CodeUnknownSession) {
					t.Errorf("watch no session: %v", err)
				}
			}
			if n != 1 {
				t.Errorf("%d elements", n)
			}
		}
	})
	c := client.New(client.HTTP(w.url, "wrong"))
	defer c.Close()
	if _, err := c.Session("s").Info(testContext(t)); !client.IsCode(err, schemas.CodeUnauthorized) {
		t.Errorf("a wrong token: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }
