package openai_test

import (
	"testing"

	"braid/llm/openai"
	"braid/schemas"

	"github.com/google/go-cmp/cmp"
)

// again lets the model answer, and returns what is sent with its answer and the calls' outputs as
// the context.
func again(t *testing.T, c openai.Config, more []schemas.Payload, lines ...string) string {
	t.Helper()
	r := run(t, data(lines...))
	if r.Status != schemas.StopCompleted {
		t.Fatalf("%s: %v", r.Status, r.Error)
	}
	req := input(schemas.UserText("go"))
	req.Input = append(req.Input, r.Complete()...)
	for _, call := range r.Calls() {
		req.Input = append(req.Input, schemas.New(noon, output(call.ToolCallID, "ok")))
	}
	req.Input = append(req.Input, input(more...).Input...)
	return sent(t, c, req)
}

const toolTurn = `"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`

func TestCase_A23_ReasoningGoesBackOrNot(t *testing.T) {
	oneCall := part(`{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}`)
	user, tool := `{"role":"user","content":"go"}`, `{"role":"tool","content":"ok","tool_call_id":"c1"}`
	bare := `{"role":"assistant","content":null,` + toolTurn
	for _, field := range []string{"reasoning_content", "reasoning"} {
		lines := []string{delta(`{"` + field + `":"thi"}`), delta(`{"` + field + `":"nk","content":""}`), oneCall, finish("tool_calls"), done}
		back := `{"role":"assistant","content":null,"` + field + `":"think",` + toolTurn
		next := []schemas.Payload{schemas.AssistantText("done"), schemas.UserText("more")}
		rest := []string{`{"role":"assistant","content":"done"}`, `{"role":"user","content":"more"}`}
		wants(t, again(t, openai.Config{}, nil, lines...), user, back, tool)
		wants(t, again(t, openai.Config{}, next, lines...), user, bare, tool, rest[0], rest[1])
		wants(t, again(t, openai.Config{Reasoning: openai.ReasoningAlways}, next, lines...), user, back, tool, rest[0], rest[1])
		wants(t, again(t, openai.Config{Reasoning: openai.ReasoningNever}, nil, lines...), user, bare, tool)
	}
	// Of another model it does not.
	wants(t, sent(t, openai.Config{}, input(with(schemas.AssistantThinking("think"), `{"from":"p/x","field":"reasoning"}`), call("c1", "f", "{}"), output("c1", "ok"))), bare, tool)
}

// Both names at once are one piece of reasoning, and reasoning is no text.
func TestReasoningUnderSeveralNames(t *testing.T) {
	expect(t, run(t, data(
		delta(`{"reasoning_content":"a","reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a","index":0}]}`),
		delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"b"}]},{"type":"text","text":"c"}]}`), finish("stop"), done)),
		`thinking "ab"`, `text "c"`, "completed")
}

func TestCase_A19_SignaturesOfCallsGoBack(t *testing.T) {
	const extra = `{"google":{"thought_signature":"c2ln\u002b<&>"},"n":1.50}`
	got := again(t, openai.Config{}, nil,
		part(`{"index":0,"id":"c1","function":{"name":"grep","arguments":"{}"},"extra_content": `+extra+`}`), finish("tool_calls"), done)
	wants(t, got, `{"role":"user","content":"go"}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"grep","arguments":"{}"},"extra_content":`+extra+`}]}`,
		`{"role":"tool","content":"ok","tool_call_id":"c1"}`)
}

// Blocks come in fragments, whose signature is of the whole text and may come last, after the
// answer's text: they go back put together, and byte for byte.
func TestReasoningDetailsGoBack(t *testing.T) {
	lines := []string{
		delta(`{"reasoning_details":[{"type":"reasoning.text","text":"Let <","format":"f","index":0}]}`),
		delta(`{"reasoning_details":[{"type":"reasoning.text","text":" me\u002b","format":"f","index":0,"signature":null}]}`),
		delta(`{"reasoning_details":[{"type":"reasoning.encrypted","data":"E\/1","id":"rs_1","index":1},{"type":"reasoning.text","text":"no index"}]}`),
		delta(`{"content":"So"}`),
		part(`{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}`),
		delta(`{"reasoning_details":[{"type":"reasoning.text","signature":"Et8\/B","index":0}]}`),
		finish("tool_calls"), done,
	}
	expect(t, run(t, data(lines...)), `thinking "Let < me+no index"`, `text "So"`, `call c1 f {}`, "completed")
	const details = `"reasoning_details":[{"format":"f","index":0,"signature":"Et8\/B","text":"Let < me\u002b","type":"reasoning.text"},` +
		`{"type":"reasoning.encrypted","data":"E\/1","id":"rs_1","index":1},{"type":"reasoning.text","text":"no index"}],`
	user, tool := `{"role":"user","content":"go"}`, `{"role":"tool","content":"ok","tool_call_id":"c1"}`
	wants(t, again(t, openai.Config{}, nil, lines...), user, `{"role":"assistant","content":"So",`+details+toolTurn, tool)
	// What is signed goes back later too, unless nothing is to.
	wants(t, again(t, openai.Config{}, []schemas.Payload{schemas.UserText("more")}, lines...), user, `{"role":"assistant","content":"So",`+details+toolTurn, tool, `{"role":"user","content":"more"}`)
	wants(t, again(t, openai.Config{Reasoning: openai.ReasoningNever}, nil, lines...), user, `{"role":"assistant","content":"So",`+toolTurn, tool)
	// Without a call they are the text's.
	wants(t, again(t, openai.Config{}, nil, lines[2], lines[3], finish("stop"), done), user,
		`{"role":"assistant","content":"So","reasoning_details":[{"type":"reasoning.encrypted","data":"E\/1","id":"rs_1","index":1},{"type":"reasoning.text","text":"no index"}]}`)
}

// An index numbers blocks of one type.
func TestReasoningDetailsOfSeveralTypes(t *testing.T) {
	got := again(t, openai.Config{}, nil,
		delta(`{"reasoning_details":[{"type":"reasoning.summary","summary":"S","index":0},{"type":"reasoning.encrypted","data":"E","index":0}]}`),
		delta(`{"reasoning_details":[{"type":"reasoning.summary","summary":"s","index":0}]}`), delta(`{"content":"x"}`), finish("stop"), done)
	wants(t, got, `{"role":"user","content":"go"}`,
		`{"role":"assistant","content":"x","reasoning_details":[{"index":0,"summary":"Ss","type":"reasoning.summary"},{"type":"reasoning.encrypted","data":"E","index":0}]}`)
}

// Fidelity is one compact object whatever the provider sends.
func TestFidelityIsCompact(t *testing.T) {
	r := run(t, data(delta(`{"reasoning_details":[ {"type" : "reasoning.encrypted", "data" :"x"}, "odd", 7 ]}`), finish("stop"), done))
	expect(t, r, `thinking ""`, "completed")
	thinking := r.Complete()[0].Payload.(*schemas.Thinking)
	want := `{"from":"p/m","reasoning_details":[{"type":"reasoning.encrypted","data":"x"},"odd",7]}`
	if diff := cmp.Diff(want, string(thinking.Fidelity)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
