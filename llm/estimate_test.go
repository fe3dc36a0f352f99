package llm_test

import (
	"testing"

	"braid/llm"
	"braid/schemas"
)

// Whose provider said nothing is estimated, unless it can't have used anything.
func TestUsed(t *testing.T) {
	req := llm.Request{Input: []schemas.Message{schemas.New(noon, schemas.UserText("12345678"))}}
	said := []schemas.Message{schemas.New(noon, schemas.AssistantText("1234"))}
	failed := func(status schemas.StopReason, e llm.Error) llm.Outcome {
		return llm.Outcome{Status: status, Error: &e}
	}
	with := func(o llm.Outcome, total int64) llm.Outcome {
		o.Usage = &schemas.TokenCounts{Total: total}
		return o
	}
	provider := llm.Error{Kind: llm.KindProvider, Provider: "p"}
	for _, c := range []struct {
		why       string
		outcome   llm.Outcome
		said      []schemas.Message
		total     int64
		estimated bool
	}{
		{"its provider says it", with(llm.Completed(nil), 7), said, 7, false},
		{"its provider says it, and the request failed", with(failed(schemas.StopFailed, provider), 7), said, 7, false},
		{"its provider says it was nothing", with(failed(schemas.StopFailed, provider), 0), said, 0, false},
		{"its provider says it was less than nothing", with(llm.Completed(nil), -1), said, 0, false},
		{"its provider says it was more than there is", with(llm.Completed(nil), 1<<62), said, 1 << 40, false},
		{"completed", llm.Completed(nil), said, 6 + 5, true},
		{"completed without a word", llm.Completed(nil), nil, 6, true},
		{"broken off", failed(schemas.StopFailed, provider), said, 6 + 5, true},
		{"broken off without a word", failed(schemas.StopFailed, provider), nil, 6, true},
		{"fell silent", failed(schemas.StopTimeout, llm.Error{Kind: llm.KindProvider}), nil, 6, true},
		{"answered nonsense", failed(schemas.StopMalformed, provider), nil, 6, true},
		{"stopped", failed(schemas.StopAborted, llm.Error{Kind: llm.KindEngine}), nil, 6, true},
		{"its adapter panicked", failed(schemas.StopFailed, llm.Error{Kind: llm.KindEngine}), nil, 6, true},
		{"an error status", failed(schemas.StopFailed, llm.Error{Kind: llm.KindProvider, Provider: "p", StatusCode: 529}), nil, 0, false},
		{"an error status after the first words", failed(schemas.StopFailed, llm.Error{Kind: llm.KindProvider, Provider: "p", StatusCode: 529}), said, 6 + 5, true},
		{"no rights", failed(schemas.StopAuth, provider), nil, 0, false},
		{"no rights any more", failed(schemas.StopAuth, provider), said, 6 + 5, true},
		{"refused by its adapter", failed(schemas.StopFailed, llm.Error{Kind: llm.KindInput}), nil, 0, false},
		{"no provider was reached", failed(schemas.StopFailed, llm.Error{Kind: llm.KindProvider}), nil, 0, false},
	} {
		got, estimated := llm.Used(req, c.outcome, c.said)
		if got.Total != c.total || estimated != c.estimated {
			t.Errorf("%s: %d tokens, estimated %v", c.why, got.Total, estimated)
		}
	}
}
