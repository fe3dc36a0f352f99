package main

import (
	"bytes"
	"context"
	"iter"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/client"
	"braid/internal/cli"
	"braid/schemas"
)

// busySession is a session of a whole system whose task waits for a person.
type busySession struct {
	t    *testing.T
	url  string
	api  *apiClient
	path string
}

func newBusySession(t *testing.T) *busySession {
	t.Helper()
	url := devServer(t, "--data", t.TempDir())
	b := &busySession{t: t, url: url, api: newAPI((&serverFlags{url: url}).target()), path: "/v1/sessions/s"}
	t.Cleanup(b.api.close)
	b.post("/v1/sessions", map[string]any{"id": "s", "model": "shell/demo", "approval_mode": "always-ask", "approval_timeout_ms": 600000, "limits": map[string]any{"max_turns": 7}}, nil)
	var first accepted
	if b.post(b.path+"/tasks", map[string]any{"prompt": "$ echo one"}, &first); first.Taken != schemas.TakenStarted {
		t.Fatalf("the first: %+v", first)
	}
	return b
}

// accepted is what the gateway says of a prompt.
type accepted struct {
	CommandID string             `json:"command_id"`
	Taken     schemas.Taken      `json:"taken"`
	Result    *schemas.TurnEvent `json:"result"`
}

func (b *busySession) post(path string, body, out any) {
	b.t.Helper()
	if err := b.api.call(context.Background(), path, body, out); err != nil {
		b.t.Errorf("%s: %v", path, err)
	}
}

// shown is the session as the gateway shows it.
type shown struct {
	State   string                `json:"state"`
	Pending []bus.PendingApproval `json:"pending"`
	Queue   []bus.QueuedTask      `json:"queue"`
	Mode    schemas.ApprovalMode  `json:"approval_mode"`
	Timeout int64                 `json:"approval_timeout_ms"`
	Limits  schemas.Limits        `json:"limits"`
}

// await waits until the session is shown so.
func (b *busySession) await(what string, holds func(shown) bool) shown {
	b.t.Helper()
	var seen struct {
		Session shown `json:"session"`
	}
	if !eventually(func() bool {
		var text strings.Builder
		if err := b.api.copy(context.Background(), b.path, &text); err != nil {
			b.t.Fatal(err)
		}
		seen.Session = shown{}
		if err := schemas.DecodeJSON([]byte(text.String()), &seen); err != nil {
			b.t.Fatal(err)
		}
		return holds(seen.Session)
	}) {
		b.t.Fatalf("%s: %+v", what, seen.Session)
	}
	return seen.Session
}

// eventually tries until it holds; false if it never does.
func eventually(holds func() bool) bool {
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			return false
		}
	}
	return true
}

func (b *busySession) refused(code schemas.Code, method, path string, body any) {
	b.t.Helper()
	response, err := b.api.do(context.Background(), method, path, body, nil)
	if err == nil {
		response.Body.Close()
	}
	if e, ok := err.(*schemas.Error); !ok || e.Code != code {
		b.t.Errorf("%s %s: %v, want %s", method, path, err, code)
	}
}

// A busy session refuses a prompt, or has it wait, be seen and be taken back, as its sender says.
func TestPromptsForABusySession(t *testing.T) {
	b := newBusySession(t)
	// What steers a task before its first request joins that: the model would answer it, and ask for nothing.
	b.await("a question", func(s shown) bool { return len(s.Pending) == 1 })
	b.refused(schemas.CodeTaskInProgress, http.MethodPost, b.path+"/tasks", map[string]any{"prompt": "now"})
	b.refused(schemas.CodeInvalid, http.MethodPost, b.path+"/tasks", map[string]any{"prompt": "now", "when_busy": "hurry"})
	b.refused(schemas.CodeInvalid, http.MethodPost, b.path+"/tasks?wait=1h", map[string]any{"prompt": "now"})
	var waits, steers accepted
	b.post(b.path+"/tasks", map[string]any{"prompt": "wait", "when_busy": "queue"}, &waits)
	b.post(b.path+"/steer", map[string]any{"prompt": "rather not"}, &steers)
	if waits.Taken != schemas.TakenQueued || steers.Taken != schemas.TakenSteering {
		t.Errorf("taken: %+v, %+v", waits, steers)
	}
	s := b.await("both wait", func(s shown) bool { return len(s.Queue) == 2 })
	want := []bus.QueuedTask{{TaskID: waits.CommandID, Prompt: "wait"}, {TaskID: steers.CommandID, Prompt: "rather not", Steers: true}}
	if diff := cmp.Diff(want, s.Queue); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, task := range []string{waits.CommandID, steers.CommandID} {
		response, err := b.api.do(context.Background(), http.MethodDelete, b.path+"/tasks/"+task, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		b.refused(schemas.CodeNotPending, http.MethodDelete, b.path+"/tasks/"+task, nil)
	}
	b.post(b.path+"/abort", map[string]any{}, nil)
	b.await("at rest", func(s shown) bool { return s.State == "idle" && len(s.Queue) == 0 })
	b.refused(schemas.CodeNotRunning, http.MethodPost, b.path+"/steer", map[string]any{"prompt": "too late"})
}

// A run that waits for its turn shows nothing of the tasks before it, and decides on none of their
// calls; a request that waits for its task gets what that came to.
func TestRunsThatWait(t *testing.T) {
	b := newBusySession(t)
	first := b.await("a question", func(s shown) bool { return len(s.Pending) == 1 })
	var waiting sync.WaitGroup
	defer waiting.Wait()
	waiting.Go(func() {
		code, stdout, stderr := braid(t, "run", "--server", b.url, "--session", "s", "--when-busy", "queue", "just words")
		if code != cli.ExitOK || strings.Contains(stdout, "one") || strings.Contains(stderr, "denied") || !strings.Contains(stderr, "is queued") {
			t.Errorf("run: %d\n%s%s", code, stdout, stderr)
		}
	})
	b.await("the run waits", func(s shown) bool { return len(s.Queue) == 1 })
	waiting.Go(func() {
		var last accepted
		b.post(b.path+"/tasks?wait=60", map[string]any{"prompt": "more words", "when_busy": "queue"}, &last)
		if last.Result == nil || last.Result.Type != schemas.TurnDone || last.Result.Data.(*schemas.TaskResult).TaskID != last.CommandID {
			t.Errorf("the last: %+v", last)
		}
	})
	b.await("both wait", func(s shown) bool { return len(s.Queue) == 2 })
	if s := b.await("the same question", func(shown) bool { return true }); !cmp.Equal(first.Pending, s.Pending) {
		t.Errorf("the run decided: %+v", s.Pending)
	}
	var soon accepted
	b.post(b.path+"/tasks?wait=0", map[string]any{"prompt": "at last", "when_busy": "queue"}, &soon)
	if soon.Result != nil || soon.Taken != schemas.TakenQueued {
		t.Errorf("not waited for: %+v", soon)
	}
	b.post(b.path+"/approvals/"+first.Pending[0].ToolCallID, map[string]any{"decision": "allow"}, nil)
	b.await("at rest", func(s shown) bool { return s.State == "idle" && len(s.Queue) == 0 })
}

// A session shows by what rules it runs: as it was created, as it was changed since, and by default.
func TestSessionShowsWhatIsInForce(t *testing.T) {
	b := newBusySession(t)
	s := b.await("a question", func(s shown) bool { return len(s.Pending) == 1 })
	want := schemas.Limits{MaxTurns: 7}.WithDefaults()
	if s.Mode != schemas.ApproveAsk || s.Timeout != 600000 || s.Limits != want {
		t.Errorf("%+v", s)
	}
	response, err := b.api.do(context.Background(), http.MethodPatch, b.path, map[string]any{"approval_mode": "deny-all"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	b.await("the new mode", func(s shown) bool { return s.Mode == schemas.ApproveNone && s.State == "idle" })
}

// An interrupted run has its task aborted, and waits for its end.
func TestRunIsInterrupted(t *testing.T) {
	url := devServer(t, "--data", t.TempDir())
	for range 3 {
		ctx, cancel := context.WithCancel(context.Background())
		var stderr bytes.Buffer
		out := &watched{text: "begun", seen: cancel}
		code := run(ctx, []string{"run", "--server", url, "--approve", "allow-all", "$ echo begun; sleep 600"}, strings.NewReader(""), out, &stderr)
		cancel()
		if said := stderr.String(); code != cli.ExitFailed || !strings.HasSuffix(said, "\naborting\nbraid run: the task ended: aborted\n") {
			t.Errorf("%d: %s\n%s", code, said, out)
		}
	}
}

// The flags of a run reach its session.
func TestRunFlags(t *testing.T) {
	b := newBusySession(t)
	code, _, stderr := braid(t, "run", "--server", b.url, "--approval-timeout", "90s", "--max-turns", "3", "just words")
	if code != cli.ExitOK {
		t.Fatalf("run: %d %s", code, stderr)
	}
	b.path = "/v1/sessions/" + strings.TrimSpace(strings.TrimPrefix(stderr, "session "))
	b.await("as the flags said", func(s shown) bool { return s.Timeout == 90_000 && s.Limits.MaxTurns == 3 })
	for _, bad := range [][]string{{"--approval-timeout", "-1s"}, {"--approval-timeout", "2200h"}, {"--approval-timeout", "1us"}, {"--when-busy", "hurry"}, {"--session", "a b"},
		{"--session", "s", "--approve", "deny-all"}, {"--session", "s", "--model", "shell/demo"}, {"--session", "s", "--max-cost", "0"}} {
		if code, _, stderr := braid(t, append([]string{"run", "--server", b.url, "words"}, bad...)...); code != cli.ExitUsage {
			t.Errorf("%v: %d %s", bad, code, stderr)
		}
	}
}

// A session is deleted over HTTP: watchers are told, in either view, and it is gone.
func TestDeleteOverHTTP(t *testing.T) {
	b := newBusySession(t)
	b.await("a question", func(s shown) bool { return len(s.Pending) == 1 })
	b.refused(schemas.CodeTaskInProgress, http.MethodDelete, b.path, nil)
	b.refused(schemas.CodeInvalid, http.MethodDelete, b.path+"?force=yes", nil)
	var watching sync.WaitGroup
	started := make(chan struct{}, 2)
	c := (&serverFlags{url: b.url}).client()
	defer c.Close()
	for _, events := range []iter.Seq2[client.Event, error]{
		c.Session("s").Stream(context.Background(), client.WatchOptions{}),
		c.Session("s").Turns(context.Background(), client.WatchOptions{}),
	} {
		watching.Go(func() {
			came := false
			for _, err := range events {
				if err != nil && !client.IsCode(err, schemas.CodeDeleted) {
					t.Errorf("a stream ends with %v", err)
				}
				if !came {
					came = true
					started <- struct{}{}
				}
			}
		})
	}
	<-started
	<-started
	status := func() int {
		response, err := b.api.do(context.Background(), http.MethodDelete, b.path+"?force=true", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	if got := status(); got != http.StatusAccepted {
		t.Errorf("delete: %d", got)
	}
	watching.Wait()
	if !eventually(func() bool { return status() == http.StatusNoContent }) {
		t.Fatal("the session is not deleted")
	}
	b.refused(schemas.CodeUnknownSession, http.MethodGet, b.path, nil)
	b.refused(schemas.CodeUnknownSession, http.MethodGet, b.path+"/stream", nil)
	b.refused(schemas.CodeDeleted, http.MethodPost, b.path+"/tasks", map[string]any{"prompt": "hello?"})
	b.refused(schemas.CodeDeleted, http.MethodPost, "/v1/sessions", map[string]any{"id": "s", "model": "shell/demo"})
}
