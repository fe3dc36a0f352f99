package openai_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"braid/llm"
	"braid/llm/llmtest"
	"braid/llm/openai"
	"braid/schemas"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// sent is what a request with this context sends, one line for each message.
func sent(t *testing.T, c openai.Config, req llm.Request) string {
	t.Helper()
	s := serve(t, data(finish("stop"), done))
	m := s.model(t, func(into *openai.Config) {
		c.Name, c.BaseURL, c.APIKey = into.Name, into.BaseURL, into.APIKey
		*into = c
	})
	if r := llmtest.Run(t, t.Context(), m, req); r.Status != schemas.StopCompleted {
		t.Fatalf("%s: %v", r.Status, r.Error)
	}
	body, err := schemas.CompactRaw([]byte(s.bodies[0]))
	if err != nil {
		t.Fatalf("%v: %s", err, s.bodies[0])
	}
	if string(body) != s.bodies[0] {
		t.Errorf("not as plain as it could be: %s", s.bodies[0])
	}
	return strings.NewReplacer(`{"role":`, "\n"+`{"role":`).Replace(s.bodies[0])
}

func input(payloads ...schemas.Payload) llm.Request {
	var req llm.Request
	for _, p := range payloads {
		req.Input = append(req.Input, schemas.New(noon, p))
	}
	return req
}

// with gives a payload its fidelity.
func with(p schemas.Payload, fidelity string) schemas.Payload {
	switch p := p.(type) {
	case *schemas.ToolCall:
		p.Fidelity = jsontext.Value(fidelity)
	case *schemas.Thinking:
		p.Fidelity = jsontext.Value(fidelity)
	case *schemas.Text:
		p.Fidelity = jsontext.Value(fidelity)
	}
	return p
}

func call(id, name, args string) *schemas.ToolCall { return schemas.NewToolCall(id, name, args) }

func output(id, text string) *schemas.ToolCallOutput { return schemas.NewToolCallOutput(id, text, "") }

// wants compares the messages of a request, and nothing else of it.
func wants(t *testing.T, got string, messages ...string) {
	t.Helper()
	_, got, _ = strings.Cut(got, `"messages":[`)
	got, _, _ = strings.Cut(got, `],"stream":true`)
	want := ""
	for i, m := range messages {
		if i > 0 {
			want += ","
		}
		want += "\n" + m
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestRequest(t *testing.T) {
	req := input(schemas.UserText("hi"))
	req.System = "be <b>brief</b> & kind"
	req.Tools = []schemas.ToolDefinition{
		{Name: "read", Description: "reads", Parameters: jsontext.Value(`{"type":"object"}`), Pool: "p"},
		{Name: "stop"},
	}
	c := openai.Config{Models: map[string]openai.ModelConfig{"m": {MaxOutput: 100, Body: jsontext.Value(`{"temperature":0.20}`)}}}
	want := `{"model":"m","messages":[` + "\n" +
		`{"role":"system","content":"be <b>brief</b> & kind"},` + "\n" +
		`{"role":"user","content":"hi"}],` +
		`"tools":[{"type":"function","function":{"name":"read","description":"reads","parameters":{"type":"object"}}},` +
		`{"type":"function","function":{"name":"stop","parameters":{"type":"object","properties":{}}}}],` +
		`"stream":true,"stream_options":{"include_usage":true},"max_tokens":100,"temperature":0.20}`
	if diff := cmp.Diff(want, sent(t, c, req)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// Nothing is sent that nobody asked for.
	if got := sent(t, openai.Config{NoStreamUsage: true}, input(schemas.UserText("hi"))); got != `{"model":"m","messages":[`+"\n"+`{"role":"user","content":"hi"}],"stream":true}` {
		t.Errorf("the least: %s", got)
	}
	// No more is promised than the request may have.
	req.MaxOutput = 30
	if got := sent(t, c, req); !strings.Contains(got, `"max_tokens":30`) {
		t.Errorf("a limit of the request: %s", got)
	}
	// Whoever sets the limit in his own words is not overruled.
	c.Models["m"] = openai.ModelConfig{MaxOutput: 100, Body: jsontext.Value(`{"max_tokens":7}`)}
	if got := sent(t, c, req); !strings.Contains(got, `"max_tokens":7`) || strings.Contains(got, "100") {
		t.Errorf("two limits: %s", got)
	}
}

func TestHeaders(t *testing.T) {
	s := serve(t, data(finish("stop"), done))
	llmtest.Run(t, t.Context(), s.model(t, func(c *openai.Config) { c.Header = map[string]string{"X-Title": "braid"} }), llm.Request{})
	llmtest.Run(t, t.Context(), s.model(t, func(c *openai.Config) { c.APIKeyHeader = "api-key" }), llm.Request{})
	llmtest.Run(t, t.Context(), s.model(t, func(c *openai.Config) { c.APIKey, c.BaseURL = "", c.BaseURL+"/?api-version=1" }), llm.Request{})
	h := s.requests[0].Header
	if got := [4]string{h.Get("Authorization"), h.Get("X-Title"), h.Get("Content-Type"), h.Get("User-Agent")}; got != [4]string{"Bearer sk-very-secret-key", "braid", "application/json", "braid"} {
		t.Errorf("headers %q", got)
	}
	if h := s.requests[1].Header; h.Get("Api-Key") != "sk-very-secret-key" || h.Get("Authorization") != "" {
		t.Errorf("a header of its own: %v", h)
	}
	if r := s.requests[2]; r.Header.Get("Authorization") != "" || r.URL.String() != "/v1/chat/completions?api-version=1" || r.Method != http.MethodPost {
		t.Errorf("no key: %v, %s %s", r.Header, r.Method, r.URL)
	}
}

// What the model said goes back as it must: calls and outputs paired and in order, the user behind.
func TestCase_A29_OutputsFollowTheirCalls(t *testing.T) {
	wants(t, sent(t, openai.Config{}, input(
		schemas.UserText("go"), schemas.AssistantText("So"), schemas.AssistantText(" be it"),
		call("c1-1", "a", "{}"), call("c1-2", "b", `{"x":1}`),
		output("c1-2", "two"), schemas.UserText("hurry"), schemas.HarnessText("yes"), output("c1-1", "one"),
		schemas.AssistantText("done"), schemas.UserText("thanks"))),
		`{"role":"user","content":"go"}`,
		`{"role":"assistant","content":"So be it","tool_calls":[{"id":"c1-1","type":"function","function":{"name":"a","arguments":"{}"}},{"id":"c1-2","type":"function","function":{"name":"b","arguments":"{\"x\":1}"}}]}`,
		`{"role":"tool","content":"one","tool_call_id":"c1-1"}`,
		`{"role":"tool","content":"two","tool_call_id":"c1-2"}`,
		`{"role":"user","content":"hurry\n\nyes"}`,
		`{"role":"assistant","content":"done"}`,
		`{"role":"user","content":"thanks"}`)
}

// A call without an output and an output without a call would make the provider refuse everything.
func TestUnpairedCalls(t *testing.T) {
	wants(t, sent(t, openai.Config{}, input(
		output("c0-1", "old"), call("c1-1", "a", "{}"), call("c1-2", "b", "{}"),
		output("c1-1", "one"), output("c1-1", "again"), schemas.AssistantText("done"))),
		`{"role":"user","content":"[output of an earlier tool call]\nold"}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1-1","type":"function","function":{"name":"a","arguments":"{}"}},{"id":"c1-2","type":"function","function":{"name":"b","arguments":"{}"}}]}`,
		`{"role":"tool","content":"one","tool_call_id":"c1-1"}`,
		`{"role":"tool","content":"[no output: the call was interrupted]","tool_call_id":"c1-2"}`,
		`{"role":"user","content":"[output of an earlier tool call]\nagain"}`,
		`{"role":"assistant","content":"done"}`)
}

// The provider's own ids go back to it, unless they would come twice.
func TestCase_A30_CallIDsAreUnique(t *testing.T) {
	const theirs = `{"from":"p/m","call_id":"http_request"}`
	wants(t, sent(t, openai.Config{}, input(
		with(call("c1-1", "a", "{}"), theirs), with(call("c1-2", "a", "{}"), theirs), output("c1-1", "1"), output("c1-2", "2"),
		with(call("c1-3", "a", "{}"), `{"from":"p/other","call_id":"x"}`), output("c1-3", "3"))),
		`{"role":"assistant","content":null,"tool_calls":[{"id":"http_request","type":"function","function":{"name":"a","arguments":"{}"}},{"id":"c1-2","type":"function","function":{"name":"a","arguments":"{}"}}]}`,
		`{"role":"tool","content":"1","tool_call_id":"http_request"}`,
		`{"role":"tool","content":"2","tool_call_id":"c1-2"}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1-3","type":"function","function":{"name":"a","arguments":"{}"}}]}`,
		`{"role":"tool","content":"3","tool_call_id":"c1-3"}`)
}

// Arguments that are no object and names that are none are the model's mistakes of the past: its
// output has told it so. Sent as they are they would spoil every request to come.
func TestCase_D24_NamesAndArgumentsThatProvidersTake(t *testing.T) {
	got := sent(t, openai.Config{}, input(
		call("1", "calendar.list", ""), call("2", "scan file", `{"a":`), call("3", strings.Repeat("n", 90), `[1]`), call("4", "é", ` {"a": 1} `)))
	for _, want := range []string{
		`{"name":"calendar_list","arguments":"{}"}`, `{"name":"scan_file","arguments":"{}"}`,
		`{"name":"` + strings.Repeat("n", 64) + `","arguments":"{}"}`, `{"name":"_","arguments":" {\"a\": 1} "}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	s := serve(t, data(done))
	r := llmtest.Run(t, t.Context(), s.model(t), llm.Request{Tools: []schemas.ToolDefinition{{Name: "calendar.list"}}})
	if r.Error == nil || r.Error.Kind != llm.KindInput || len(s.bodies) != 0 {
		t.Errorf("a tool with such a name: %v, %d requests", r.Error, len(s.bodies))
	}
}

func TestPictures(t *testing.T) {
	shot := output("c1-1", "here")
	shot.Images = []string{"data:image/png;base64,AA=="}
	wants(t, sent(t, openai.Config{}, input(
		schemas.UserText("what is"), schemas.UserImage("https://x/y.png"), schemas.UserData("image/gif", "R0lG"),
		call("c1-1", "screenshot", "{}"), shot)),
		`{"role":"user","content":[{"type":"text","text":"what is"},{"type":"image_url","image_url":{"url":"https://x/y.png"}},{"type":"image_url","image_url":{"url":"data:image/gif;base64,R0lG"}}]}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1-1","type":"function","function":{"name":"screenshot","arguments":"{}"}}]}`,
		`{"role":"tool","content":"here","tool_call_id":"c1-1"}`,
		`{"role":"user","content":[{"type":"text","text":"[pictures of the tool's output]"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}`)
	s := serve(t, data(done))
	r := llmtest.Run(t, t.Context(), s.model(t), input(schemas.UserData("audio/wav", "AA==")))
	if r.Error == nil || r.Error.Kind != llm.KindInput || len(s.bodies) != 0 {
		t.Errorf("data that can't be sent: %v, %d requests", r.Error, len(s.bodies))
	}
}

// Whatever is in a context, what is sent has the form that every server takes: user and assistant
// take turns, each call has an id of its own and one output directly behind its answer, in order.
func TestConversationIsWellFormed(t *testing.T) {
	s := serve(t, data(finish("stop"), done))
	m := s.model(t)
	rapid.Check(t, func(rt *rapid.T) {
		ids := rapid.SampledFrom([]string{"c1", "c2", "c3", ""})
		payload := rapid.Custom(func(rt *rapid.T) schemas.Payload {
			text := rapid.SampledFrom([]string{"", "x"}).Draw(rt, "text")
			switch rapid.IntRange(0, 6).Draw(rt, "kind") {
			case 0:
				return schemas.UserText(text)
			case 1:
				return schemas.AssistantText(text)
			case 2:
				return with(schemas.AssistantThinking(text), `{"from":"p/m","field":"reasoning"}`)
			case 3:
				return output(ids.Draw(rt, "id"), text)
			case 4:
				return schemas.UserImage("https://x/y.png")
			}
			theirs := rapid.SampledFrom([]string{"a", "c2", ""}).Draw(rt, "theirs")
			return with(call(ids.Draw(rt, "id"), "f", text), `{"from":"p/m","call_id":"`+theirs+`"}`)
		})
		s.bodies = nil
		if r := llmtest.Run(t, t.Context(), m, input(rapid.SliceOfN(payload, 0, 12).Draw(rt, "context")...)); r.Status != schemas.StopCompleted {
			rt.Fatalf("%s: %v", r.Status, r.Error)
		}
		if err := wellFormed(s.bodies[0]); err != nil {
			rt.Fatalf("%v\n%s", err, s.bodies[0])
		}
	})
}

// wellFormed reports what a strict server would refuse.
func wellFormed(body string) error {
	var sent struct {
		Messages []struct {
			Role       string         `json:"role"`
			Content    jsontext.Value `json:"content"`
			ToolCallID string         `json:"tool_call_id"`
			ToolCalls  []struct {
				ID string `json:"id"`
			} `json:"tool_calls"`
		} `json:"messages"`
	}
	if err := schemas.DecodeJSON([]byte(body), &sent); err != nil {
		return err
	}
	seen := map[string]bool{}
	var owed []string
	before := ""
	for i, m := range sent.Messages {
		if m.Role == "tool" {
			if len(owed) == 0 || owed[0] != m.ToolCallID {
				return fmt.Errorf("message %d: output of %q, owed are %q", i, m.ToolCallID, owed)
			}
			owed = owed[1:]
			before = m.Role
			continue
		}
		empty := len(m.ToolCalls) == 0 && (m.Content.Kind() == jsontext.KindNull || string(m.Content) == `""`)
		if len(owed) > 0 || empty || m.Role == before {
			return fmt.Errorf("message %d: %s after %s, owed are %q, empty: %v", i, m.Role, before, owed, empty)
		}
		for _, c := range m.ToolCalls {
			if c.ID == "" || seen[c.ID] {
				return fmt.Errorf("message %d: the id %q is empty or comes twice", i, c.ID)
			}
			seen[c.ID] = true
			owed = append(owed, c.ID)
		}
		before = m.Role
	}
	if len(owed) > 0 {
		return fmt.Errorf("no output of %q", owed)
	}
	return nil
}

// Text stays as it is: markup, and bytes that are no text become marks.
func TestCase_F07_NoEscapes(t *testing.T) {
	got := sent(t, openai.Config{}, input(schemas.UserText("<a>&b\u2028\xff"), call("1", "f", `{"q":"<&>"}`), output("1", "<i>")))
	for _, want := range []string{"<a>&b\u2028\uFFFD", `{\"q\":\"<&>\"}`, `"<i>"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
}

// A key may be part of the base URL: it is sent, and does not show when the provider repeats it.
func TestKeyInTheBaseURL(t *testing.T) {
	s := serve(t, reply{status: 500, body: `{"error":{"message":"no good: hidden-value, of 2026-01-01"}}`})
	m := s.model(t, func(c *openai.Config) { c.BaseURL += "?api-key=hidden-value&api-version=2026-01-01" })
	o := m.Stream(t.Context(), llm.Request{}, func(schemas.Message) error { return nil })
	if s.requests[0].URL.Query().Get("api-key") != "hidden-value" {
		t.Errorf("asked %s", s.requests[0].URL)
	}
	if o.Error == nil || strings.Contains(o.Error.Message, "hidden") || !strings.Contains(o.Error.Message, "2026-01-01") {
		t.Errorf("%+v", o.Error)
	}
}
