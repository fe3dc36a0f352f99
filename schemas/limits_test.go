package schemas_test

import (
	"errors"
	"strings"
	"testing"

	"braid/schemas"
)

func TestLimitsValidate(t *testing.T) {
	for _, c := range []struct {
		why    string
		limits schemas.Limits
		field  string // empty: fine
	}{
		{"none at all", schemas.Limits{}, ""},
		{"turns without end", schemas.Limits{MaxTurns: -1}, ""},
		{"everything", schemas.Limits{
			MaxTurns: 1, MaxTokensTask: 1, MaxTokensSession: 2, LoopLimit: 2, LoopWindow: 2, OnLoop: schemas.LoopTerminate,
			RequestTimeoutMS: 1, IdleTimeoutMS: 1,
		}, ""},
		{"-1 is the only one below 0 that means something", schemas.Limits{MaxTurns: -2}, "max_turns"},
		{"a budget is a number of tokens", schemas.Limits{MaxTokensTask: -1}, "max_tokens_task"},
		{"so is the session's", schemas.Limits{MaxTokensSession: -1}, "max_tokens_session"},
		{"a budget in money", schemas.Limits{MaxCostTask: 1, MaxCostSession: schemas.MaxUSD}, ""},
		{"nobody gets money back", schemas.Limits{MaxCostTask: -1}, "max_cost_task_usd"},
		{"nor does the session", schemas.Limits{MaxCostSession: -1}, "max_cost_session_usd"},
		{"one turn is no loop", schemas.Limits{LoopLimit: 1}, "loop_limit"},
		{"past turns are kept in memory", schemas.Limits{LoopLimit: schemas.MaxLoopWindow + 1}, "loop_limit"},
		{"as many as the window has", schemas.Limits{LoopLimit: 2, LoopWindow: schemas.MaxLoopWindow + 1}, "loop_window"},
		{"a window alone finds nothing", schemas.Limits{LoopWindow: 3}, "loop_limit"},
		{"nor does an action alone", schemas.Limits{OnLoop: schemas.LoopWarn}, "loop_limit"},
		{"a limit that the window can't reach", schemas.Limits{LoopLimit: 3, LoopWindow: 2}, "loop_window"},
		{"an action nobody knows", schemas.Limits{LoopLimit: 3, OnLoop: "explode"}, "on_loop"},
		{"time does not run backwards", schemas.Limits{RequestTimeoutMS: -1}, "request_timeout_ms"},
		{"a day is the most", schemas.Limits{IdleTimeoutMS: schemas.MaxRequestTimeout.Milliseconds() + 1}, "idle_timeout_ms"},
	} {
		cmd := schemas.Command{
			ID: "k", Type: schemas.CommandCreate, Session: schemas.SessionRef{Project: "p", ID: "s"},
			Create: &schemas.CreateBody{Model: "a/b", Limits: c.limits},
		}
		err := cmd.Validate()
		if c.field == "" {
			if err != nil {
				t.Errorf("%s: %v", c.why, err)
			}
			continue
		}
		var e *schemas.Error
		if !errors.As(err, &e) || e.Code != schemas.CodeInvalid || e.Field != "limits."+c.field || !strings.Contains(e.Message, c.field) {
			t.Errorf("%s: got %#v, want one about %s", c.why, err, c.field)
		}
	}
}

func TestLimitsWithDefaults(t *testing.T) {
	got := schemas.Limits{LoopLimit: 3}.WithDefaults()
	want := schemas.Limits{
		MaxTurns: 200, LoopLimit: 3, LoopWindow: 6, OnLoop: schemas.LoopWarn, RequestTimeoutMS: 600_000, IdleTimeoutMS: 120_000,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	given := schemas.Limits{
		MaxTurns: -1, MaxTokensTask: 1, MaxTokensSession: 2, LoopLimit: 80, LoopWindow: 90, OnLoop: schemas.LoopContinue,
		RequestTimeoutMS: 1, IdleTimeoutMS: 2,
	}
	if got := given.WithDefaults(); got != given {
		t.Errorf("what was given changed: %+v", got)
	}
	if w := (schemas.Limits{LoopLimit: 80}).WithDefaults().LoopWindow; w != schemas.MaxLoopWindow {
		t.Errorf("the window of a high limit is %d", w)
	}
}
