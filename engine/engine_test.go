package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"braid/bus"
	"braid/bus/bustest"
	"braid/llm"
	"braid/llm/scripted"
	"braid/llm/shell"
	"braid/schemas"
	"braid/trace"
)

// house is a broker with what a test needs around it.
type house struct {
	t      *testing.T
	broker *bustest.Broker
	conn   *bus.Conn // the test's own
	models *llm.Catalog
	script func(model string) *scripted.Script
}

func newHouse(t *testing.T, b *bustest.Broker, scripts map[string]string) *house {
	t.Helper()
	parsed := map[string]*scripted.Script{}
	for name, text := range scripts {
		s, err := scripted.Parse([]byte(text))
		if err != nil {
			t.Fatalf("script %s: %v", name, err)
		}
		parsed[name] = s
	}
	provider := scripted.New(parsed)
	models, err := llm.NewCatalog(&shell.Provider{}, provider)
	if err != nil {
		t.Fatal(err)
	}
	return &house{t: t, broker: b, conn: b.Conn(t), models: models, script: provider.Script}
}

// testTiming is short where tests would wait, and as in production where a race would show.
var testTiming = Timing{Rest: 20 * time.Millisecond, Suspend: 50 * time.Millisecond, Tail: 20 * time.Millisecond, Ring: 500 * time.Millisecond, Watch: 100 * time.Millisecond}

func testLog(t *testing.T) zerolog.Logger {
	if os.Getenv("BRAID_TEST_LOG") == "" {
		return zerolog.Nop()
	}
	return zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.DebugLevel)
}

// engine starts an engine with a connection and a trace of its own.
func (h *house) engine(name string, options ...func(*Options)) *Engine {
	h.t.Helper()
	e := h.killable(name, options...)
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTime)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			h.t.Errorf("stop %s: %v", name, err)
		}
	})
	return e
}

// send sends a command and returns its outcome.
func (h *house) send(c schemas.Command) schemas.Outcome {
	h.t.Helper()
	o, _, err := h.conn.SendAndWait(context.Background(), c, testTime)
	if err != nil {
		h.t.Fatalf("%s: %v", c.Type, err)
	}
	return o
}

// caughtUp waits until the trace of the one engine has seen a session up to a sequence of its log. A question
// waits for that too, but not for as long as a busy machine may take.
func (h *house) caughtUp(ref schemas.SessionRef, sequence uint64) {
	h.t.Helper()
	h.eventually("the trace lags", func() bool {
		_, err := h.conn.AskSession(context.Background(), ref, sequence)
		return !errors.Is(err, &schemas.Error{Code: schemas.CodeUnavailable})
	})
}

var ref = schemas.SessionRef{Project: "p", ID: "s"}

func (h *house) create(model string, mode schemas.ApprovalMode) {
	h.t.Helper()
	o := h.send(schemas.Command{ID: "create", Type: schemas.CommandCreate, Session: ref, Create: &schemas.CreateBody{Model: model, ApprovalMode: mode}})
	if o.Code != schemas.CodeApplied {
		h.t.Fatalf("create: %+v", o)
	}
}

func (h *house) task(id, prompt string) {
	h.t.Helper()
	o := h.send(schemas.Command{ID: id, Type: schemas.CommandTask, Session: ref, Task: &schemas.TaskBody{Prompt: prompt}})
	if o.Code != schemas.CodeApplied {
		h.t.Fatalf("task: %+v", o)
	}
}

// follow reads the session's stream from the beginning until done says so, checking every
// guarantee on the way.
func (h *house) follow(done func(schemas.Message) bool) []schemas.Message {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	f, err := h.conn.Follow(ctx, ref, bus.FollowOptions{Beginning: true})
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	checker := schemas.NewChecker(schemas.ViewFeed)
	var messages []schemas.Message
	for {
		ev, err := f.Next(ctx)
		if err != nil {
			h.t.Fatalf("follow: %v\n%s", err, dump(messages))
		}
		frame, ok := ev.(bus.Frame)
		if !ok {
			continue
		}
		for _, e := range frame.Entries() {
			messages = append(messages, e.Message)
			if v := checker.Add(e); len(v) > 0 {
				h.t.Fatalf("violations: %v\n%s", v, dump(messages))
			}
			if done(e.Message) {
				return messages
			}
		}
	}
}

func taskEnded(m schemas.Message) bool { return m.Kind() == schemas.KindTaskEnd }

func dump(messages []schemas.Message) string {
	var b strings.Builder
	for _, m := range messages {
		line, _ := schemas.Encode(m)
		fmt.Fprintf(&b, "%s\n", line)
	}
	return b.String()
}

// killable starts an engine that the test kills; it is not stopped at the end.
func (h *house) killable(name string, options ...func(*Options)) *Engine {
	h.t.Helper()
	store, err := trace.Open(h.t.TempDir(), trace.Options{Logger: zerolog.Nop()})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = store.Close() })
	o := Options{
		Conn: h.broker.Conn(h.t), Trace: store, Models: h.models, Instance: name, Timing: testTiming, Log: testLog(h.t),
		Jitter: func() float64 { return 0 },
	}
	for _, change := range options {
		change(&o)
	}
	e, err := Start(context.Background(), o)
	if err != nil {
		h.t.Fatal(err)
	}
	return e
}

func TestOneTask(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), nil)
	h.engine("e1")
	h.create("shell/demo", schemas.ApproveAll)
	h.task("t1", "hello")
	kinds := []schemas.Kind{}
	for _, m := range h.follow(taskEnded) {
		kinds = append(kinds, m.Kind())
	}
	kinds = slices.Compact(kinds) // how many deltas there are depends on the machine
	want := []schemas.Kind{
		schemas.KindCommandOutcome, schemas.KindSessionMeta, schemas.KindCommandOutcome, schemas.KindText,
		schemas.KindToolListReady, schemas.KindRequestBegin,
		schemas.KindPartialText, schemas.KindText,
		schemas.KindTokenUsage, schemas.KindRequestEnd, schemas.KindTaskEnd,
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// streaming is a model that stops in the middle of its first attempt.
const streaming = `
turns:
  - attempts:
      - steps: [{text: [one, " two", {wait: never}, " three"]}]
      - steps: [{text: done}]
`

// An engine dies while its model streams: another closes what was open, and goes on.
func TestTakeoverWhileTheModelStreams(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"slow": streaming})
	first := h.killable("e1")
	h.create("scripted/slow", schemas.ApproveAll)
	h.task("t1", "go")
	h.follow(func(m schemas.Message) bool {
		p, ok := m.Payload.(*schemas.PartialText)
		return ok && strings.Contains(p.Text, "two")
	})
	h.engine("e2")
	first.kill()
	var texts []string
	for _, m := range h.follow(taskEnded) {
		switch p := m.Payload.(type) {
		case *schemas.OwnerChanged:
			texts = append(texts, "owner "+p.From+" "+p.To+" "+p.Cause)
		case *schemas.Text:
			texts = append(texts, string(p.Role)+" "+p.Text+" "+string(p.StopReason))
		case *schemas.RequestEnd:
			texts = append(texts, fmt.Sprint("end ", p.Status, " ", p.Attempt, " ", p.RetryInMS))
		}
	}
	want := []string{"user go ", "owner e1 e2 lost", "assistant one two timeout", "end timeout 1 2000", "assistant done ", "end completed 2 0"}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The same at SIGTERM: the session is handed over at once.
func TestHandOver(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"slow": streaming})
	first := h.killable("e1")
	h.create("scripted/slow", schemas.ApproveAll)
	h.task("t1", "go")
	h.follow(func(m schemas.Message) bool {
		p, ok := m.Payload.(*schemas.PartialText)
		return ok && strings.Contains(p.Text, "two")
	})
	h.engine("e2")
	if err := first.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, m := range h.follow(taskEnded) {
		if p, ok := m.Payload.(*schemas.OwnerChanged); ok {
			if p.Cause != "handover" || p.From != "e1" || p.To != "e2" {
				t.Errorf("%+v", p)
			}
			return
		}
	}
	t.Error("no owner_changed")
}

// A command on a session that does not exist is refused, and leaves nothing behind.
func TestUnknownSession(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), nil)
	h.engine("e1")
	o := h.send(schemas.Command{ID: "t", Type: schemas.CommandTask, Session: ref, Task: &schemas.TaskBody{Prompt: "x"}})
	if o.Code != schemas.CodeUnknownSession {
		t.Fatalf("outcome %+v", o)
	}
	if _, found, err := h.conn.LastClaim(context.Background(), ref); err != nil || found {
		t.Errorf("a claim was left: %v, %v", found, err)
	}
}

func TestUnknownModel(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": "turns: [{steps: [{text: x}]}]"})
	h.engine("e1")
	for field, body := range map[string]schemas.CreateBody{
		"model":              {Model: "no/such"},
		"fallback_models[1]": {Model: "shell/demo", FallbackModels: []string{"scripted/m", "no/such"}},
	} {
		create := schemas.Command{ID: "c" + body.Model[:2], Type: schemas.CommandCreate, Session: ref, Create: &body}
		o := h.send(create)
		if o.Code != schemas.CodeUnknownModel || o.Field != field {
			t.Errorf("outcome %+v, want field %s", o, field)
		}
	}
}

// A session whose making was refused is none: no question finds it, as no command does, and it can be made
// under the same name.
func TestRefusedCreateMakesNoSession(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), nil)
	h.engine("e1")
	ctx := context.Background()
	refused := h.send(schemas.Command{ID: "c1", Type: schemas.CommandCreate, Session: ref, Create: &schemas.CreateBody{Model: "no/such"}})
	h.caughtUp(ref, refused.Log)
	unknown := &schemas.Error{Code: schemas.CodeUnknownSession}
	if info, err := h.conn.AskSession(ctx, ref, refused.Log); !errors.Is(err, unknown) {
		t.Errorf("it is %+v, %v", info, err)
	}
	if page, err := h.conn.AskMessages(ctx, ref, refused.Log, bus.MessagesArgs{}); !errors.Is(err, unknown) {
		t.Errorf("it says %+v, %v", page, err)
	}
	if page, err := h.conn.AskSessions(ctx, ref.Project, bus.SessionsArgs{}); err != nil || len(page.Sessions) > 0 {
		t.Errorf("it is listed: %+v, %v", page, err)
	}
	made := h.send(schemas.Command{ID: "c2", Type: schemas.CommandCreate, Session: ref, Create: &schemas.CreateBody{Model: "shell/demo"}})
	h.caughtUp(ref, made.Log)
	if info, err := h.conn.AskSession(ctx, ref, made.Log); err != nil || info.Model != "shell/demo" {
		t.Errorf("then it is %+v, %v", info, err)
	}
}
