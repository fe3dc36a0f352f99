package spans

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"braid/schemas"
)

// calls are the calls of a task as they were drawn, each with what became of it.
func calls(spans tracetest.SpanStubs) map[string]int {
	drawn := map[string]int{}
	for _, s := range spans {
		if valueOf(s, "gen_ai.operation.name") == "execute_tool" {
			drawn[s.Name+" "+valueOf(s, "braid.attempt")+" "+valueOf(s, "braid.status")+" "+valueOf(s, "braid.cause")+" "+valueOf(s, "error.type")]++
		}
	}
	return drawn
}

// checkCalls compares them, and checks that they are parts of their task.
func (s *stage) checkCalls(want map[string]int) {
	s.t.Helper()
	spans := s.drawn(1)
	if diff := cmp.Diff(want, calls(spans)); diff != "" {
		s.t.Errorf("calls (-want +got)\n%s", diff)
	}
	task := spans[len(spans)-1]
	for _, span := range spans {
		if span.Name != "invoke_agent" && (span.Parent.SpanID() != task.SpanContext.SpanID() || !within(span, callerNumber(1))) {
			s.t.Errorf("%s is no part of its task", span.Name)
		}
		if span.EndTime.Before(span.StartTime) {
			s.t.Errorf("%s ends before it begins", span.Name)
		}
	}
}

func (s *stage) prompt() {
	s.t.Helper()
	s.create()
	s.send(schemas.Command{ID: "t1", Type: schemas.CommandTask, Task: &schemas.TaskBody{Prompt: "A secret question."}, Caller: callerNumber(1)})
}

func scriptOf(tools string) string {
	return "turns:\n  - steps: [" + tools + "]\n  - steps: [{text: Done.}]\n"
}

const (
	waits   = "{tool_call: {name: wait, arguments: {}}}"
	hurries = "{tool_call: {name: hurry, arguments: {}}}"
	again   = "{tool_call: {name: again, arguments: {}}}"
)

// A call is drawn also if its toolrunner is lost with it: once for each attempt, by whoever owns the session then.
func TestCallsThatAreLost(t *testing.T) {
	for why, taken := range map[string]bool{"by its owner": false, "by the next owner": true} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.script = scriptOf(waits + ", " + again)
			kill := s.engine("e1")
			s.prompt()
			<-s.running
			<-s.running
			if taken {
				kill()
			}
			s.lose()
			s.toolrunner()
			if taken {
				s.engine("e2")
			}
			<-s.running
			close(s.let)
			s.checkCalls(map[string]int{
				"execute_tool wait 1 failed lost lost":  1,
				"execute_tool again 1 failed lost lost": 1,
				"execute_tool again 2 completed  ":      1,
			})
		})
	}
}

// So is one that nobody has started: for want of a toolrunner, or since its task was aborted.
func TestCallsThatNeverStart(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.script = scriptOf("{text: [Let us, {wait: loss}, see.]}, " + waits + ", " + hurries)
	s.engine("e1")
	s.prompt()
	if err := s.model.Reached(t.Context(), "loss"); err != nil { // its request has tools
		t.Fatal(err)
	}
	s.lose()
	if err := s.model.Release("loss"); err != nil {
		t.Fatal(err)
	}
	s.await("execute_tool hurry", 1)
	s.send(schemas.Command{ID: "a", Type: schemas.CommandAbort})
	s.checkCalls(map[string]int{
		"execute_tool wait 1 aborted withdrawn ":          1,
		"execute_tool hurry 1 failed withdrawn withdrawn": 1,
	})
}
