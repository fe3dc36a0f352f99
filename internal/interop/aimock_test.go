// Package interop tests against programs of other people. They come from registries that may be out
// of reach, so `make interop` installs and starts them, and without it nothing is tested here.
package interop

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"braid/llm"
	"braid/llm/llmtest"
	"braid/llm/openai"
	"braid/schemas"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// aimock is the base of a mock server of many model protocols.
func aimock(t *testing.T) string {
	t.Helper()
	url := os.Getenv("BRAID_AIMOCK")
	if url == "" {
		t.Skip("there is no mock server: make interop starts one")
	}
	return url
}

// The paths under which the server speaks as one or another provider.
var servers = map[string]string{
	"openai": "/v1", "openrouter": "/api/v1", "azure": "/openai/deployments/gpt-4o?api-version=2024-10-21",
}

func model(t *testing.T, base, path string) llm.Model {
	t.Helper()
	p, err := openai.New(openai.Config{Name: "mock", BaseURL: base + path, APIKey: "sk-mock-secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	m, err := p.Model("gpt-4o")
	if err != nil {
		t.Fatal(err)
	}
	return llm.Guard(m)
}

var tools = []schemas.ToolDefinition{{Name: "get_weather", Parameters: jsontext.Value(`{"type":"object"}`)}}

func ask(t *testing.T, m llm.Model, context ...schemas.Message) llmtest.Result {
	t.Helper()
	return llmtest.Run(t, t.Context(), m, llm.Request{Tools: tools, Input: context})
}

func say(p schemas.Payload) schemas.Message { return schemas.New(time.Now(), p) }

// A turn with two calls, and the one that gets their outputs.
func TestOpenAITurns(t *testing.T) {
	base := aimock(t)
	for name, path := range servers {
		t.Run(name, func(t *testing.T) {
			m := model(t, base, path)
			context := []schemas.Message{say(schemas.UserText("the weather, please"))}
			first := ask(t, m, context...)
			if first.Status != schemas.StopCompleted || first.Text() != "Let me check." || len(first.Calls()) != 2 {
				t.Fatalf("%s, %v\n%s", first.Status, first.Error, llmtest.Describe(first.Messages))
			}
			context = append(context, first.Complete()...)
			for _, c := range first.Calls() {
				context = append(context, say(schemas.NewToolCallOutput(c.ToolCallID, "fine", "")))
			}
			second := ask(t, m, context...)
			if second.Status != schemas.StopCompleted || second.Text() != "Paris 18 C, Rome 24 C." {
				t.Fatalf("%s, %v\n%s", second.Status, second.Error, llmtest.Describe(second.Messages))
			}
			compare(t, lastBody(t, base))
		})
	}
}

// compare checks what the server was sent last: it takes anything, real ones don't.
func compare(t *testing.T, body jsontext.Value) {
	t.Helper()
	var sent struct {
		Messages []struct {
			Role       string         `json:"role"`
			Content    string         `json:"content"`
			Reasoning  string         `json:"reasoning_content"`
			ToolCallID string         `json:"tool_call_id"`
			ToolCalls  jsontext.Value `json:"tool_calls"`
		} `json:"messages"`
		Stream bool `json:"stream"`
	}
	if err := schemas.DecodeJSON(body, &sent); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range sent.Messages {
		calls, _ := schemas.CompactRaw(m.ToolCalls)
		got = append(got, strings.Join([]string{m.Role, m.Content, m.Reasoning, m.ToolCallID, string(calls)}, "|"))
	}
	want := []string{
		"user|the weather, please|||",
		`assistant|Let me check.|I should call the tool.||[{"id":"call_w1","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}},{"id":"call_w2","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Rome\"}"}}]`,
		"tool|fine||call_w1|", "tool|fine||call_w2|",
	}
	if diff := cmp.Diff(want, got); diff != "" || !sent.Stream {
		t.Errorf("stream %v (-want +got)\n%s", sent.Stream, diff)
	}
}

// lastBody is the body of the last request that the server noted.
func lastBody(t *testing.T, base string) jsontext.Value {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/__aimock/journal", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var journal []struct {
		Body jsontext.Value `json:"body"`
	}
	if err := schemas.DecodeJSON(raw, &journal); err != nil || len(journal) == 0 {
		t.Fatalf("the journal has %d entries: %v", len(journal), err)
	}
	return journal[len(journal)-1].Body
}

func TestOpenAIFailures(t *testing.T) {
	m := model(t, aimock(t), servers["openai"])
	for prompt, want := range map[string]struct {
		status schemas.StopReason
		code   int
		says   string
	}{
		"limit":           {schemas.StopFailed, 429, "Rate limited"},
		"overload":        {schemas.StopFailed, 529, "Overloaded"},
		"cut words":       {schemas.StopMalformed, 0, "broke off"},
		"cut call":        {schemas.StopMalformed, 0, "broke off"},
		"nothing of that": {schemas.StopFailed, 404, ""},
	} {
		r := ask(t, m, say(schemas.UserText(prompt)))
		if r.Status != want.status || r.Error.StatusCode != want.code || !strings.Contains(r.Error.Message, want.says) {
			t.Errorf("%s: %s, %+v", prompt, r.Status, r.Error)
		}
		for _, c := range r.Calls() {
			if c.StopReason == "" {
				t.Errorf("%s: the call %s is complete", prompt, c.Name)
			}
		}
	}
}
