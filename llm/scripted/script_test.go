package scripted

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"braid/llm"
	"braid/llm/llmtest"
	"braid/schemas"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func mustParse(t *testing.T, text string) *Script {
	t.Helper()
	s, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func request(payloads ...schemas.Payload) llm.Request {
	req := llm.Request{Attempt: 1}
	for _, p := range payloads {
		req.Input = append(req.Input, schemas.New(noon, p))
	}
	return req
}

// story renders what was emitted, one short line a message.
func story(messages []schemas.Message) string {
	var out strings.Builder
	for _, m := range messages {
		switch p := m.Payload.(type) {
		case *schemas.PartialText:
			fmt.Fprintf(&out, "text %s %q\n", p.EventType, p.Text)
		case *schemas.PartialThinking:
			fmt.Fprintf(&out, "thinking %s %q\n", p.EventType, p.Thinking)
		case *schemas.PartialToolCall:
			fmt.Fprintf(&out, "call %s %s%q\n", p.EventType, p.Name, p.Arguments)
		default:
			c := contentOf(m)
			fmt.Fprintf(&out, "= %s\n", c)
		}
	}
	return out.String()
}

// The example of the package comment, played as an engine would.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider, err := Dir("testdata")
		if err != nil {
			t.Fatal(err)
		}
		catalog, err := llm.NewCatalog(provider)
		if err != nil {
			t.Fatal(err)
		}
		m, err := catalog.Open("scripted/clock")
		if err != nil {
			t.Fatal(err)
		}
		req := request(schemas.UserText("what time is it?"))
		req.System = "You are helpful."
		req.Tools = []schemas.ToolDefinition{{Name: "exec_command"}}
		begun := time.Now()
		r := llmtest.Run(t, t.Context(), m, req)
		want := `thinking start ""
thinking delta "I had better look."
thinking stop ""
= assistant thinking "I had better look."
text start ""
text delta "Let me"
text delta " look "
text delta "at the"
text delta " clock."
text stop ""
= assistant text "Let me look at the clock."
call start exec_command""
call delta "{\"command\":\"date\"}"
call stop ""
= assistant tool_call exec_command "{\"command\":\"date\"}"
`
		if diff := cmp.Diff(want, story(r.Messages)); diff != "" {
			t.Errorf("turn 1 (-want +got)\n%s", diff)
		}
		if diff := cmp.Diff(&schemas.TokenCounts{Output: 12, Total: 100}, r.Usage); diff != "" {
			t.Errorf("usage %s", diff)
		}
		if d := time.Since(begun); d != 40*time.Millisecond {
			t.Errorf("turn 1 took %s, want four times the pace", d)
		}

		req.Input = append(req.Input, r.Complete()...)
		req.Input = append(req.Input, schemas.New(noon, schemas.NewToolCallOutput(r.Calls()[0].ToolCallID, "Nov 30 2026", "")))
		r = llmtest.Run(t, t.Context(), m, req)
		wantErr := &llm.Error{
			Message: "overloaded", Kind: llm.KindProvider, Provider: "scripted", Retryable: true,
			StatusCode: 529, RetryAfter: time.Second,
		}
		if diff := cmp.Diff(wantErr, r.Error); diff != "" || r.Status != schemas.StopFailed {
			t.Errorf("attempt 1: %s (-want +got)\n%s", r.Status, diff)
		}
		if want := "= assistant text \"It is \" (failed)\n"; !strings.HasSuffix(story(r.Messages), want) {
			t.Errorf("attempt 1 ends as\n%s", story(r.Messages))
		}
		for _, req.Attempt = range []int{2, 3} {
			if r = llmtest.Run(t, t.Context(), m, req); r.Text() != "It is late." || r.Status != schemas.StopCompleted {
				t.Errorf("attempt %d: %q, %s", req.Attempt, r.Text(), r.Status)
			}
		}
	})
}

func TestDocExampleIsTheTestedOne(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/clock.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var commented strings.Builder
	for line := range strings.Lines(string(script)) {
		commented.WriteString(strings.TrimSuffix("//\t"+line, "\t\n"))
		if line == "\n" {
			commented.WriteString("\n")
		}
	}
	want := strings.ReplaceAll(commented.String(), "//\t\n", "//\n")
	if !strings.Contains(string(doc), want) {
		t.Errorf("the package comment does not hold testdata/clock.yaml:\n%s", want)
	}
}

func TestWhichTurn(t *testing.T) {
	const counted = `
turns:
  - steps: [{text: one}]
  - steps: [{text: two}]
  - when: {input: [{contains: summarize}]}
    steps: [{text: summary}]
`
	user, call, out, say := schemas.UserText, schemas.NewToolCall, schemas.NewToolCallOutput, schemas.AssistantText
	tests := []struct {
		name   string
		script string
		input  []schemas.Payload
		want   string
	}{
		{"nothing said yet", counted, []schemas.Payload{user("a")}, "one"},
		{"an empty input is the first turn too", counted, nil, "one"},
		{
			"what one turn said counts once", counted,
			[]schemas.Payload{user("a"), schemas.AssistantThinking("x"), say("y"), call("1", "t", "{}"), call("2", "t", "{}"), out("1", "", ""), out("2", "", "")},
			"two",
		},
		{"what the harness says is no turn", counted, []schemas.Payload{user("a"), schemas.HarnessText("[turn_retried]")}, "one"},
		{"a turn out of the count answers whenever it fits", counted, []schemas.Payload{user("a"), say("x"), user("please summarize")}, "summary"},
		{"repeat starts again", "repeat: true" + counted, []schemas.Payload{user("a"), say("x"), user("b"), say("y"), user("c")}, "one"},
		{"counted from the prompt on", "count: prompt" + counted, []schemas.Payload{user("a"), say("x"), user("b")}, "one"},
		{
			"what the harness says is no prompt", "count: prompt" + counted,
			[]schemas.Payload{user("a"), say("x"), schemas.HarnessText("b")}, "two",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := mustParse(t, tt.script)
			for range 2 { // it remembers nothing
				if r := llmtest.Run(t, t.Context(), s, request(tt.input...)); r.Text() != tt.want {
					t.Errorf("it says %q (%v), want %q", r.Text(), r.Error, tt.want)
				}
			}
		})
	}
}

func TestBeyondTheEnd(t *testing.T) {
	s := mustParse(t, "turns: [{steps: [{text: one}]}]")
	r := llmtest.Run(t, t.Context(), s, request(schemas.UserText("a"), schemas.AssistantText("b"), schemas.UserText("c")))
	want := &llm.Error{Kind: llm.KindInput, Provider: "scripted", Message: "script has 1 turns, and this request is for turn 2"}
	if diff := cmp.Diff(want, r.Error); diff != "" || r.Status != schemas.StopFailed {
		t.Errorf("%s (-want +got)\n%s", r.Status, diff)
	}
}

func TestSteps(t *testing.T) {
	tests := []struct {
		name   string
		steps  string
		status schemas.StopReason
		want   string
	}{
		{"saying nothing completes", `[]`, schemas.StopCompleted, ""},
		{"an empty text is a segment", `[{text: ""}]`, schemas.StopCompleted, "text start \"\"\ntext stop \"\"\n= assistant text \"\"\n"},
		{
			"pieces are deltas", `[{text: [a, "", 1, true]}]`, schemas.StopCompleted,
			"text start \"\"\ntext delta \"a\"\ntext delta \"1\"\ntext delta \"true\"\ntext stop \"\"\n= assistant text \"a1true\"\n",
		},
		{
			"texts that follow one another are segments of their own", `[{text: a}, {text: b}]`, schemas.StopCompleted,
			"text start \"\"\ntext delta \"a\"\ntext stop \"\"\n= assistant text \"a\"\n" +
				"text start \"\"\ntext delta \"b\"\ntext stop \"\"\n= assistant text \"b\"\n",
		},
		{
			"characters are never cut", `[{text: äöü, deltas: 2}]`, schemas.StopCompleted,
			"text start \"\"\ntext delta \"ä\"\ntext delta \"öü\"\ntext stop \"\"\n= assistant text \"äöü\"\n",
		},
		{
			"more deltas than characters", `[{thinking: ab, deltas: 9}]`, schemas.StopCompleted,
			"thinking start \"\"\nthinking delta \"a\"\nthinking delta \"b\"\nthinking stop \"\"\n= assistant thinking \"ab\"\n",
		},
		{
			"a call without arguments has the empty object", `[{tool_call: {name: t}}]`, schemas.StopCompleted,
			"call start t\"\"\ncall delta \"{}\"\ncall stop \"\"\n= assistant tool_call t \"{}\"\n",
		},
		{
			"arguments keep the order of the file and every type", `[{tool_call: {name: t, arguments: {z: 1, a: [x, null, 1.5, true, {"b c": -2}], "<": "&"}}}]`, schemas.StopCompleted,
			"call start t\"\"\n" + `call delta "{\"z\":1,\"a\":[\"x\",null,1.5,true,{\"b c\":-2}],\"<\":\"&\"}"` + "\ncall stop \"\"\n" +
				`= assistant tool_call t "{\"z\":1,\"a\":[\"x\",null,1.5,true,{\"b c\":-2}],\"<\":\"&\"}"` + "\n",
		},
		{
			"arguments that are a string stay as they are", `[{tool_call: {name: t, arguments: '{"a":1,}'}, deltas: 2}]`, schemas.StopCompleted,
			"call start t\"\"\ncall delta \"{\\\"a\\\"\"\ncall delta \":1,}\"\ncall stop \"\"\n= assistant tool_call t \"{\\\"a\\\":1,}\"\n",
		},
		{
			"a cut in the middle of a call", `[{tool_call: {name: rm, arguments: ['{"path": "/tm', {cut: true}]}}, {text: never}]`, schemas.StopMalformed,
			"call start rm\"\"\ncall delta \"{\\\"path\\\": \\\"/tm\"\ncall stop \"\"\n= assistant tool_call rm \"{\\\"path\\\": \\\"/tm\" (malformed)\n",
		},
		{
			"silence after a whole text", `[{text: a}, {cut: timeout}]`, schemas.StopTimeout,
			"text start \"\"\ntext delta \"a\"\ntext stop \"\"\n= assistant text \"a\"\n",
		},
		{"a failure before the first word", `[{fail: {status: auth}}]`, schemas.StopAuth, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := mustParse(t, "turns: [{steps: "+tt.steps+"}]")
			r := llmtest.Run(t, t.Context(), s, request(schemas.UserText("a")))
			if r.Status != tt.status {
				t.Errorf("status %s, want %s", r.Status, tt.status)
			}
			if diff := cmp.Diff(tt.want, story(r.Messages)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// The stop reason of a segment that was cut is on its stop fragment and on its message.
func TestCutMarksTheStop(t *testing.T) {
	s := mustParse(t, "turns: [{steps: [{text: [a, {cut: true}]}]}]")
	r := llmtest.Run(t, t.Context(), s, request())
	stop, ok := r.Messages[2].Payload.(*schemas.PartialText)
	if !ok || stop.StopReason != schemas.StopMalformed {
		t.Errorf("third message %+v, want a stop marked malformed", r.Messages[2].Payload)
	}
}

func TestFailureRetryable(t *testing.T) {
	for step, want := range map[string]bool{
		"fail: {}":                               true,
		"fail: {status: timeout}":                true,
		"fail: {status: auth}":                   false,
		"fail: {status: auth, retryable: true}":  true,
		"fail: {retryable: false, message: bad}": false,
		"fail: {kind: input, status_code: 400}":  false,
		"fail: {kind: context}":                  false,
		"cut: true":                              true,
		"cut: timeout":                           true,
	} {
		s := mustParse(t, "turns: [{steps: [{usage: {total: 7}}, {"+step+"}]}]")
		r := llmtest.Run(t, t.Context(), s, request())
		if r.Error == nil || r.Error.Retryable != want {
			t.Errorf("%s: error %+v, want retryable %t", step, r.Error, want)
		}
		if r.Usage == nil || r.Usage.Total != 7 {
			t.Errorf("%s: usage %+v, want what the script said before", step, r.Usage)
		}
	}
}

func TestCallIDs(t *testing.T) {
	s := mustParse(t, `
repeat: true
turns: [{steps: [{tool_call: {name: a}}, {tool_call: {name: b, id: mine}}, {tool_call: {name: c}}]}]`)
	var got []string
	for _, in := range []llm.Request{request(), request(schemas.AssistantText("x"), schemas.UserText("y"))} {
		for _, c := range llmtest.Run(t, t.Context(), s, in).Calls() {
			got = append(got, c.ToolCallID)
		}
	}
	want := []string{"call_1_1", "mine", "call_1_3", "call_2_1", "mine", "call_2_3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestFidelity(t *testing.T) {
	s := mustParse(t, `
turns:
  - steps: [{thinking: [], fidelity: {signature: abc, n: [1]}}]
  - expect: {input: [{kind: thinking, fidelity: {signature: abc, n: [1]}}, {}]}
    steps: [{text: same}]`)
	r := llmtest.Run(t, t.Context(), s, request())
	p := r.Complete()[0].Payload.(*schemas.Thinking)
	if got := string(p.Fidelity); got != `{"signature":"abc","n":[1]}` {
		t.Errorf("fidelity %s", got)
	}
	if r = llmtest.Run(t, t.Context(), s, request(p, schemas.UserText("x"))); r.Text() != "same" {
		t.Errorf("sent back: %v", r.Error)
	}
	q := *p
	q.Fidelity = nil
	if r = llmtest.Run(t, t.Context(), s, request(&q, schemas.UserText("x"))); r.Status != schemas.StopFailed {
		t.Errorf("sent back without fidelity: %s", r.Status)
	}
}

func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustParse(t, "turns: [{steps: [{text: [half, {wait: door}, ' more']}]}]")
		done := make(chan llmtest.Result, 1)
		go func() { done <- llmtest.Run(t, t.Context(), s, request()) }()
		if err := s.Reached(t.Context(), "door"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("the request did not wait")
		default:
		}
		for range 2 {
			if err := s.Release("door"); err != nil {
				t.Fatal(err)
			}
		}
		if r := <-done; r.Text() != "half more" {
			t.Errorf("text %q", r.Text())
		}
		if r := llmtest.Run(t, t.Context(), s, request()); r.Text() != "half more" {
			t.Errorf("through the open gate: text %q", r.Text())
		}
	})
}

func TestGateErrors(t *testing.T) {
	s := mustParse(t, "turns: [{steps: [{wait: door}]}]")
	if err := s.Release("window"); err == nil {
		t.Error("a gate that is not there was opened")
	}
	if err := s.Reached(t.Context(), "window"); err == nil {
		t.Error("a gate that is not there was reached")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Reached(ctx, "door"); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody came: %v", err)
	}
}

func TestCancel(t *testing.T) {
	for _, step := range []string{"{pause: 1h}", "{wait: door}", "{text: never, pace: 1h}"} {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mustParse(t, "turns: [{steps: [{usage: {total: 9}}, {text: [a, {pause: 1ms}, b]}, "+step+"]}]")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				begun := time.Now()
				r := llmtest.Run(t, ctx, s, request())
				if r.Status != schemas.StopTimeout || !errors.Is(r.Error, context.DeadlineExceeded) {
					t.Errorf("%s, %v; want timeout", r.Status, r.Error)
				}
				if d := time.Since(begun); d != time.Minute {
					t.Errorf("it ended after %s", d)
				}
				if r.Usage == nil {
					t.Error("the usage known by then is lost")
				}
			})
		})
	}
}

// A request that was cancelled while it paused in the middle of a text closes the text.
func TestCancelInASegment(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := mustParse(t, "turns: [{steps: [{text: [a, {wait: door}, b]}]}]")
	go func() {
		if err := s.Reached(ctx, "door"); err != nil {
			t.Error(err)
		}
		cancel()
	}()
	r := llmtest.Run(t, ctx, s, request())
	if got := r.Complete(); len(got) != 1 || contentOf(got[0]).String() != `assistant text "a" (aborted)` {
		t.Errorf("complete messages %v", got)
	}
}

// The provider ignores cancellation: the guarded request ends all the same, at once, and the
// request that hangs is counted until it returns.
func TestCase_C27_HangingScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustParse(t, "turns: [{steps: [{text: [a, {hang: mud}, b]}]}]")
		g := llm.Guard(s)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begun := time.Now()
		r := llmtest.Run(t, ctx, g, request())
		if d := time.Since(begun) - time.Second; r.Status != schemas.StopAborted || d > time.Second {
			t.Errorf("%s, %s after the cancellation", r.Status, d)
		}
		if g.Abandoned() != 1 {
			t.Errorf("%d requests abandoned, want 1", g.Abandoned())
		}
		if err := s.Release("mud"); err != nil {
			t.Fatal(err)
		}
		if err := g.Close(t.Context()); err != nil || g.Abandoned() != 0 {
			t.Errorf("after its release: %v, %d abandoned", err, g.Abandoned())
		}
	})
}

func TestPanic(t *testing.T) {
	r := llmtest.Run(t, t.Context(), llm.Guard(mustParse(t, "turns: [{steps: [{text: [a, {panic: boom}]}]}]")), request())
	if r.Status != schemas.StopFailed || !strings.Contains(r.Error.Message, "boom") {
		t.Errorf("%s, %v", r.Status, r.Error)
	}
}

func TestEmitFails(t *testing.T) {
	s := mustParse(t, "turns: [{steps: [{text: ab, deltas: 2}, {tool_call: {name: t}}, {pause: 1ms}]}]")
	full := errors.New("no room")
	for n := range 9 {
		calls := 0
		o := s.Stream(t.Context(), request(), func(schemas.Message) error {
			if calls++; calls > n {
				return full
			}
			return nil
		})
		if o.Status != schemas.StopAborted || !errors.Is(o.Error, full) || calls != n+1 {
			t.Errorf("emit fails after %d messages: %s, %v, %d calls", n, o.Status, o.Error, calls)
		}
	}
}

func TestProvider(t *testing.T) {
	p := New(map[string]*Script{"b": mustParse(t, "turns: [{steps: []}]"), "a": mustParse(t, "turns: [{steps: []}]")})
	if diff := cmp.Diff([]string{"a", "b"}, p.Models()); diff != "" {
		t.Error(diff)
	}
	if p.Script("a") == nil || p.Script("c") != nil {
		t.Error("Script finds what is not there, or not what is")
	}
	if _, err := p.Model("c"); !errors.Is(err, &schemas.Error{Code: schemas.CodeUnknownModel}) {
		t.Errorf("error %v, want unknown_model", err)
	}
}

func TestDirErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("good.yaml", "turns: [{steps: []}]")
	write("good.yml", "turns: [{steps: []}]")
	write("bad.yaml", "turns:\n  - steps:\n      - txt: hi\n")
	write("notes.txt", "no script")
	_, err := Dir(dir)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`two scripts of name "good"`, `bad.yaml:3: a step has no "txt"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	if _, err := Dir(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if _, err := Load(filepath.Join(dir, "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
