package openai

import (
	"fmt"

	"braid/llm"
	"braid/llm/internal/transport"
	"braid/schemas"
)

// answer turns an answer's chunks into segments. It is not safe for concurrent use.
//
// A complete tool call may be run at once, and no call may be run before the answer is known to be
// whole. So the first call stays open until then, and what comes beside or behind it is held.
type answer struct {
	model  *model
	client *transport.Client
	emit   *llm.Emitter

	calls   calls
	details details
	live    *call // the call being streamed
	started bool  // its segment is open
	sent    int   // how much of its arguments is out
	held    []*held
	field   string          // where reasoning came from
	finish  string          // the finish reason, once there is one
	last    schemas.Kind    // what was streamed last, text or thinking; empty: nothing yet
	ids     map[string]bool // of calls, as they were emitted
	usage   *schemas.TokenCounts
	settled bool // usage came with the finish reason or later
}

// held is something that waits for the end of the answer.
type held struct {
	call  *call // else words
	kind  schemas.Kind
	words string
}

// take takes a chunk. It fails if emitting does.
func (a *answer) take(c chunk) error {
	for _, choice := range c.Choices {
		for _, d := range []*delta{choice.Delta, choice.Message} {
			if d == nil {
				continue
			}
			if err := a.takeDelta(d); err != nil {
				return err
			}
		}
		if reason := text(choice.FinishReason); reason != "" {
			a.finish = reason
		}
	}
	if u := counts(c.Usage); u != nil {
		a.usage, a.settled = u, a.finish != ""
	}
	return nil
}

func (a *answer) takeDelta(d *delta) error {
	said, reasoned := contents(d.Content)
	if err := a.think(d, reasoned); err != nil {
		return err
	}
	for _, words := range []string{said, text(d.Refusal)} {
		if err := a.say(schemas.KindText, words); err != nil {
			return err
		}
	}
	a.calls.next()
	for _, p := range d.ToolCalls {
		of, fresh := a.calls.add(p)
		switch {
		case fresh && a.live == nil:
			a.live = of
		case fresh:
			a.held = append(a.held, &held{call: of})
		}
	}
	return a.stream()
}

// think takes the reasoning of a delta, which may come under several names at once.
func (a *answer) think(d *delta, reasoned string) error {
	var detailed string
	for _, v := range d.ReasoningDetails {
		detailed += a.details.add(v)
	}
	field, words := "", ""
	for _, form := range []struct{ field, words string }{
		{"reasoning_content", text(d.ReasoningContent)}, {"reasoning", text(d.Reasoning)}, {"", reasoned}, {"", detailed},
	} {
		if form.words != "" {
			field, words = form.field, form.words
			break
		}
	}
	if a.field == "" {
		a.field = field
	}
	return a.say(schemas.KindThinking, words)
}

// say streams words, or holds them if a call is open.
func (a *answer) say(kind schemas.Kind, words string) error {
	if words == "" {
		return nil
	}
	if a.live == nil {
		return a.emitWords(kind, words)
	}
	if n := len(a.held); n > 0 && a.held[n-1].kind == kind {
		a.held[n-1].words += words
		return nil
	}
	a.held = append(a.held, &held{kind: kind, words: words})
	return nil
}

func (a *answer) emitWords(kind schemas.Kind, words string) error {
	before := a.last
	a.last = kind
	if kind == schemas.KindText {
		return a.emit.Text(words)
	}
	err := a.emit.Thinking(words)
	if a.field != "" && before != kind {
		a.emit.Fidelity(fidelity{From: a.model.from, Field: a.field}.encode())
	}
	return err
}

// stream streams what has come of the first call. Its segment opens with its first arguments: until
// then its name may grow.
func (a *answer) stream() error {
	if a.live == nil || a.live.name == "" || a.live.args.Len() == a.sent {
		return nil
	}
	return a.streamRest()
}

func (a *answer) streamRest() error {
	if !a.started {
		a.started = true
		if err := a.emit.ToolCallStart(a.localID(a.live), a.live.name); err != nil {
			return err
		}
	}
	rest := a.live.args.String()[a.sent:]
	a.sent = a.live.args.Len()
	return a.emit.ToolCallArgs(rest)
}

// localID is an id for the call that no other call of this answer has: the provider's, if it will
// do.
func (a *answer) localID(c *call) string {
	id := c.id
	for n := len(a.ids); id == "" || a.ids[id]; n++ {
		id = fmt.Sprintf("call-%d", n)
	}
	a.ids[id] = true
	return id
}

// complete emits what was held: the answer is whole.
func (a *answer) complete() error {
	if a.live != nil {
		if err := a.streamRest(); err != nil {
			return err
		}
		a.emit.Fidelity(a.callFidelity(a.live).encode())
	} else if blocks := a.details.values(); blocks != nil {
		if a.last == "" {
			if err := a.emit.ThinkingStart(); err != nil {
				return err
			}
		}
		f := fidelity{From: a.model.from, Details: blocks}
		if a.last == schemas.KindThinking {
			f.Field = a.field // which the open segment carries already
		}
		a.emit.Fidelity(f.encode())
	}
	for _, h := range a.held {
		if err := a.emitHeld(h); err != nil {
			return err
		}
		a.last = h.kind
	}
	return a.emit.Close()
}

// callFidelity is what a call carries; the first one of an answer carries the answer's details.
func (a *answer) callFidelity(c *call) fidelity {
	f := fidelity{From: a.model.from, CallID: c.id, Extra: c.extra}
	if c == a.live {
		f.Details = a.details.values()
	}
	return f
}

func (a *answer) emitHeld(h *held) error {
	if h.call == nil {
		return a.emitWords(h.kind, h.words)
	}
	if err := a.emit.ToolCallStart(a.localID(h.call), h.call.name); err != nil {
		return err
	}
	a.emit.Fidelity(a.callFidelity(h.call).encode())
	return a.emit.ToolCallArgs(h.call.args.String())
}

// judge decides what an answer is that ended by its own terminal marker: marked is [DONE], else it
// just ended. A nil outcome means that it is whole.
func (a *answer) judge(marked bool) *llm.Outcome {
	fail := func(o llm.Outcome) *llm.Outcome { return &o }
	calls := a.calls.list
	switch reason := a.finish; reason {
	case "":
		switch {
		case !marked:
			return fail(a.client.Malformed("the answer broke off: the connection ended before the answer did"))
		case a.last == "" && len(calls) == 0:
			return fail(a.client.Malformed("the answer is empty and gives no reason"))
		}
		for _, c := range calls {
			if !c.whole() {
				return fail(a.client.Malformed("the answer ends in the middle of the tool call %s", c.name))
			}
		}
	case "length", "max_tokens", "model_length", "MAX_TOKENS":
		return fail(a.client.Unservable("the answer was cut off at the output limit (finish reason %s)", reason))
	case "content_filter", "sensitive", "safety", "SAFETY", "refusal":
		return fail(a.client.Failed(false, "the provider's filter withheld the answer (finish reason %s)", reason))
	case "error", "network_error", "insufficient_system_resource", "abort":
		return fail(a.client.Failed(true, "the provider gave up in the middle of the answer (finish reason %s)", reason))
	case "tool_calls", "function_call", "tool_use":
		if len(calls) == 0 {
			return fail(a.client.Malformed("the answer promises tool calls and has none"))
		}
	case "malformed_function_call", "MALFORMED_FUNCTION_CALL":
		return fail(a.client.Malformed("the model's tool call made no sense (finish reason %s)", reason))
	}
	for _, c := range calls {
		if c.name == "" {
			return fail(a.client.Malformed("the answer has a tool call without a name"))
		}
	}
	return nil
}
