package openai_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"braid/llm"
	"braid/llm/llmtest"
	"braid/llm/openai"
	"braid/schemas"
)

// delta is an event that says something.
func delta(d string) string { return `{"choices":[{"index":0,"delta":` + d + `}]}` }

// part is an event with fragments of tool calls.
func part(calls string) string { return delta(`{"tool_calls":[` + calls + `]}`) }

// finish is an event with a finish reason.
func finish(reason string) string {
	return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

const done = "[DONE]"

func TestCase_A01_CallsWithoutIndex(t *testing.T) {
	expect(t, run(t, data(
		part(`{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"p\":1}"}},{"id":"c2","type":"function","function":{"name":"list","arguments":"{}"}}`),
		finish("tool_calls"), done)),
		`call c1 read {"p":1}`, `call c2 list {}`, "completed")
	// A later explicit index is not one of those.
	expect(t, run(t, data(
		part(`{"id":"c1","function":{"name":"read","arguments":"{\"p\":1}"}}`),
		part(`{"index":0,"id":"c2","function":{"name":"list","arguments":"{}"}}`),
		finish("tool_calls"), done)),
		`call c1 read {"p":1}`, `call c2 list {}`, "completed")
}

func TestCase_A02_EveryCallHasIndexZero(t *testing.T) {
	expect(t, run(t, data(
		part(`{"index":0,"id":"a","function":{"name":"w","arguments":"{\"f\":\"x\"}"}}`),
		part(`{"index":0,"id":"b","function":{"name":"w","arguments":"{\"f\":\"y\"}"}}`),
		finish("tool_calls"), done)),
		`call a w {"f":"x"}`, `call b w {"f":"y"}`, "completed")
}

func TestCase_A04_EmptyArguments(t *testing.T) {
	for why, events := range map[string][]string{
		"never any":         {part(`{"index":0,"id":"c1","function":{"name":"snapshot","arguments":""}}`), finish("tool_calls"), done},
		"no member at all":  {part(`{"index":0,"id":"c1","function":{"name":"snapshot"}}`), finish("tool_calls"), done},
		"null":              {part(`{"index":0,"id":"c1","function":{"name":"snapshot","arguments":null}}`), finish("tool_calls"), done},
		"empty, then empty": {part(`{"index":0,"id":"c1","function":{"name":"snapshot","arguments":""}}`), part(`{"index":0,"function":{"arguments":"{}"}}`), finish("stop"), done},
	} {
		t.Run(why, func(t *testing.T) { expect(t, run(t, data(events...)), `call c1 snapshot {}`, "completed") })
	}
	// An answer that broke off has no such call.
	expect(t, run(t, data(part(`{"index":0,"id":"c1","function":{"name":"snapshot","arguments":""}}`))),
		"malformed provider retryable=true: the answer broke off: the connection ended before the answer did")
}

func TestCase_A05_ContentDecidesNotTheFinishReason(t *testing.T) {
	for _, reason := range []string{"stop", "end_turn", "other", "unknown", "eos", "tool_use", "function_call"} {
		t.Run(reason, func(t *testing.T) {
			expect(t, run(t, data(delta(`{"content":"So:"}`),
				part(`{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}`),
				part(`{"index":1,"id":"b","function":{"name":"y","arguments":"{}"}}`),
				part(`{"index":2,"id":"c","function":{"name":"z","arguments":"{}"}}`), finish(reason), done)),
				`text "So:"`, `call a x {}`, `call b y {}`, `call c z {}`, "completed")
		})
	}
}

func TestCase_A06_CallsPromisedAndNone(t *testing.T) {
	expect(t, run(t, data(finish("tool_calls"), done)),
		"malformed provider retryable=true: the answer promises tool calls and has none")
}

func TestCase_A07_ChoicesEmptyAndWithoutDelta(t *testing.T) {
	expect(t, run(t, data(
		`{"id":"","choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}`,
		delta(`{"content":"hi"}`), finish("stop"),
		`{"id":"","choices":[{"index":0,"finish_reason":null,"content_filter_offsets":{"check_offset":9}}]}`, done)),
		`text "hi"`, "completed")
}

func TestCase_A08_UsageAfterTheFinishReason(t *testing.T) {
	usage := `{"choices":[],"usage":{"prompt_tokens":23,"completion_tokens":235,"total_tokens":258}}`
	cut := "failed read=0 write=0 out=235 total=258 input retryable=false: the answer was cut off at the output limit (finish reason length)"
	expect(t, run(t, data(delta(`{"content":"x"}`), finish("length"), usage, done)), `text "x" failed`, cut)
	// Nor does it matter whether the connection ends then, or stays open without a word.
	r := data(delta(`{"content":"x"}`), finish("stop"), usage)
	expect(t, run(t, r), `text "x"`, "completed read=0 write=0 out=235 total=258")
	r.hold = true
	m := serve(t, r).model(t)
	openai.SetPatience(m, time.Hour)
	expect(t, llmtest.Run(t, t.Context(), m, llm.Request{}), `text "x"`, "completed read=0 write=0 out=235 total=258")
}

func TestCase_A10_ErrorInsideOfAStream(t *testing.T) {
	r := run(t, data(delta(`{"content":"Hal"}`), `{"error":{"type":"overloaded_error","message":"Overloaded"}}`))
	expect(t, r, `text "Hal" failed`,
		"failed provider retryable=true: the provider is busy or its limit is reached: Overloaded")
	for why, c := range map[string]struct{ event, want string }{
		"a number as code":     {`{"error":{"code":502,"message":"upstream"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`, "failed provider retryable=true: the provider failed (502): upstream"},
		"only a text":          {`{"error":"boom"}`, "failed provider retryable=true: the provider failed: boom"},
		"of type error":        {`{"object":"error","message":"boom","code":400}`, "failed input retryable=false: the provider refuses the request (400): boom"},
		"too long":             {`{"error":{"code":"context_length_exceeded","message":"too long"}}`, "failed context retryable=false: the request is longer than the model takes: too long"},
		"a limit":              {`{"error":{"code":"rate_limit_exceeded","message":"slow down"}}`, "failed provider retryable=true: the provider is busy or its limit is reached: slow down"},
		"credentials":          {`{"error":{"type":"authentication_error","message":"who?"}}`, "auth provider retryable=false: the provider does not accept the credentials: who?"},
		"null is none":         {`{"error":null,"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}`, "text \"x\"\ncompleted"},
		"its only sign a type": {"\n\nevent: error\ndata: {\"message\":\"boom\"}", "failed provider retryable=true: the provider failed: boom"},
	} {
		t.Run(why, func(t *testing.T) { expect(t, run(t, data(c.event)), c.want) })
	}
}

// The reader has its own tests of this; here the answer's meaning survives.
func TestCase_A13_CommentsMarksAndSeveralDataLines(t *testing.T) {
	expect(t, run(t, events("\xEF\xBB\xBF: warming up\n\n:\n\ndata:{\"choices\":\ndata:[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\nid: 7\nretry: 1000\n\ndata: [DONE]\n\n")),
		`text "a"`, "completed")
}

func TestCase_A15_LongEvents(t *testing.T) {
	for _, size := range []int{70_000, 4 << 20} {
		r := run(t, data(delta(`{"content":"`+strings.Repeat("a", size)+`"}`), finish("stop"), done))
		if len(r.Text()) != size || r.Status != schemas.StopCompleted {
			t.Errorf("%d bytes of %d, %s", len(r.Text()), size, r.Status)
		}
	}
	r := run(t, data(delta(`{"content":"`+strings.Repeat("a", 33<<20)+`"}`), finish("stop"), done))
	if r.Status != schemas.StopMalformed || !strings.Contains(r.Error.Message, "too long") {
		t.Errorf("beyond the limit: %s, %v", r.Status, r.Error)
	}
}

func TestCase_A16_EndsBeforeItsTerminalMarker(t *testing.T) {
	half := part(`{"index":0,"id":"c1","function":{"name":"rm","arguments":"{\"path\":\"/tm"}}`)
	whole := part(`{"index":0,"id":"c1","function":{"name":"rm","arguments":"{}"}}`)
	const broke = "malformed provider retryable=true: the answer broke off: the connection ended before the answer did"
	expect(t, run(t, data(half)), `call c1 rm {"path":"/tm malformed`, broke)
	expect(t, run(t, data(whole)), `call c1 rm {} malformed`, broke)
	expect(t, run(t, data(delta(`{"content":"x"}`))), `text "x" malformed`, broke)
	expect(t, run(t, data()), broke)
	// Of several calls none is complete.
	expect(t, run(t, data(whole, part(`{"index":1,"id":"c2","function":{"name":"rm","arguments":"{}"}}`))), `call c1 rm {} malformed`, broke)
	// A finish reason is a terminal marker, whatever happens behind it.
	expect(t, run(t, data(whole, finish("tool_calls"))), `call c1 rm {}`, "completed")
	r := data(whole, finish("tool_calls"))
	r.cut = true
	expect(t, run(t, r), `call c1 rm {}`, "completed")
	r = data(whole, finish("tool_calls"), `{"choices":[{"delta":{`)
	expect(t, run(t, r), `call c1 rm {}`, "completed")
}

func TestCase_A26_ErrorAsPlainJSON(t *testing.T) {
	body := `{"error":{"code":"context_length_exceeded","message":"too long by 7 tokens"}}`
	const want = "the request is longer than the model takes (400): too long by 7 tokens"
	r := run(t, reply{status: 400, header: http.Header{"Content-Type": {"application/json"}}, body: body})
	expect(t, r, "failed context retryable=false: "+want)
	if r.Error.StatusCode != 400 {
		t.Errorf("status %d", r.Error.StatusCode)
	}
	// The same with a good status, whatever the content type.
	for _, kind := range []string{"application/json", "text/event-stream"} {
		r := run(t, reply{status: 200, header: http.Header{"Content-Type": {kind}}, body: body})
		expect(t, r, "failed context retryable=false: the request is longer than the model takes: too long by 7 tokens")
	}
}

func TestCase_A28_NoFinishReason(t *testing.T) {
	expect(t, run(t, data(delta(`{"content":"done"}`), done)), `text "done"`, "completed")
	expect(t, run(t, data(part(`{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a\":1}"}}`), done)), `call c f {"a":1}`, "completed")
	expect(t, run(t, data(part(`{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a\""}}`), done)),
		`call c f {"a" malformed`, "malformed provider retryable=true: the answer ends in the middle of the tool call f")
	expect(t, run(t, data(done)), "malformed provider retryable=true: the answer is empty and gives no reason")
}

// What the provider has said of its usage counts also when the request is stopped.
func TestCase_A33_StoppedWithoutUsage(t *testing.T) {
	var lines []string
	for range 200 {
		lines = append(lines, delta(`{"content":"chunk "}`))
	}
	r := data(lines...)
	r.hold = true
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("somebody pressed stop")
	req := llm.Request{Input: []schemas.Message{schemas.New(noon, schemas.UserText("count to a thousand"))}}
	var messages []schemas.Message
	said := 0
	o := serve(t, r).model(t).Stream(ctx, req, func(m schemas.Message) error {
		messages = append(messages, m)
		if p, ok := m.Payload.(*schemas.PartialText); ok && p.EventType == schemas.PhaseDelta {
			if said++; said == 200 {
				cancel(why)
			}
		}
		return nil
	})
	if o.Status != schemas.StopAborted || !errors.Is(o.Error, why) || o.Usage != nil {
		t.Errorf("%s, %v, usage %v", o.Status, o.Error, o.Usage)
	}
	if err := llmtest.Check(messages); err != nil {
		t.Error(err)
	}
	if got := llm.EstimateUsage(req, messages); got.Output < 200 || got.Total <= got.Output {
		t.Errorf("estimate %+v", got)
	}
}

func TestCase_D14_CachedTokensAreInThePrompt(t *testing.T) {
	for why, c := range map[string]struct{ usage, want string }{
		"as the protocol has it":           {`{"prompt_tokens":184704,"completion_tokens":10,"total_tokens":184714,"prompt_tokens_details":{"cached_tokens":183936}}`, "read=183936 write=0 out=10 total=184714"},
		"DeepSeek's name":                  {`{"prompt_tokens":100,"completion_tokens":10,"prompt_cache_hit_tokens":64}`, "read=64 write=0 out=10 total=110"},
		"what was written":                 {`{"prompt_tokens":100,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":0,"cache_write_tokens":90}}`, "read=0 write=90 out=10 total=110"},
		"not in it, which can't be hidden": {`{"prompt_tokens":206,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":98432}}`, "read=98432 write=0 out=10 total=98648"},
		"reasoning only in the total":      {`{"prompt_tokens":100,"completion_tokens":10,"total_tokens":150}`, "read=0 write=0 out=50 total=150"},
		"no total":                         {`{"prompt_tokens":100,"completion_tokens":10}`, "read=0 write=0 out=10 total=110"},
		"fractions":                        {`{"prompt_tokens":1e2,"completion_tokens":10.0,"prompt_tokens_details":null}`, "read=0 write=0 out=10 total=110"},
	} {
		t.Run(why, func(t *testing.T) {
			expect(t, run(t, data(delta(`{"content":"x"}`), finish("stop"), `{"choices":[],"usage":`+c.usage+`}`, done)), `text "x"`, "completed "+c.want)
		})
	}
	for _, nothing := range []string{`null`, `{}`, `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`, `{"prompt_tokens":"many"}`, `[]`, `{"prompt_tokens":-5}`} {
		expect(t, run(t, data(delta(`{"content":"x"}`), `{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":`+nothing+`}`, done)), `text "x"`, "completed")
	}
}

// An answer that is whole only after its request ended is not completed.
func TestCase_D28_LateAnswer(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("somebody pressed stop")
	m := serve(t, data(part(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`), finish("tool_calls"), done)).model(t)
	o := m.Stream(ctx, llm.Request{}, func(m schemas.Message) error {
		cancel(why)
		if p, ok := m.Payload.(*schemas.ToolCall); ok && p.StopReason == "" {
			t.Error("the call is complete")
		}
		return nil
	})
	if o.Status != schemas.StopAborted || !errors.Is(o.Error, why) {
		t.Errorf("%s, %v", o.Status, o.Error)
	}
}

// No call of an answer that was cut or withheld is complete, be its own arguments whole.
func TestCase_D21_CallsOfACutAnswer(t *testing.T) {
	for reason, want := range map[string]string{
		"length":         "failed input retryable=false: the answer was cut off at the output limit (finish reason length)",
		"content_filter": "failed provider retryable=false: the provider's filter withheld the answer (finish reason content_filter)",
		"error":          "failed provider retryable=true: the provider gave up in the middle of the answer (finish reason error)",
	} {
		t.Run(reason, func(t *testing.T) {
			expect(t, run(t, data(
				part(`{"index":0,"id":"a","function":{"name":"rm","arguments":"{}"}}`),
				part(`{"index":1,"id":"b","function":{"name":"rm","arguments":"{\"path\":\"x"}}`),
				finish(reason), done)), `call a rm {} failed`, want)
		})
	}
}
