package schemas_test

import (
	stdjson "encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"braid/schemas"
)

// An encoder that escapes <, > and & changes hashes and sizes, and its escapes leak into what
// the model reads. Ours writes them as they are, at every depth.
func TestCase_F07_NoHTMLEscapes(t *testing.T) {
	const text = "<a>&b\u2028"
	quoted := `"` + text + `"`
	result, err := schemas.EncodeJSON(map[string]string{"r": text})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"r":`+quoted+`}`, string(result)); diff != "" {
		t.Errorf("a tool's result (-want +got)\n%s", diff)
	}
	messages := map[string]schemas.Message{
		"system prompt": schemas.New(start, &schemas.SessionMeta{SystemPrompt: text}),
		"result":        schemas.New(start, schemas.NewToolCallOutput("c", text, schemas.StopCompleted)),
		"raw value":     schemas.New(start, &schemas.Text{Fidelity: jsontext.Value(`{"x":` + quoted + `}`)}),
		"new member":    schemas.New(start, &schemas.Text{Extra: jsontext.Value(`{"x":` + quoted + `}`)}),
		"new kind":      schemas.New(start, &schemas.Unknown{Of: "x", Raw: jsontext.Value(`{"type":"x","x":` + quoted + `}`)}),
	}
	for name, m := range messages {
		line, err := schemas.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(line), text) || strings.Contains(string(line), `\u00`) {
			t.Errorf("%s: %s", name, line)
		}
		if strings.HasSuffix(string(line), "\n") {
			t.Errorf("%s: a trailing newline", name)
		}
	}
}

// Empty documents, invalid bytes, lone surrogates and repeated members: each is handled on
// purpose, none by accident.
func TestCase_F12_OddInput(t *testing.T) {
	var v map[string]any
	if err := schemas.DecodeJSON([]byte(""), &v); err == nil {
		t.Error("an empty document was decoded")
	}
	if err := schemas.DecodeJSON([]byte(`{"a":1,"a":2}`), &v); err == nil {
		t.Error("a repeated member was decoded")
	}
	if _, err := schemas.CompactRaw([]byte(`{"a":1,"a":2}`)); err == nil {
		t.Error("a repeated member was taken as raw JSON")
	}
	const line = `{"timestamp":"","type":"model_msg","payload":{"type":"tool_call","role":"assistant","name":"ls","arguments":"%","tool_call_id":"c"}}`
	for in, want := range map[string]string{
		"":         "", // arguments are kept as the model wrote them, empty ones too
		"a\xff":    "a\uFFFD",
		`a\ud83d`:  "a\uFFFD",
		`\u0000`:   "\x00",
		`{\"a\":1`: `{"a":1`, // not valid JSON: the model is told, the log is not broken
	} {
		m, err := schemas.Decode([]byte(strings.Replace(line, "%", in, 1)))
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if got := m.Payload.(*schemas.ToolCall).Arguments; got != want {
			t.Errorf("%q: arguments %q, want %q", in, got, want)
		}
	}
	for _, p := range []schemas.Payload{
		schemas.UserText("a\xff"),
		&schemas.Text{Fidelity: jsontext.Value("{\"k\xff\":\"\xfe\"}")},
		&schemas.Unknown{Of: "x", Raw: jsontext.Value("{\"type\":\"x\",\"a\":\"\xff\"}")},
	} {
		b, err := schemas.Encode(schemas.New(start, p))
		if err != nil || !utf8.Valid(b) {
			t.Errorf("%s: %q, %v", p.Kind(), b, err)
		}
	}
	b, err := schemas.EncodeJSON(schemas.ToolDefinition{Parameters: jsontext.Value("{\"a\":\"\xff\"}")})
	if err != nil || !utf8.Valid(b) {
		t.Errorf("a document: %q, %v", b, err)
	}
}

// One bad string must not make every later request fail: what is stored passes a strict parser.
func TestCase_D01_OneBadString(t *testing.T) {
	for name, output := range map[string]string{
		"cut in the middle of a character": strings.Repeat("x", 9) + "😀"[:2],
		"binary":                           "\xff\xfe\x00\x1b",
		"a surrogate as bytes":             "a\xed\xa0\xbd",
	} {
		line, err := schemas.Encode(schemas.New(start, schemas.NewToolCallOutput("c", output, schemas.StopCompleted)))
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(line) || !stdjson.Valid(line) || !jsontext.Value(line).IsValid() {
			t.Errorf("%s: not strict JSON: %q", name, line)
		}
		m, err := schemas.Decode(line)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Payload.(*schemas.ToolCallOutput).Output; !utf8.ValidString(got) {
			t.Errorf("%s: decoded to %q", name, got)
		}
		if got := schemas.ValidText(output); !utf8.ValidString(got) || schemas.ValidText(got) != got {
			t.Errorf("%s: ValidText %q", name, got)
		}
	}
}
