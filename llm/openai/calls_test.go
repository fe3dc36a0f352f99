package openai_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"braid/llm"
	"braid/llm/llmtest"
	"braid/llm/openai"
	"braid/schemas"

	"pgregory.net/rapid"
)

// The ways in which servers cut calls into fragments.
func TestFragments(t *testing.T) {
	for why, c := range map[string]struct {
		parts []string
		want  []string
	}{
		"as OpenAI does": {[]string{
			`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}`,
			`{"index":0,"function":{"arguments":"{\"x\":"}}`, `{"index":0,"function":{"arguments":"1}"}}`,
			`{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":""}}`, `{"index":1,"function":{"arguments":"{}"}}`,
		}, []string{`call a f {"x":1}`, `call b g {}`}},
		"interleaved": {[]string{
			`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}},{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}`,
			`{"index":1,"function":{"arguments":"\"y\":2"}}`, `{"index":0,"function":{"arguments":"\"x\":1"}}`,
			`{"index":0,"function":{"arguments":"}"}},{"index":1,"function":{"arguments":"}"}}`,
		}, []string{`call a f {"x":1}`, `call b g {"y":2}`}},
		"indexes that begin elsewhere": {[]string{
			`{"index":3,"id":"a","function":{"name":"f","arguments":"{}"}}`, `{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}`,
		}, []string{`call a f {}`, `call b g {}`}},
		"the id repeated": {[]string{
			`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}`, `{"index":0,"id":"a","function":{"name":"f","arguments":":1}"}}`,
		}, []string{`call a f {"x":1}`}},
		"the id repeated, no index": {[]string{
			`{"id":"a","function":{"name":"f","arguments":"{\"x\""}}`, `{"id":"b","function":{"name":"g","arguments":"{}"}}`, `{"id":"a","function":{"arguments":":1}"}}`,
		}, []string{`call a f {"x":1}`, `call b g {}`}},
		"the id late": {[]string{
			`{"index":0,"function":{"name":"f","arguments":"{"}}`, `{"index":0,"id":"a","function":{"arguments":"}"}}`,
		}, []string{`call call-0 f {}`}}, // it was streamed already; its fidelity has the id
		"no id, no index": {[]string{
			`{"function":{"name":"f","arguments":"{\"x\":1}"}}`, `{"function":{"name":"f","arguments":"{\"x\":2}"}}`,
		}, []string{`call call-0 f {"x":1}`, `call call-1 f {"x":2}`}},
		"no id, no index, in fragments": {[]string{
			`{"function":{"name":"f"}}`, `{"function":{"arguments":"{\"x\":"}}`, `{"function":{"arguments":"1}"}}`,
		}, []string{`call call-0 f {"x":1}`}},
		"no id, no index, several at once": {[]string{
			`{"function":{"name":"f","arguments":""}},{"function":{"name":"g"}}`,
		}, []string{`call call-0 f {}`, `call call-1 g {}`}},
		"no id, index 0 each": {[]string{
			`{"index":0,"id":"","function":{"name":"f","arguments":"{}"}}`, `{"index":0,"id":"","function":{"name":"f","arguments":"{}"}}`,
		}, []string{`call call-0 f {}`, `call call-1 f {}`}},
		"the tool's name as id": {[]string{
			`{"index":0,"id":"f","function":{"name":"f","arguments":"{}"}}`, `{"index":1,"id":"f","function":{"name":"f","arguments":"{}"}}`,
		}, []string{`call f f {}`, `call call-1 f {}`}},
		"null for what is not there": {[]string{
			`{"index":0,"id":"a","type":null,"function":{"name":"f","arguments":null}}`, `{"index":0,"id":null,"function":{"name":null,"arguments":"{}"}}`,
		}, []string{`call a f {}`}},
		"the name in pieces": {[]string{
			`{"index":0,"id":"a","function":{"name":"get_"}}`, `{"index":0,"function":{"name":"weather"}}`, `{"index":0,"function":{"arguments":"{}"}}`,
		}, []string{`call a get_weather {}`}},
		"the name repeated": {[]string{
			`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"a"}}`, `{"index":0,"id":"a","function":{"name":"f","arguments":"\":1}"}}`,
		}, []string{`call a f {"a":1}`}},
		"the name repeated, of a call that is held": {[]string{
			`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`,
			`{"index":1,"id":"b","function":{"name":"g","arguments":"{\"a"}}`, `{"index":1,"id":"b","function":{"name":"g","arguments":"\":1}"}}`,
		}, []string{`call a f {}`, `call b g {"a":1}`}},
		"another id at the same index, without arguments": {[]string{
			`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`, `{"index":0,"id":"b","function":{"name":"g","arguments":""}}`,
		}, []string{`call a f {}`, `call b g {}`}},
		"arguments as an object": {[]string{
			`{"function":{"name":"f","arguments":{ "city": "Paris" }}},{"function":{"name":"f","arguments":{}}}`,
		}, []string{`call call-0 f {"city":"Paris"}`, `call call-1 f {}`}},
		"arguments that are no JSON are the model's": {[]string{
			`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"a\": nope"}}`,
		}, []string{`call a f {"a": nope`}},
	} {
		t.Run(why, func(t *testing.T) {
			var lines []string
			for _, p := range c.parts {
				lines = append(lines, part(p))
			}
			expect(t, run(t, data(append(lines, finish("tool_calls"), done)...)), append(c.want, "completed")...)
		})
	}
}

func TestCallWithoutName(t *testing.T) {
	expect(t, run(t, data(part(`{"index":0,"id":"a","function":{"arguments":"{}"}}`), finish("tool_calls"), done)),
		"malformed provider retryable=true: the answer has a tool call without a name")
}

// What is said beside and behind the first call waits for the end, in its order.
func TestWordsBetweenCalls(t *testing.T) {
	expect(t, run(t, data(
		delta(`{"content":"one"}`), part(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}`),
		delta(`{"content":"two "}`), delta(`{"content":"three"}`), delta(`{"reasoning":"hm"}`),
		part(`{"index":0,"function":{"arguments":"}"}}`), part(`{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}`),
		delta(`{"content":"four"}`), finish("stop"), done)),
		`text "one"`, `call a f {}`, `text "two three"`, `thinking "hm"`, `call b g {}`, `text "four"`, "completed")
}

// The first call is streamed while it comes; no call is complete before the answer is.
func TestNoCallIsCompleteEarly(t *testing.T) {
	r := data(part(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}`), part(`{"index":0,"function":{"arguments":"1}"}}`),
		part(`{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}`))
	r.hold = true
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	args := ""
	o := serve(t, r).model(t).Stream(ctx, llm.Request{}, func(m schemas.Message) error {
		switch p := m.Payload.(type) {
		case *schemas.PartialToolCall:
			args += p.Arguments
		case *schemas.ToolCall:
			if p.StopReason == "" {
				t.Errorf("the call %s is complete", p.Name)
			}
		}
		if args == `{"x":1}` {
			cancel() // it has been streamed, while the answer goes on
		}
		return nil
	})
	if args != `{"x":1}` || o.Status != schemas.StopAborted {
		t.Errorf("streamed %q, %s", args, o.Status)
	}
}

// A finish reason is enough; usage is waited for, not for ever.
func TestNothingFollowsTheFinishReason(t *testing.T) {
	r := data(delta(`{"content":"x"}`), finish("stop"))
	r.hold = true
	m := serve(t, r).model(t)
	openai.SetPatience(m, 10*time.Millisecond)
	expect(t, llmtest.Run(t, t.Context(), m, llm.Request{}), `text "x"`, "completed")
}

// However calls are cut into fragments of one index each, they come out as they were.
func TestFragmentsAnyhow(t *testing.T) {
	s := serve(t, reply{})
	m := s.model(t)
	rapid.Check(t, func(rt *rapid.T) {
		type want struct{ id, name, args string }
		n := rapid.IntRange(1, 4).Draw(rt, "calls")
		var wants []want
		var queues [][]string // of fragments, each call's in order
		for i := range n {
			index := string(rune('0' + i))
			w := want{"id" + index, rapid.SampledFrom([]string{"f", "read_file"}).Draw(rt, "name"), rapid.SampledFrom([]string{`{}`, `{"a":"b c"}`, `{"n":[1,2,{"m":"\u00e9"}]}`}).Draw(rt, "args")}
			q := []string{`{"index":` + index + `,"id":"` + w.id + `","function":{"name":"` + w.name + `","arguments":""}}`}
			for rest := w.args; rest != ""; {
				k := rapid.IntRange(1, len(rest)).Draw(rt, "piece")
				piece, err := schemas.EncodeJSON(rest[:k])
				if err != nil {
					rt.Fatal(err)
				}
				q = append(q, `{"index":`+index+`,"function":{"arguments":`+string(piece)+`}}`)
				rest = rest[k:]
			}
			wants, queues = append(wants, w), append(queues, q)
		}
		var lines []string
		begun := 0 // calls begin in order; their fragments come in any
		for {
			var open []int
			for i, q := range queues {
				if len(q) > 0 && i <= begun {
					open = append(open, i)
				}
			}
			if len(open) == 0 {
				break
			}
			i := rapid.SampledFrom(open).Draw(rt, "next")
			if i == begun {
				begun++
			}
			lines = append(lines, part(queues[i][0]))
			queues[i] = queues[i][1:]
		}
		s.replies = []reply{data(append(lines, finish("tool_calls"), done)...)}
		r := llmtest.Run(t, t.Context(), m, llm.Request{})
		var got []want
		for _, c := range r.Calls() {
			got = append(got, want{c.ToolCallID, c.Name, c.Arguments})
		}
		if r.Status != schemas.StopCompleted || len(got) != n {
			rt.Fatalf("%s, %d calls of %d", r.Status, len(got), n)
		}
		for i := range wants {
			if got[i] != wants[i] {
				rt.Fatalf("got %+v, want %+v", got[i], wants[i])
			}
		}
	})
}

// Whatever a server sends: an outcome, and segments that are in order. No call is complete unless
// the answer is.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		data(delta(`{"content":"x"}`), finish("stop"), done).body,
		data(part(`{"index":0,"id":"a","function":{"name":"f","arguments":{}}}`), `{"error":"x"}`).body,
		`{"choices":[{"message":{"content":"x","tool_calls":[{"function":{"name":"f"}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`,
		data(delta(`{"reasoning_details":[{"index":0,"text":"a"},{"index":0,"text":"b"}]}`), finish("length")).body,
	} {
		f.Add([]byte(body))
	}
	s := serve(f, reply{})
	m := s.model(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		s.replies = []reply{events(string(body))}
		r := llmtest.Run(t, t.Context(), m, llm.Request{})
		for _, c := range r.Calls() {
			if whole := c.StopReason == ""; whole && r.Status != schemas.StopCompleted {
				t.Errorf("%s, yet the call %s is complete", r.Status, c.Name)
			}
			if c.Name == "" {
				t.Errorf("a call without a name")
			}
		}
		for _, m := range r.Messages {
			if _, err := schemas.Encode(m); err != nil {
				t.Errorf("can't be stored: %v", err)
			}
		}
		if r.Error != nil && strings.Contains(r.Error.Message, "sk-very") {
			t.Error("the key shows")
		}
	})
}
