package schemas_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"braid/schemas"
	"braid/schemas/schematest"
)

// benchMessages are what streams are made of: mostly deltas, some whole messages.
var benchMessages = []struct {
	name string
	m    schemas.Message
}{
	{"delta", schemas.New(start, schemas.TextFragment(schemas.PhaseDelta, "some words of "))},
	{"text", schemas.New(start, schemas.AssistantText("I read both files; they differ in the second line only."))},
	{"thinking", schemas.New(start, &schemas.Thinking{Role: schemas.RoleAssistant, Thinking: "Two files.", Fidelity: jsontext.Value(`{"signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds"}`)})},
	{"tool_call", schemas.New(start, schemas.NewToolCall("c-1-1", "read", `{"path":"main.go"}`))},
	{"token_usage", schemas.New(start, &schemas.TokenUsage{})},
	{"unknown", schemas.New(start, &schemas.Unknown{Of: "hook", Raw: jsontext.Value(`{"type":"hook","name":"goal"}`)})},
}

func BenchmarkEncode(b *testing.B) {
	for _, tt := range benchMessages {
		b.Run(tt.name, func(b *testing.B) {
			var buf []byte
			var err error
			b.ReportAllocs()
			for b.Loop() {
				if buf, err = schemas.Append(buf[:0], tt.m); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(buf)))
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, tt := range benchMessages {
		b.Run(tt.name, func(b *testing.B) {
			line, err := schemas.Encode(tt.m)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := schemas.Decode(line); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCheck checks a task with a hundred deltas and two calls; bytes are messages.
func BenchmarkCheck(b *testing.B) {
	timeline := "trace user \"x\"\nevent request_begin\npartial_text start\n"
	var text string
	for range 100 {
		timeline += "partial_text delta \"word \"\n"
		text += "word "
	}
	timeline += "partial_text stop\ntext \"" + text + `"
streamed tool_call A ls "{}"
+ event approval_decision allow A
streamed tool_call B rm "{}"
+ event approval_decision deny B
+ tool_call_output B "no" stop_reason=aborted
event token_usage
+ event request_end completed
streamed tool_call_output A "files"
event task_end completed`
	entries := schematest.MustParse(timeline)
	b.SetBytes(int64(len(entries)))
	b.ReportAllocs()
	for b.Loop() {
		if found := schemas.Check(schemas.ViewFeed, entries); len(found) > 0 {
			b.Fatal(found)
		}
	}
}
