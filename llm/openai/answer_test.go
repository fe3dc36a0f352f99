package openai_test

import (
	"fmt"
	"strings"
	"testing"

	"braid/llm"
	"braid/llm/llmtest"
	"braid/schemas"

	"github.com/google/go-cmp/cmp"
)

// tell lists what an answer came to, a line each: complete messages, then the end.
func tell(r llmtest.Result) string {
	var b strings.Builder
	for _, m := range r.Complete() {
		switch p := m.Payload.(type) {
		case *schemas.Text:
			fmt.Fprintf(&b, "text %q %s\n", p.Text, p.StopReason)
		case *schemas.Thinking:
			fmt.Fprintf(&b, "thinking %q %s\n", p.Thinking, p.StopReason)
		case *schemas.ToolCall:
			fmt.Fprintf(&b, "call %s %s %s %s\n", p.ToolCallID, p.Name, p.Arguments, p.StopReason)
		}
	}
	b.WriteString(string(r.Status))
	if u := r.Usage; u != nil {
		fmt.Fprintf(&b, " read=%d write=%d out=%d total=%d", u.CacheRead, u.CacheWrite, u.Output, u.Total)
	}
	if r.Error != nil {
		fmt.Fprintf(&b, " %s retryable=%v: %s", r.Error.Kind, r.Error.Retryable, r.Error.Message)
	}
	return strings.ReplaceAll(b.String(), " \n", "\n")
}

// run makes one request to a server that gives this answer.
func run(t *testing.T, r reply) llmtest.Result {
	t.Helper()
	return llmtest.Run(t, t.Context(), serve(t, r).model(t), llm.Request{})
}

func expect(t *testing.T, got llmtest.Result, want ...string) {
	t.Helper()
	if diff := cmp.Diff(strings.Join(want, "\n"), tell(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

const (
	paris = `{"city":"Paris","unit":"celsius"}`
	rome  = `{"city":"Rome","unit":"celsius"}`
)

// What servers really send.
var captures = map[string][]string{
	"openai-chat-1-toolcall": {
		`thinking "I should call the tool."`, `text "Let me check."`,
		"call call_w1 get_weather " + paris, "call call_w2 get_weather " + rome,
		"completed read=0 write=0 out=17 total=58",
	},
	"openai-chat-2-final": {`text "Paris 18 C, Rome 24 C."`, "completed read=0 write=0 out=6 total=12"},
	"openai-chat-reasoning": {
		`thinking "I should call the tool."`, `text "Let me check."`,
		"call call_w1 get_weather " + paris, "call call_w2 get_weather " + rome, "completed",
	},
	"azure-1-toolcall": {
		`thinking "I should call the tool."`, `text "Let me check."`,
		"call call_w1 get_weather " + paris, "call call_w2 get_weather " + rome, "completed",
	},
	"copilot-1-toolcall": {
		`thinking "I should call the tool."`, `text "Let me check."`,
		"call call_w1 get_weather " + paris, "call call_w2 get_weather " + rome, "completed",
	},
	"openrouter-1-toolcall": {
		`thinking "I should call the tool."`, `text "Let me check."`,
		"call call_w1 get_weather " + paris, "call call_w2 get_weather " + rome,
		"completed read=0 write=0 out=17 total=58",
	},
	"openai-chat-slowcut": {
		`text "This sente" malformed`,
		"malformed provider retryable=true: the answer broke off: the connection broke: unexpected EOF",
	},
	"openai-chat-toolcut": {
		`call call_BVUyc3ZSF5FdVOH6 get_weather {"cit malformed`,
		"malformed provider retryable=true: the answer broke off: the connection broke: unexpected EOF",
	},
	"openai-chat-error429": {
		"failed provider retryable=true: the provider is busy or its limit is reached (429): Rate limited",
	},
	"ollama-1-toolcall": { // another protocol: the base URL lacks /v1
		"malformed provider retryable=true: a part of the answer can't be read: ",
	},
}

func TestCaptures(t *testing.T) {
	for name, want := range captures {
		t.Run(name, func(t *testing.T) {
			got := tell(run(t, capture(t, name)))
			if strings.HasSuffix(want[0], ": ") && strings.HasPrefix(got, want[0]) {
				return // the rest is a library's
			}
			if diff := cmp.Diff(strings.Join(want, "\n"), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// Wherever the network cuts an answer, the same messages come out.
func TestCapturesCutAnywhere(t *testing.T) {
	for _, name := range []string{"openai-chat-1-toolcall", "openai-chat-2-final", "openai-chat-toolcut"} {
		r := capture(t, name)
		r.body = shorter(r.body)
		want := captures[name]
		step := 1
		if testing.Short() {
			step = 97
		}
		s := serve(t, r)
		m := s.model(t)
		for at := 0; at <= len(r.body); at += step {
			r.splits = []int{at}
			s.replies = []reply{r}
			if diff := cmp.Diff(strings.Join(want, "\n"), tell(llmtest.Run(t, t.Context(), m, llm.Request{}))); diff != "" {
				t.Fatalf("%s cut at %d (-want +got)\n%s", name, at, diff)
			}
		}
		r.splits = nil
		for at := range r.body {
			r.splits = append(r.splits, at)
		}
		s.replies = []reply{r}
		if diff := cmp.Diff(strings.Join(want, "\n"), tell(llmtest.Run(t, t.Context(), m, llm.Request{}))); diff != "" {
			t.Fatalf("%s byte by byte (-want +got)\n%s", name, diff)
		}
	}
}

// shorter leaves out of the events what nobody looks at.
func shorter(body string) string {
	for _, noise := range []string{`"object":"chat.completion.chunk",`, `"created":1796025480,`, `"model":"gpt-4o",`, `"logprobs":null,`, `"id":"chatcmpl-4DIHXorh2k9Nim6K",`} {
		body = strings.ReplaceAll(body, noise, "")
	}
	return body
}
