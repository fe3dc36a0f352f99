package spans

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"braid/engine"
	"braid/schemas"
	"braid/toolrunner"
)

// callerNumber is a place in a trace of the caller's own.
func callerNumber(n int) schemas.TraceContext {
	return schemas.TraceContext{TraceParent: fmt.Sprintf("00-%032x-%016x-01", n, n), TraceState: fmt.Sprintf("vendor=%d", n)}
}

// under reports that a span is right below a caller's.
func under(s tracetest.SpanStub, caller schemas.TraceContext) bool {
	return s.Parent.IsRemote() && s.Parent.SpanID().String() == caller.TraceParent[36:52] && within(s, caller)
}

// within reports that a span is in a caller's trace, with all that the caller said of it.
func within(s tracetest.SpanStub, caller schemas.TraceContext) bool {
	return s.SpanContext.TraceID().String() == caller.TraceParent[3:35] && s.SpanContext.TraceState().String() == caller.TraceState
}

const queueScript = `
repeat: true
turns:
  - steps: [{tool_call: {name: wait, arguments: {}}}]
  - steps: [{text: Done.}]
`

// Each task is a part of its own caller's trace: one that waited, and one that another engine ends than the
// one that was asked for it. What joins a task is linked to it.
func TestTasksOfCallers(t *testing.T) {
	s := newStage(t)
	s.script = queueScript
	kill := s.engine("e1")
	s.create()
	prompt := func(id string, busy schemas.WhenBusy, caller schemas.TraceContext) {
		t.Helper()
		s.send(schemas.Command{ID: id, Type: schemas.CommandTask, Task: &schemas.TaskBody{Prompt: "A secret question.", WhenBusy: busy}, Caller: caller})
	}
	prompt("t1", schemas.BusyReject, callerNumber(1))
	<-s.running
	prompt("t2", schemas.BusyQueue, callerNumber(2))
	prompt("t3", schemas.BusyQueue, schemas.TraceContext{})
	prompt("joins", schemas.BusySteer, callerNumber(9))
	kill()
	s.engine("e2")
	close(s.let)
	spans := s.drawn(3)
	tasks := map[string]tracetest.SpanStub{}
	for _, span := range spans {
		if span.Name == "invoke_agent" {
			tasks[valueOf(span, "braid.task")] = span
		}
	}
	if !under(tasks["t1"], callerNumber(1)) || !under(tasks["t2"], callerNumber(2)) {
		t.Errorf("tasks that are not their callers': %+v, %+v", tasks["t1"], tasks["t2"])
	}
	if span := tasks["t3"]; span.Parent.IsValid() || span.SpanContext.TraceState().Len() > 0 {
		t.Errorf("a task that nobody's trace has begun: %+v", span)
	}
	links := tasks["t1"].Links
	if len(links) != 1 || links[0].SpanContext.SpanID().String() != callerNumber(9).TraceParent[36:52] || len(tasks["t2"].Links) > 0 {
		t.Errorf("links %+v, and of another task %+v", links, tasks["t2"].Links)
	}
	calls := 0
	for _, span := range spans {
		if span.Name == "invoke_agent" {
			continue
		}
		calls++
		if !slices.ContainsFunc([]string{"t1", "t2", "t3"}, func(id string) bool {
			return tasks[id].SpanContext.SpanID() == span.Parent.SpanID() && tasks[id].SpanContext.TraceID() == span.SpanContext.TraceID()
		}) {
			t.Errorf("%s hangs in the air", span.Name)
		}
		if strings.HasPrefix(span.Name, "execute_tool") && !within(span, callerNumber(1)) && !within(span, callerNumber(2)) && span.SpanContext.TraceState().Len() > 0 {
			t.Errorf("a call with the state of another trace: %+v", span)
		}
	}
	if calls < 9 { // two requests and a call each, and the request that was lost or its repetition
		t.Errorf("%d spans below tasks", calls)
	}
}

func valueOf(s tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// What a caller does not sample is drawn by nobody, and goes on not to be; what nobody understands is as if
// it had not been said.
func TestCallers(t *testing.T) {
	sampled := callerNumber(7)
	not := sampled
	not.TraceParent = strings.TrimSuffix(not.TraceParent, "1") + "0"
	for why, c := range map[string]struct {
		caller schemas.TraceContext
		drawn  int
		below  bool
	}{
		"nobody":                  {schemas.TraceContext{}, 3, false},
		"sampled":                 {sampled, 3, true},
		"not sampled":             {not, 0, true},
		"nonsense":                {schemas.TraceContext{TraceParent: "nonsense", TraceState: "a=1"}, 3, false},
		"a state that is no such": {schemas.TraceContext{TraceParent: sampled.TraceParent, TraceState: "=,"}, 3, true},
	} {
		sent := tracetest.NewInMemoryExporter()
		process := func() *Spans {
			return newSpans(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())), sdktrace.WithSyncer(sent))
		}
		task := someTask
		task.Caller = c.caller
		carried := process().TraceContext()(task)
		if again := process().TraceContext()(task); carried != again {
			t.Errorf("%s: %q, and elsewhere %q", why, carried, again)
		}
		if flags := carried.TraceParent[53:]; (flags == "01") != (c.drawn > 0) {
			t.Errorf("%s: passed on as %q", why, carried)
		}
		if below := carried.TraceParent[3:35] == sampled.TraceParent[3:35]; below != c.below {
			t.Errorf("%s: passed on as %q", why, carried)
		}
		process().Toolrunner().Ended(toolrunner.EndedCall{Tool: "x", TraceContext: carried, StopReason: schemas.StopCompleted})
		process().Engine().RequestEnded(engine.EndedRequest{TaskOf: task, Model: "p/m"})
		process().Engine().TaskEnded(engine.EndedTask{TaskOf: task, Steered: []schemas.TraceContext{{TraceParent: "nonsense"}}})
		spans := sent.GetSpans()
		if len(spans) != c.drawn {
			t.Errorf("%s: %d spans", why, len(spans))
			continue
		}
		for i, span := range spans {
			if i < 2 && span.Parent.SpanID() != spans[2].SpanContext.SpanID() || span.SpanContext.TraceID() != spans[2].SpanContext.TraceID() {
				t.Errorf("%s: %s is not below its task", why, span.Name)
			}
		}
		if len(spans) > 0 && (spans[2].Parent.IsValid() != c.below || len(spans[2].Links) > 0) {
			t.Errorf("%s: the task is %+v", why, spans[2])
		}
	}
}

// FuzzTraceContext: what is recorded of whatever somebody sends is what OpenTelemetry reads in it, and
// reads it the same way later.
func FuzzTraceContext(f *testing.F) {
	const ids = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
	for _, parent := range []string{"", "00-" + ids + "-01", "00-" + ids + "-00", "01-" + ids + "-03-more", "00-" + ids + "-ff", "ff-" + ids + "-01", "00-" + ids + "-01-"} {
		f.Add(parent, "a=1,b=2")
	}
	f.Fuzz(func(t *testing.T, parent, state string) {
		ours := schemas.ParseTraceContext(parent, state)
		got := trace.SpanContextFromContext(remote(context.Background(), ours))
		if got.IsValid() != (ours.TraceParent != "") {
			t.Fatalf("%q is recorded as %q, which is read as %v", parent, ours.TraceParent, got)
		}
		carrier := propagation.MapCarrier{"traceparent": strings.Trim(parent, " \t"), "tracestate": state}
		if at := carrier["traceparent"]; strings.HasPrefix(at, "00") && strings.HasSuffix(at, "-") {
			return // they let a last dash pass, the standard does not
		}
		theirs := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
		if theirs.IsValid() && (theirs.TraceID() != got.TraceID() || theirs.SpanID() != got.SpanID() || theirs.TraceFlags() != got.TraceFlags()) {
			t.Fatalf("%q: %v, and OpenTelemetry reads %v", parent, got, theirs)
		}
		if !theirs.IsValid() && got.IsValid() && !strings.HasPrefix(ours.TraceParent, "00-"+strings.Trim(parent, " \t")[3:53]) {
			t.Fatalf("%q is made up from %q", ours.TraceParent, parent)
		}
	})
}
