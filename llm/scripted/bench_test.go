package scripted

import (
	"testing"

	"braid/llm"
	"braid/schemas"
)

// One request of 20 deltas and two tool calls, through the guard as engines make it.
func BenchmarkRequest(b *testing.B) {
	s, err := Parse([]byte(`
repeat: true
turns:
  - steps:
      - {text: "twenty deltas of a text that is long enough", deltas: 20}
      - tool_call: {name: a, arguments: {n: 1}}
      - tool_call: {name: b, arguments: {n: 2}}`))
	if err != nil {
		b.Fatal(err)
	}
	m := llm.Guard(s)
	b.ReportAllocs()
	for b.Loop() {
		o := m.Stream(b.Context(), request(schemas.UserText("go")), func(schemas.Message) error { return nil })
		if o.Status != schemas.StopCompleted {
			b.Fatal(o.Error)
		}
	}
}
