package session

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"braid/schemas"
)

// limited is a session within limits whose first request is open.
func limited(t *testing.T, mode schemas.ApprovalMode, l schemas.Limits) *play {
	return newPlay(t).command(schemas.Command{Type: schemas.CommandCreate, Create: &schemas.CreateBody{
		Model: "pro/model", ApprovalMode: mode, Limits: l,
	}}).task().do(ToolsListed{Tools: []schemas.ToolDefinition{
		{Name: "look", Permission: schemas.PermissionRead},
		{Name: "bash", Parameters: jsontext.Value(`{"type":"object","properties":{"cmd":{"type":"string"},"n":{}}}`)},
	}})
}

// used ends the request as completed, with so many tokens.
func (p *play) used(total int64) *play {
	return p.do(ModelEnded{Request: p.request, Status: schemas.StopCompleted, Usage: schemas.TokenCounts{Total: total}})
}

// lastCall is the id of the newest call.
func (p *play) lastCall() string {
	calls := p.s.Task.Request.Calls
	return calls[len(calls)-1].ToolCallID
}

// turn is a whole turn with one call, up to its output if it gets to run.
func (p *play) turn(name, arguments, output string) *play {
	p.call(name, arguments).used(1)
	if p.s.Task == nil || p.s.Task.Request.Open || !p.s.Task.Request.Calls[0].running() {
		return p
	}
	return p.output(p.lastCall(), output)
}

// input is what the model would be asked next, rendered.
func (p *play) input() (out []string) {
	for _, m := range p.s.Context {
		out = append(out, renderMessage(m))
	}
	return out
}

func (p *play) has(kind schemas.Kind) int {
	n := 0
	for _, m := range p.log {
		if m.Kind() == kind {
			n++
		}
	}
	return n
}

// What the last turn came to waits for the next prompt; the notice is for readers alone.
func TestMaxTurns(t *testing.T) {
	p := limited(t, schemas.ApproveAll, schemas.Limits{MaxTurns: 2})
	p.turn("look", `{"n":1}`, "one").turn("look", `{"n":2}`, "two")
	p.expect(
		`start`, `delta "two"`, `stop`, `output "two"`,
		`start`, `delta "[reached max turns (2); stopping]"`, `stop failed`, `text "[reached max turns (2); stopping]" failed`,
		"task failed max_turns",
	)
	p.task()
	p.expect("outcome applied", `text "go"`, "begin 1", "-> answer", "-> model 1")
	want := []string{
		`text "go"`, `call "look{\"n\":1}"`, `output "one"`, `call "look{\"n\":2}"`, `output "two"`, `text "go"`,
	}
	if diff := cmp.Diff(want, p.input()); diff != "" {
		t.Errorf("the next prompt's context (-want +got)\n%s", diff)
	}
}

// A turn that is tried again is one turn.
func TestMaxTurnsCountsTurns(t *testing.T) {
	p := limited(t, schemas.ApproveAll, schemas.Limits{MaxTurns: 1})
	p.ended(schemas.StopFailed).do(RetryDue{p.request})
	p.expect("begin 2", "-> model 2")
	p.say(schemas.AssistantText("done")).used(1)
	if last := p.out[len(p.out)-1]; last != "task completed done" {
		t.Errorf("the task ends with %q", last)
	}
}

func TestTaskBudget(t *testing.T) {
	p := limited(t, schemas.ApproveAll, schemas.Limits{MaxTokensTask: 10})
	p.call("look", `{"n":1}`).used(10).output(p.lastCall(), "") // all of it, and no more
	p.call("look", `{"n":2}`).used(1)
	p.expect("token_usage", "end completed 1 0", "budget_exceeded")
	p.output(p.lastCall(), "")
	p.expect("start", "stop", "output", "task completed budget")
	p.task() // the next task has a budget of its own
	p.expect("outcome applied", `text "go"`, "begin 1", "-> answer", "-> model 1")
	p.say(schemas.AssistantText("x")).used(11)
	p.expect("token_usage", "end completed 1 0", "budget_exceeded", "task completed done")
}

func TestSessionBudget(t *testing.T) {
	p := limited(t, schemas.ApproveAll, schemas.Limits{MaxTokensSession: 10, MaxTokensTask: 100})
	p.say(schemas.AssistantText("x")).used(6).task()
	p.call("look", `{}`).used(6)
	p.expect("token_usage", "end completed 1 0", "budget_exceeded")
	b, ok := p.log[len(p.log)-1].Payload.(*schemas.BudgetExceeded)
	if !ok || b.Used != 12 || b.Limit != 10 || b.Unit != "tokens" {
		t.Errorf("budget_exceeded is %+v", b)
	}
	p.output(p.lastCall(), "")
	p.task()
	p.expect("outcome applied", `text "go"`, "task failed budget", "-> answer")
	end := p.log[len(p.log)-1].Payload.(*schemas.TaskEnd)
	if end.ErrorInfo == nil || end.ErrorInfo.Message != "the session has used 12 of 10 tokens" {
		t.Errorf("the task's end says %+v", end.ErrorInfo)
	}
}

// Budgets in money are exact to the billionth, and count beside those in tokens.
func TestCostBudgets(t *testing.T) {
	cost := func(p *play, usd schemas.USD) *play {
		return p.do(ModelEnded{Request: p.request, Status: schemas.StopCompleted, Usage: schemas.TokenCounts{Total: 1, CostUSD: usd}})
	}
	tenth := schemas.Dollar / 10
	p := limited(t, schemas.ApproveAll, schemas.Limits{MaxCostTask: 3 * tenth, MaxCostSession: schemas.Dollar})
	for range 3 {
		cost(p.call("look", `{}`), tenth).output(p.lastCall(), "") // three tenths are 0.3, and no more
	}
	cost(p.call("look", `{}`), 1).expect("token_usage", "end completed 1 0", "budget_exceeded")
	want := &schemas.BudgetExceeded{Used: 0.300000001, Limit: 0.3, Unit: "USD"}
	if diff := cmp.Diff(want, p.log[len(p.log)-1].Payload); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	p.output(p.lastCall(), "").task()
	cost(p.call("look", `{}`), schemas.Dollar)
	want = &schemas.BudgetExceeded{Used: 1.300000001, Limit: 1, Unit: "USD"} // the session's before the task's
	if diff := cmp.Diff(want, p.log[len(p.log)-1].Payload); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	p.output(p.lastCall(), "").task().expect("outcome applied", `text "go"`, "task failed budget", "-> answer")
	end := p.log[len(p.log)-1].Payload.(*schemas.TaskEnd)
	if end.ErrorInfo == nil || end.ErrorInfo.Message != "the session has used 1.300000001 of 1 USD" {
		t.Errorf("the task's end says %+v", end.ErrorInfo)
	}
}

// The new owner knows of the limit what the old one knew.
func TestLimitsOutliveTheirOwner(t *testing.T) {
	for _, c := range []struct {
		why    string
		limits schemas.Limits
		want   string
	}{
		{"over budget, its call still runs", schemas.Limits{MaxTokensTask: 1}, "task completed budget"},
		{"the last turn, its call still runs", schemas.Limits{MaxTurns: 2}, "task failed max_turns"},
	} {
		p := limited(t, schemas.ApproveAll, c.limits).turn("look", `{"n":1}`, "")
		p.call("look", `{"n":2}`).used(1)
		call := p.lastCall()
		p = p.lost(0).takeOver().output(call, "")
		if last := p.out[len(p.out)-1]; last != c.want {
			t.Errorf("%s: the task ends with %q", c.why, last)
		}
	}
}

// The model makes one call for ever, and only a member that the tool does not take differs.
func TestCase_D26_SameCallForEver(t *testing.T) {
	limits := schemas.Limits{LoopLimit: 3, OnLoop: schemas.LoopWarn}
	p := limited(t, schemas.ApproveAll, limits)
	p.turn("bash", `{"cmd":"echo noop","note":1}`, "noop").turn("bash", `{ "note":2, "cmd":"echo noop"}`, "noop")
	p.call("bash", `{"cmd":"echo noop","note":3}`)
	p.expect(`call "bash{\"cmd\":\"echo noop\",\"note\":3}"`) // one short of a loop: no decision yet
	p.used(1)
	p.expect("token_usage", "end completed 1 0", "loop_detected", "allow c7-3", "-> tool c7-3 from 1.0")
	p.output(p.lastCall(), "noop")
	if last := p.input()[len(p.input())-1]; !strings.HasPrefix(last, `text "[loop_detected] `) {
		t.Errorf("the model is not told: %s", last)
	}
	p.call("bash", `{"cmd":"echo noop","note":4}`)
	p.call("look", `{`)
	p = p.lost(0) // and the owner with it: the turn is tried again
	p.takeOver().do(RetryDue{p.s.Task.Request.ID})
	p.call("bash", `{"cmd":"echo noop","note":4}`).used(1)
	p.expect("token_usage", "end completed 2 0", "loop_detected",
		"forbidden c8-1", `output "Tool call denied by policy." aborted`, "task failed loop")
	l := p.log[len(p.log)-4].Payload.(*schemas.LoopDetected)
	want := schemas.LoopDetected{Repeated: schemas.LoopOfCalls, Repetitions: 4, Detail: `bash {"cmd":"echo noop","note":4}`}
	if diff := cmp.Diff(want, *l); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// What a turn is compared by, and what ends the task.
func TestLoops(t *testing.T) {
	type turn struct{ arguments, output string }
	same := func(n int) (turns []turn) { return slices.Repeat([]turn{{`{"n":1}`, "x"}}, n) }
	for _, c := range []struct {
		why    string
		limits schemas.Limits
		turns  []turn
		loops  int
		cause  string // empty: the task goes on
	}{
		{"nobody looks", schemas.Limits{}, same(9), 0, ""},
		{"one short", schemas.Limits{LoopLimit: 3}, same(2), 0, ""},
		{"the first is a warning", schemas.Limits{LoopLimit: 3}, same(3), 1, ""},
		{"the second in a row ends the task", schemas.Limits{LoopLimit: 3}, same(4), 2, "loop"},
		{"terminate", schemas.Limits{LoopLimit: 3, OnLoop: schemas.LoopTerminate}, same(3), 1, "loop"},
		{"continue", schemas.Limits{LoopLimit: 3, OnLoop: schemas.LoopContinue}, same(6), 4, ""},
		{"the repetitions end after the warning", schemas.Limits{LoopLimit: 2, LoopWindow: 2},
			[]turn{{`{"n":1}`, "x"}, {`{"n":1}`, "x"}, {`{"n":2}`, "x"}, {`{"n":2}`, "x"}}, 2, ""},
		{"A,B,A,B", schemas.Limits{LoopLimit: 3, OnLoop: schemas.LoopTerminate},
			[]turn{{`{"n":1}`, "x"}, {`{"n":2}`, "y"}, {`{"n":1}`, "x"}, {`{"n":2}`, "y"}, {`{"n":1}`, "x"}}, 1, "loop"},
		{"A,B,A,B, and a window of three", schemas.Limits{LoopLimit: 3, LoopWindow: 3},
			[]turn{{`{"n":1}`, "x"}, {`{"n":2}`, "y"}, {`{"n":1}`, "x"}, {`{"n":2}`, "y"}, {`{"n":1}`, "x"}}, 0, ""},
		{"polling: each time another answer", schemas.Limits{LoopLimit: 3, OnLoop: schemas.LoopTerminate},
			[]turn{{`{"n":1}`, "10%"}, {`{"n":1}`, "20%"}, {`{"n":1}`, "30%"}, {`{"n":1}`, "40%"}, {`{"n":1}`, "50%"}}, 0, ""},
		{"polling what has come to a stop", schemas.Limits{LoopLimit: 3, OnLoop: schemas.LoopTerminate},
			[]turn{{`{"n":1}`, "10%"}, {`{"n":1}`, "20%"}, {`{"n":1}`, "20%"}, {`{"n":1}`, "20%"}}, 1, "loop"},
		{"other arguments", schemas.Limits{LoopLimit: 2, OnLoop: schemas.LoopTerminate},
			[]turn{{`{"n":1}`, "x"}, {`{"n":2}`, "x"}, {`{"n":3}`, "x"}}, 0, ""},
		{"integers that differ in the last digit", schemas.Limits{LoopLimit: 2, OnLoop: schemas.LoopTerminate},
			[]turn{{`{"n":9007199254740993}`, "x"}, {`{"n":9007199254740992}`, "x"}}, 0, ""},
		{"white space, order and spelling", schemas.Limits{LoopLimit: 2, OnLoop: schemas.LoopTerminate},
			[]turn{{`{"n":1.0,"cmd":"a"}`, "x"}, {` { "cmd":"\u0061", "n":1 }`, "x"}}, 1, "loop"},
		{"no arguments are an empty object", schemas.Limits{LoopLimit: 2, OnLoop: schemas.LoopTerminate},
			[]turn{{``, "x"}, {`{}`, "x"}}, 1, "loop"},
		{"what is not even JSON", schemas.Limits{LoopLimit: 2, OnLoop: schemas.LoopTerminate}, []turn{{`{`, ""}, {`{`, ""}}, 1, "loop"},
	} {
		p := limited(t, schemas.ApproveAll, c.limits)
		for _, turn := range c.turns {
			p.turn("bash", turn.arguments, turn.output)
		}
		cause := ""
		if end, ok := p.log[len(p.log)-1].Payload.(*schemas.TaskEnd); ok {
			cause = end.Cause
		}
		if n := p.has(schemas.KindLoopDetected); n != c.loops || cause != c.cause {
			t.Errorf("%s: %d loops, cause %q", c.why, n, cause)
		}
	}
}

// The text is the same, the calls differ in what makes no difference.
func TestLoopOfText(t *testing.T) {
	p := limited(t, schemas.ApproveAll, schemas.Limits{LoopLimit: 3, OnLoop: schemas.LoopTerminate})
	p.say(schemas.AssistantText("Once more. ")).turn("look", `{"n":1}`, "x") // what came of it was something else
	p.say(schemas.AssistantText("Once more.")).turn("look", `{"n":2}`, "y")
	p.say(schemas.AssistantText("Once more.")).turn("look", `{"n":3}`, "y")
	p.say(schemas.AssistantText("Once more.")).turn("look", `{"n":4}`, "y")
	if n := p.has(schemas.KindLoopDetected); n != 1 {
		t.Fatalf("%d loops in four turns", n)
	}
	p.expect("token_usage", "end completed 1 0", "loop_detected",
		"forbidden c7-4", `output "Tool call denied by policy." aborted`, "task failed loop")
	l := p.log[len(p.log)-4].Payload.(*schemas.LoopDetected)
	if diff := cmp.Diff(schemas.LoopDetected{Repeated: schemas.LoopOfText, Repetitions: 3, Detail: "Once more."}, *l); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// While a turn may turn out to be a loop nobody is asked about its calls.
func TestLoopHoldsQuestionsBack(t *testing.T) {
	p := limited(t, schemas.ApproveAsk, schemas.Limits{LoopLimit: 2, OnLoop: schemas.LoopTerminate})
	p.call("look", `{}`)
	p.expect(`call "look{}"`, "ask c7-1")
	p.approve("c7-1", schemas.DecisionAllow).used(1).output("c7-1", "x")
	p.call("look", `{}`)
	p.expect(`call "look{}"`)
	p.call("look", `{"n":1}`)
	p.expect(`call "look{\"n\":1}"`)
	p.used(1) // it was another turn after all
	p.expect("token_usage", "end completed 1 0", "ask c7-2")
	p.abort()
	p.expect("outcome applied", "abort enough", "task aborted user", "-> answer")
}

func TestTakes(t *testing.T) {
	for _, c := range []struct {
		why, parameters string
		all             bool
	}{
		{"a tool that says nothing may take anything", ``, true},
		{"so does one without properties", `{"type":"object"}`, true},
		{"not a schema", `[`, true},
		{"any other member", `{"properties":{"a":{}},"additionalProperties":true}`, true},
		{"members of other names", `{"properties":{"a":{}},"patternProperties":{"^x":{}}}`, true},
		{"properties that are elsewhere", `{"properties":{"a":{}},"$ref":"#/x"}`, true},
		{"those it names", `{"properties":{"a":{}}}`, false},
		{"those it names, and says so", `{"properties":{"a":{}},"additionalProperties":false}`, false},
	} {
		if got := takes(jsontext.Value(c.parameters)); (got == nil) != c.all {
			t.Errorf("%s: %v", c.why, got)
		}
	}
}

func TestExcerpt(t *testing.T) {
	long := strings.Repeat("x", maxLoopDetail-1) + "é"
	for _, c := range []struct{ why, in, want string }{
		{"short", "x", "x"},
		{"cut in the middle of a character", long, strings.Repeat("x", maxLoopDetail-1) + "…"},
	} {
		if got := excerpt(c.in); got != c.want {
			t.Errorf("%s: %q", c.why, got)
		}
	}
}
