package scripted

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"braid/llm/llmtest"
	"braid/schemas"
)

func TestParseErrors(t *testing.T) {
	const step = "turns:\n  - steps:\n      - "
	tests := []struct {
		name   string
		script string
		want   []string
	}{
		{"an empty file", "", []string{"script:1: the script is empty"}},
		{"only a comment", "# nothing\n", []string{"script:1: "}},
		{"not YAML", "turns:\n  - a: b\n c: [", []string{"script:3: "}},
		{"a key twice", "repeat: true\nrepeat: true\n", []string{"script:2: ", "already defined"}},
		{"not a mapping", "- a\n", []string{"script:1: a script is a mapping, this is a list"}},
		{"no turns", "repeat: true\n", []string{"script:1: a script needs turns"}},
		{"turns are no list", "turns: 1\n", []string{`script:1: turns is a list of at least one, this is "1"`}},
		{"turns are empty", "turns: []\n", []string{"script:1: turns is a list of at least one, this is an empty list"}},
		{"a second document", "turns: [{steps: []}]\n---\nturns: [{steps: []}]\n", []string{"a script is one document"}},
		{"an unknown key, with those there are", "turn: []\n", []string{`script:1: a script has no "turn"; it may have count, repeat, turns, vision, window`}},
		{"a turn of nothing", "turns:\n  - name: a\n", []string{"script:2: a turn needs steps or attempts"}},
		{"steps and attempts", "turns:\n  - steps: []\n    attempts: [{steps: []}]\n", []string{"script:2: a turn has either"}},
		{"an attempt without steps", "turns:\n  - attempts:\n      - expect: {}\n", []string{"script:3: an attempt needs steps"}},
		{"two things in a step", step + "text: a\n        thinking: b\n", []string{"script:3: a step is one of", "this has 2"}},
		{"nothing in a step", step + "deltas: 3\n", []string{"script:3: a step is one of", "this has 0"}},
		{"an option where none belongs", step + "pause: 1s\n        deltas: 3\n", []string{"script:3: deltas, pace and fidelity belong to"}},
		{"deltas of pieces", step + "text: [a]\n        deltas: 3\n", []string{"script:3: a list of pieces is cut already"}},
		{"no deltas", step + "text: a\n        deltas: 0\n", []string{"script:4: 0 is out of range: a number from 1 on"}},
		{"deltas that are no number", step + "text: a\n        deltas: many\n", []string{`script:4: this must be a whole number, it is "many"`}},
		{"a text that is none", step + "text: {a: b}\n", []string{"script:3: this must be a text, it is a mapping"}},
		{"a text that is nothing", step + "text:\n", []string{"script:3: this must be a text, it is nothing"}},
		{"two things in a piece", step + "text: [{pause: 1s, wait: a}]\n", []string{"script:3: a piece is a text or one thing that happens; this has 2"}},
		{"a piece that can't happen there", step + "text: [{text: a}]\n", []string{`script:3: a piece has no "text"`}},
		{"a duration without a unit", step + "pause: 5\n", []string{`script:3: "5" is not a duration such as 50ms or 2s`}},
		{"a duration below zero", step + "pause: -5s\n", []string{"script:3: \"-5s\" is not a duration"}},
		{"a call without a name", step + "tool_call: {arguments: {}}\n", []string{"script:3: a tool call needs a name"}},
		{"a status that is none", step + "fail: {status: completed}\n", []string{`script:3: "completed" must be one of failed, timeout`}},
		{"a cut that is none", step + "cut: false\n", []string{`script:3: "false" must be one of true, timeout`}},
		{"a boolean that is none", step + "fail: {retryable: yes please}\n", []string{"script:3: this must be true or false"}},
		{"usage below zero", step + "usage: {total: -1}\n", []string{"script:3: -1 is out of range"}},
		{"fidelity that is no mapping", step + "text: a\n        fidelity: abc\n", []string{`script:4: this must be a mapping, it is "abc"`}},
		{"a number JSON does not know", step + "tool_call: {name: a, arguments: {x: .inf}}\n", []string{"script:3: "}},
		{"an anchor", step + "text: &a hi\n", []string{"an anchor or alias, which scripts don't support"}},
		{"a tag", step + "text: !!binary aGk=\n", []string{"a tag, which scripts don't support"}},
		{"a matcher's kind", "turns:\n  - expect: {input: [{kind: txt}]}\n    steps: []\n", []string{`script:2: "txt" must be one of text`}},
		{"how turns are counted", "count: tasks\nturns: [{steps: []}]\n", []string{`script:1: "tasks" must be one of context, prompt`}},
		{"all errors at once", "repeat: maybe\nturns:\n  - steps:\n      - pause: soon\n", []string{"script:1: this must be true", "script:4: \"soon\""}},
		{"too large", strings.Repeat("#", maxScript+1), []string{"the limit is"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Parse([]byte(tt.script))
			if err == nil {
				t.Fatalf("no error; script %+v", s)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error does not say %q:\n%s", want, err)
				}
			}
			var at *ParseError
			if !errors.As(err, &at) || at.Line < 1 {
				t.Errorf("error %T says no line", err)
			}
		})
	}
}

// Whatever the file, parsing it ends in a script or an error, and a script in an outcome.
func FuzzParse(f *testing.F) {
	clock, err := os.ReadFile("testdata/clock.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(clock)
	f.Add([]byte("repeat: true\nturns: [{when: {attempt: 1}, steps: [{text: [a, {cut: timeout}]}]}]"))
	f.Add([]byte("turns: [{steps: [{tool_call: {name: |\n  a\n, arguments: {? a : b}}}]}]"))
	f.Add([]byte("turns:\n- &x\n  steps: *x\n"))
	f.Add([]byte("turns: [{steps: [{text: {}}, {fail: }]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(data)
		if (s == nil) != (err != nil) {
			t.Fatalf("script %v, error %v", s, err)
		}
		if s == nil || !calm(s) {
			return
		}
		for attempt := range 3 {
			req := request(schemas.UserText("hi"))
			req.Attempt = attempt
			llmtest.Run(t, t.Context(), s, req)
		}
	})
}

// calm reports whether the script neither waits nor panics.
func calm(s *Script) bool {
	for _, t := range slices.Concat(s.turns, s.aside) {
		for _, a := range t.attempts {
			for _, o := range a.ops {
				switch o.(type) {
				case *opPause, *opWait, *opHang, *opPanic:
					return false
				}
			}
		}
	}
	return true
}
