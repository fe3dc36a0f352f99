package spans

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"braid/bus"
	"braid/bus/bustest"
	"braid/engine"
	"braid/llm"
	"braid/llm/scripted"
	"braid/schemas"
	"braid/toolrunner"
	store "braid/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const script = `
turns:
  - steps:
      - text: My secret thought.
      - tool_call: {name: wait, arguments: {}}
      - usage: {cache_read: 40, cache_write: 10, output: 20, total: 100}
  - attempts:
      - steps: [{fail: {message: a secret failure, status_code: 529, retryable: true}}]
      - steps: [{text: Done.}, {usage: {output: 5, total: 150}}]
`

var ref = schemas.SessionRef{Project: "default", ID: "s1"}

// stage is a broker and a toolrunner whose tools wait until they are let go.
type stage struct {
	t      *testing.T
	broker *bustest.Broker
	conn   *bus.Conn        // the test's own
	script string           // its model's
	model  *scripted.Script // of the engine that was started last
	// sent are the spans of all processes; a killed one's are among them, if they were over.
	sent    *tracetest.InMemoryExporter
	lose    func() // loses the toolrunner
	running chan struct{}
	let     chan struct{}
}

func newStage(t *testing.T) *stage {
	t.Helper()
	broker := bustest.Single(t)
	s := &stage{
		t: t, broker: broker, conn: broker.Conn(t), script: script, sent: tracetest.NewInMemoryExporter(),
		running: make(chan struct{}, 10), let: make(chan struct{}),
	}
	s.lose = s.toolrunner()
	return s
}

// toolrunner starts a toolrunner, whose tools are wait and, of calls that may run twice, again. lose ends it
// as close to a crash as can be: it says no more.
func (s *stage) toolrunner() (lose func()) {
	s.t.Helper()
	run := func(ctx context.Context, _ struct{}, _ io.Writer) (string, error) {
		s.running <- struct{}{}
		select {
		case <-s.let:
			return "a secret output", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	tools := []toolrunner.Tool{
		toolrunner.Func("wait", "Waits.", run, toolrunner.ReadOnly),
		toolrunner.Func("again", "Waits.", run, toolrunner.ReadOnly, toolrunner.RetrySafe),
		toolrunner.Func("hurry", "Waits.", run, toolrunner.ReadOnly),
	}
	tools[2].Definition.QueueTimeoutMS = 100
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	var lost atomic.Bool
	ready := make(chan struct{})
	conn, drawn := s.broker.Conn(s.t), s.process().Toolrunner()
	done.Go(func() {
		err := toolrunner.Serve(ctx, conn, toolrunner.ServeOptions{Tools: tools, Ready: func() { close(ready) }, Log: zerolog.Nop(),
			Events: toolrunner.Events{Ended: func(c toolrunner.EndedCall) {
				if !lost.Load() {
					drawn.Ended(c)
				}
			}},
		})
		if err != nil && !lost.Load() {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(func() { cancel(); done.Wait() })
	<-ready
	return func() { lost.Store(true); conn.Close(); cancel() }
}

// process draws spans as one process does.
func (s *stage) process() *Spans { return newSpans(sdktrace.WithSyncer(s.sent)) }

// engine starts an engine. kill ends it as close to a crash as can be.
func (s *stage) engine(name string) (kill func()) {
	s.t.Helper()
	parsed, err := scripted.Parse([]byte(s.script))
	if err != nil {
		s.t.Fatal(err)
	}
	s.model = parsed
	models, err := llm.NewCatalog(scripted.New(map[string]*scripted.Script{"m": parsed}))
	if err != nil {
		s.t.Fatal(err)
	}
	traces, err := store.Open(s.t.TempDir(), store.Options{Logger: zerolog.Nop()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = traces.Close() })
	conn, drawn := s.broker.Conn(s.t), s.process()
	e, err := engine.Start(s.t.Context(), engine.Options{
		Conn: conn, Trace: traces, Models: models, Instance: name, Jitter: func() float64 { return 0 },
		Timing: engine.Timing{Retry: 0.01, Watch: 100 * time.Millisecond, Ring: 500 * time.Millisecond},
		Events: drawn.Engine(), TraceContext: drawn.TraceContext(), Log: zerolog.Nop(),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	stop := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return e.Stop(ctx)
	}
	s.t.Cleanup(func() {
		if err := stop(); err != nil {
			s.t.Error(err)
		}
	})
	return func() {
		conn.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.Stop(ctx)
		stop = func() error { return nil }
	}
}

func (s *stage) send(c schemas.Command) {
	s.t.Helper()
	c.Session = ref
	o, _, err := s.conn.SendAndWait(s.t.Context(), c, time.Minute)
	if err != nil || o.Code != schemas.CodeApplied {
		s.t.Fatalf("%s: %+v, %v", c.Type, o, err)
	}
}

func (s *stage) create() {
	s.t.Helper()
	s.send(schemas.Command{ID: "c", Type: schemas.CommandCreate, Create: &schemas.CreateBody{
		Model: "scripted/m", ApprovalMode: schemas.ApproveAll, SystemPrompt: "A secret instruction.",
	}})
}

// begin creates the session and starts a task, which soon runs the tool.
func (s *stage) begin() {
	s.t.Helper()
	s.create()
	s.send(schemas.Command{ID: "t1", Type: schemas.CommandTask, Task: &schemas.TaskBody{Prompt: "A secret question."}})
	<-s.running
}

// await waits for so many spans of a name and returns all spans.
func (s *stage) await(name string, n int) tracetest.SpanStubs {
	s.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		spans := s.sent.GetSpans()
		found := 0
		for _, span := range spans {
			if span.Name == name {
				found++
			}
		}
		if found == n {
			return spans
		}
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("not %d of %s are drawn: %v", n, name, spans)
		}
	}
}

// drawn waits for the spans of so many tasks and returns all spans.
func (s *stage) drawn(tasks int) tracetest.SpanStubs {
	s.t.Helper()
	return s.await("invoke_agent", tasks)
}

// tree renders spans, children below their parents, in the order of their beginnings, and of
// their ends where that is one.
func tree(spans tracetest.SpanStubs) string {
	ms := func(s tracetest.SpanStub) time.Time { return s.StartTime.Truncate(time.Millisecond) } // as exact as messages are
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return ms(a).Compare(ms(b)) })
	var b strings.Builder
	var draw func(above trace.SpanID, indent string)
	draw = func(above trace.SpanID, indent string) {
		for _, s := range spans {
			if s.Parent.SpanID() != above {
				continue
			}
			fmt.Fprintf(&b, "%s%s (%s%s)", indent, s.Name, s.SpanKind, map[bool]string{true: ", failed"}[s.Status.Code == codes.Error])
			for _, key := range []string{"braid.status", "braid.cause", "braid.attempt", "error.type", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.usage.cache_read.input_tokens", "braid.turns"} {
				for _, a := range s.Attributes {
					if string(a.Key) == key {
						fmt.Fprintf(&b, " %s=%s", key[strings.LastIndex(key, ".")+1:], a.Value.String())
					}
				}
			}
			b.WriteByte('\n')
			draw(s.SpanContext.SpanID(), indent+"  ")
		}
	}
	draw(trace.SpanID{}, "")
	return b.String()
}

func TestTask(t *testing.T) {
	s := newStage(t)
	s.engine("e1")
	s.begin()
	close(s.let)
	spans := s.drawn(1)
	want := `invoke_agent (internal) status=completed cause=done input_tokens=225 output_tokens=25 input_tokens=40 turns=2
  chat m (client) status=completed attempt=1 input_tokens=80 output_tokens=20 input_tokens=40
  execute_tool wait (internal) status=completed attempt=1
  chat m (client, failed) status=failed attempt=1 type=529
  chat m (client) status=completed attempt=2 input_tokens=145 output_tokens=5 input_tokens=0
`
	if diff := cmp.Diff(want, tree(spans)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	documented, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, span := range spans {
		for _, a := range span.Attributes {
			if !bytes.Contains(documented, []byte("`"+string(a.Key)+"`")) {
				t.Errorf("docs/operations.md does not tell of %s", a.Key)
			}
		}
		if span.SpanContext.TraceID() != spans[0].SpanContext.TraceID() {
			t.Errorf("%s is in another trace", span.Name)
		}
		if span.EndTime.Before(span.StartTime) {
			t.Errorf("%s ends before it begins", span.Name)
		}
		if text := fmt.Sprint(span); strings.Contains(text, "secret") {
			t.Errorf("%s holds what somebody said: %s", span.Name, text)
		}
	}
}

// The engine that takes a task over draws it as one, from its true beginning, though the other one never
// said that anything had begun; what the toolrunner ran meanwhile is in it.
func TestTaskThatIsTakenOver(t *testing.T) {
	s := newStage(t)
	kill := s.engine("e1")
	begun := time.Now()
	s.begin()
	kill()
	taken := time.Now()
	s.engine("e2")
	close(s.let)
	spans := s.drawn(1)
	var names []string
	for _, span := range spans {
		names = append(names, span.Name)
		if span.SpanContext.TraceID() != spans[0].SpanContext.TraceID() {
			t.Errorf("%s is in another trace", span.Name)
		}
	}
	slices.Sort(names)
	if want := []string{"chat m", "chat m", "chat m", "execute_tool wait", "invoke_agent"}; !slices.Equal(names, want) {
		t.Errorf("spans %v", names)
	}
	if text := tree(spans); strings.Count(text, "\n") != 5 || !strings.HasPrefix(text, "invoke_agent") {
		t.Errorf("they make no tree:\n%s", text)
	}
	for _, span := range spans {
		if early := span.StartTime.Before(begun.Truncate(time.Millisecond)); span.Name == "invoke_agent" && (early || span.StartTime.After(taken)) {
			t.Errorf("the task begins at %s, was begun at %s and taken over at %s", span.StartTime, begun, taken)
		}
	}
}
