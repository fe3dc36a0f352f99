package scripted

import (
	"strings"
	"testing"

	"braid/llm"
	"braid/llm/llmtest"
	"braid/schemas"
	"braid/schemas/schematest"

	"github.com/google/go-cmp/cmp"
)

func TestExpect(t *testing.T) {
	tools := []schemas.ToolDefinition{{Name: "read"}, {Name: "write"}}
	tests := []struct {
		name   string
		expect string
		want   string // of the difference; empty: it fits
	}{
		{"nothing is expected", `{}`, ""},
		{"everything fits", `{attempt: 1, system: {equals: Be kind.}, tools: [write], input: [{role: user, sender: user, kind: text, contains: [hel, lo], lacks: bye}, {kind: tool_call, name: read, contains: path}, {kind: tool_call_output, stop_reason: failed, equals: "no such file"}]}`, ""},
		{"only the last messages are looked at", `{input: [{kind: tool_call_output}]}`, ""},
		{"an empty matcher fits every message", `{input: [{}, {name: read}, {}]}`, ""},
		{"attempt", `{attempt: 2}`, "  attempt:\n    - 2\n    + 1\n"},
		{"system", `{system: {contains: pirate}}`, "  system:\n    - {\"contains\":\"pirate\"}\n    + \"Be kind.\"\n"},
		{"tools", `{tools: [read, exec]}`, "  tools:\n    - exec\n    + [read, write]\n"},
		{
			"one of the messages", `{input: [{kind: tool_call}, {equals: "file", stop_reason: completed}]}`,
			"  input (the last 2 of 3 messages):\n      assistant tool_call read \"{\\\"path\\\":\\\"a\\\"}\"\n" +
				"    - {\"equals\":\"file\",\"stop_reason\":\"completed\"}\n    + user tool_call_output \"no such file\" (failed)\n",
		},
		{
			"more messages than there are", `{input: [{}, {role: user}, {}, {lacks: file}]}`,
			"  input (the last 3 of 3 messages):\n    - {}\n    + no message\n      user text \"hello\"\n" +
				"      assistant tool_call read \"{\\\"path\\\":\\\"a\\\"}\"\n    - {\"lacks\":\"file\"}\n    + user tool_call_output \"no such file\" (failed)\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := mustParse(t, "\nturns:\n- name: first\n  expect: "+tt.expect+"\n  steps: [{text: ok}]")
			req := request(schemas.UserText("hello"), schemas.NewToolCall("1", "read", `{"path":"a"}`),
				schemas.NewToolCallOutput("1", "no such file", schemas.StopFailed))
			// The expectation is on the first turn: the script repeats, so this is it again.
			s.repeat = true
			req.System, req.Tools = "Be kind.", tools
			r := llmtest.Run(t, t.Context(), s, req)
			if tt.want == "" {
				if r.Status != schemas.StopCompleted {
					t.Errorf("it does not fit: %v", r.Error)
				}
				return
			}
			want := &llm.Error{
				Kind: llm.KindInput, Provider: "scripted",
				Message: "script:4: turn 2 (first), attempt 1, expects another request\n" + tt.want,
			}
			if diff := cmp.Diff(want, r.Error); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestMatchersSeeEveryKind(t *testing.T) {
	for kind, p := range map[string]schemas.Payload{
		"text":             schemas.AssistantText("needle"),
		"thinking":         schemas.AssistantThinking("needle"),
		"inline_thinking":  &schemas.InlineThinking{Role: schemas.RoleAssistant, Data: "needle"},
		"tool_call":        schemas.NewToolCall("1", "t", "needle"),
		"tool_call_output": schemas.NewToolCallOutput("1", "needle", ""),
		"image_url":        &schemas.ImageURL{Role: schemas.RoleUser, ImageURL: "needle"},
		"inline_data":      &schemas.InlineData{Role: schemas.RoleUser, Data: "needle"},
	} {
		s := mustParse(t, "repeat: true\nturns: [{expect: {input: [{kind: "+kind+", contains: needle}]}, steps: [{text: ok}]}]")
		if r := llmtest.Run(t, t.Context(), s, request(p)); r.Status != schemas.StopCompleted {
			t.Errorf("%s: %v", kind, r.Error)
		}
		if r := llmtest.Run(t, t.Context(), s, request(schemas.UserText("hay"))); r.Status != schemas.StopFailed {
			t.Errorf("%s fits a text without it", kind)
		}
	}
}

func TestQuoteCutsLongTexts(t *testing.T) {
	got := quote(strings.Repeat("ä", 150) + strings.Repeat("b", 150))
	want := `"` + strings.Repeat("ä", 100) + `" (100 more) "` + strings.Repeat("b", 100) + `"`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestMatchPictures(t *testing.T) {
	output := schemas.NewToolCallOutput("1", "taken", "")
	output.Images = []string{schematest.Image("image/png", 2500), "https://example.com/a.gif?key=secret"}
	for _, tt := range []struct {
		matcher string
		message schemas.Payload
		want    string // of the difference; empty: it fits
	}{
		{`{kind: image_url, image: [image/png, 3 kB], images: 1}`, schemas.UserImage(output.Images[0]), ""},
		{`{images: 2, image: [image/png, example.com/a.gif]}`, output, ""},
		{`{images: 0}`, schemas.UserText("hi"), ""},
		{`{image: image/png}`, schemas.UserText("hi"), `user text "hi"`},
		{`{images: 1}`, output, `user tool_call_output "taken" [image: image/png, 3 kB] [image: https://example.com/a.gif]`},
		{`{image: secret}`, schemas.UserImage(output.Images[1]), "user image_url [image: https://example.com/a.gif]"},
	} {
		s := mustParse(t, "turns: [{expect: {input: ["+tt.matcher+"]}, steps: [{text: ok}]}]")
		r := llmtest.Run(t, t.Context(), s, request(tt.message))
		if tt.want == "" && r.Error != nil || tt.want != "" && (r.Error == nil || !strings.Contains(r.Error.Message, "+ "+tt.want+"\n")) {
			t.Errorf("%s: %v, want %q", tt.matcher, r.Error, tt.want)
		}
	}
}

func TestVision(t *testing.T) {
	for text, want := range map[string]bool{"": true, "vision: true\n": true, "vision: false\n": false} {
		if got := mustParse(t, text+"turns: [{steps: [{text: ok}]}]").Info().Vision; got != want {
			t.Errorf("%q: it sees: %t", text, got)
		}
	}
}
