package shell

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"braid/llm"
	"braid/llm/llmtest"
	"braid/schemas"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

func demo(t *testing.T, p *Provider) llm.Model {
	t.Helper()
	c, err := llm.NewCatalog(p)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Open("shell/demo")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func input(payloads ...schemas.Payload) llm.Request {
	req := llm.Request{Attempt: 1}
	for _, p := range payloads {
		req.Input = append(req.Input, schemas.New(start, p))
	}
	return req
}

func TestCommands(t *testing.T) {
	tests := []struct {
		name   string
		prompt string
		want   []string
	}{
		{"one line, one call", "$ echo hi", []string{`{"command":"echo hi"}`}},
		{"several, in order, among prose", "Please:\n$ pwd\nand then\n  $ls -l | wc\r\n", []string{`{"command":"pwd"}`, `{"command":"ls -l | wc"}`}},
		{"quotes and angle brackets stay as they are", `$ echo "<a>" && true`, []string{`{"command":"echo \"<a>\" && true"}`}},
		{"a dollar sign alone is no command", "$\n$  \n", nil},
		{"a dollar sign inside a line is none", "it costs 5 $ or so", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := llmtest.Run(t, t.Context(), demo(t, &Provider{}), input(schemas.UserText(tt.prompt)))
			var got []string
			ids := map[string]bool{}
			for _, c := range r.Calls() {
				if c.Name != ToolName {
					t.Errorf("call of %q, want %s", c.Name, ToolName)
				}
				got = append(got, c.Arguments)
				ids[c.ToolCallID] = true
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("arguments (-want +got)\n%s", diff)
			}
			if len(ids) != len(got) {
				t.Errorf("%d calls share %d ids", len(got), len(ids))
			}
			if tt.want == nil && r.Text() != help {
				t.Errorf("text %q, want the explanation", r.Text())
			}
			if _, ok := r.Complete()[0].Payload.(*schemas.Text); !ok {
				t.Error("the first thing said is not a text")
			}
			if r.Status != schemas.StopCompleted {
				t.Errorf("status %s", r.Status)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	call := func(id, command string) *schemas.ToolCall {
		return schemas.NewToolCall(id, ToolName, `{"command":"`+command+`"}`)
	}
	out := func(id, output string, reason schemas.StopReason) *schemas.ToolCallOutput {
		return schemas.NewToolCallOutput(id, output, reason)
	}
	tests := []struct {
		name string
		in   []schemas.Payload
		want string
	}{
		{
			"in call order, whatever order outputs have; an earlier turn does not count",
			[]schemas.Payload{
				call("z", "old"), out("z", "old\n", ""), schemas.AssistantText("I will"), call("a", "one"),
				schemas.AssistantThinking("hm"), call("b", "two"), out("b", "2\n[exit code: 3]\n", ""), out("a", "1\n", ""),
			},
			"$ one: exit code 0\n  1\n\n$ two: exit code 3\n  2",
		},
		{"a note of success", []schemas.Payload{call("a", "x"), out("a", "y\n[exit code: 0]", "")}, "$ x: exit code 0\n  y"},
		{"another wording", []schemas.Payload{call("a", "x"), out("a", "exited with status 127", "")}, "$ x: exit code 127\n  (no output)"},
		{"long output is cut", []schemas.Payload{call("a", "x"), out("a", "1\n2\n3\n4\n5\n6\n7\n", "")}, "$ x: exit code 0\n  1\n  2\n  3\n  4\n  5\n  (2 more lines)"},
		{"a call that was stopped", []schemas.Payload{call("a", "x"), out("a", "", schemas.StopAborted)}, "$ x: aborted\n  (no output)"},
		{"a command that failed says so by its code", []schemas.Payload{call("a", "x"), out("a", "[exit code: 2]", schemas.StopFailed)}, "$ x: exit code 2\n  (no output)"},
		{"a command that was stopped has no code that matters", []schemas.Payload{call("a", "x"), out("a", "y\n[exit code: -1]", schemas.StopTimeout)}, "$ x: timeout\n  y"},
		{
			"what the harness says does not hide the outputs",
			[]schemas.Payload{call("a", "x"), out("a", "y", ""), schemas.HarnessText("[turn_retried]")},
			"$ x: exit code 0\n  y",
		},
		{"arguments that are no JSON", []schemas.Payload{schemas.NewToolCall("a", "exec_command", "{"), out("a", "y", schemas.StopFailed)}, "exec_command: failed\n  y"},
		{"outputs without a call", []schemas.Payload{out("a", "y", "")}, "There are outputs, but I know of no call they belong to."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := llmtest.Run(t, t.Context(), demo(t, &Provider{}), input(tt.in...))
			if diff := cmp.Diff(tt.want, r.Text()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if len(r.Calls()) != 0 {
				t.Errorf("it makes %d calls", len(r.Calls()))
			}
		})
	}
}

// A prompt after outputs is what counts, and its calls get ids of their own.
func TestPromptAfterOutputs(t *testing.T) {
	r := llmtest.Run(t, t.Context(), demo(t, &Provider{}), input(
		schemas.UserText("$ a"), schemas.NewToolCall("call_1", ToolName, `{"command":"a"}`),
		schemas.NewToolCallOutput("call_1", "x", ""), schemas.UserText("$ b"),
	))
	if calls := r.Calls(); len(calls) != 1 || calls[0].ToolCallID != "call_2" {
		t.Errorf("calls %+v, want one call_2", calls)
	}
}

func TestDeltasAreWords(t *testing.T) {
	r := llmtest.Run(t, t.Context(), demo(t, &Provider{}), input(schemas.UserText("$ a")))
	var got []string
	for _, m := range r.Messages {
		if p, ok := m.Payload.(*schemas.PartialText); ok && p.EventType == schemas.PhaseDelta {
			got = append(got, p.Text)
		}
	}
	if diff := cmp.Diff([]string{"I ", "will ", "run ", "this ", "command."}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestWordsJoinToTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab \n\té𝄞"))).Draw(t, "text")
		parts := words(text)
		if strings.Join(parts, "") != text {
			t.Fatalf("words(%q) = %q", text, parts)
		}
		for _, p := range parts {
			if p == "" {
				t.Fatalf("words(%q) holds an empty word", text)
			}
		}
	})
}

func TestDelayAndCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		m := demo(t, &Provider{Delay: time.Second, Now: func() time.Time { return start }})
		time.AfterFunc(2500*time.Millisecond, cancel)
		r := llmtest.Run(t, ctx, m, input(schemas.UserText("hello")))
		if r.Status != schemas.StopAborted {
			t.Errorf("status %s, want aborted", r.Status)
		}
		if r.Text() != "I am " {
			t.Errorf("text %q, want the words of the first two seconds", r.Text())
		}
		if d := time.Since(begun); d != 2500*time.Millisecond {
			t.Errorf("it ended after %s", d)
		}
	})
}

func TestCancelBeforeTheFirstWord(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m, err := (&Provider{}).Model(ModelName)
	if err != nil {
		t.Fatal(err)
	}
	if r := llmtest.Run(t, ctx, m, input(schemas.UserText("$ a"))); r.Status != schemas.StopAborted || len(r.Messages) != 0 {
		t.Errorf("status %s and %d messages, want aborted and none", r.Status, len(r.Messages))
	}
}

func TestEmitFails(t *testing.T) {
	full := errors.New("no room")
	for n := range 16 {
		m, err := (&Provider{}).Model(ModelName)
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		o := m.Stream(t.Context(), input(schemas.UserText("$ a\n$ b")), func(schemas.Message) error {
			calls++
			if calls > n {
				return full
			}
			return nil
		})
		if o.Status != schemas.StopAborted || !errors.Is(o.Error, full) {
			t.Errorf("after %d messages: %s, %v; want aborted by the error of emit", n, o.Status, o.Error)
		}
		if calls != n+1 {
			t.Errorf("emit was called %d times after it failed", calls-n-1)
		}
	}
}

func TestUnknownModel(t *testing.T) {
	p := &Provider{}
	if _, err := p.Model("gpt"); !errors.Is(err, &schemas.Error{Code: schemas.CodeUnknownModel}) {
		t.Errorf("error %v, want unknown_model", err)
	}
	if diff := cmp.Diff([]string{"demo"}, p.Models()); diff != "" {
		t.Error(diff)
	}
}
