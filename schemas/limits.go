package schemas

import "time"

// Limits bound what a session's tasks may use and how long its model may take. The zero value
// means the defaults.
type Limits struct {
	// MaxTurns is how many turns a task may take: 0 means [DefaultMaxTurns], -1 without end.
	MaxTurns int `json:"max_turns,omitzero"`
	// MaxTokensTask and MaxTokensSession are budgets, counted in the total of [TokenUsage]. The
	// request that goes over one is the last of its task; 0 means no budget.
	MaxTokensTask    int64 `json:"max_tokens_task,omitzero"`
	MaxTokensSession int64 `json:"max_tokens_session,omitzero"`
	// MaxCostTask and MaxCostSession are budgets in money, counted in the cost of [TokenUsage]. They
	// need a price for the session's model; 0 means no budget.
	MaxCostTask    USD `json:"max_cost_task_usd,omitzero"`
	MaxCostSession USD `json:"max_cost_session_usd,omitzero"`
	// LoopLimit is how many turns of a task may be alike before they count as a loop; 0 means
	// that nobody looks. LoopWindow is among how many turns, the newest included, they are
	// counted; 0 means twice the limit, so that turns that alternate are found too.
	LoopLimit  int `json:"loop_limit,omitzero"`
	LoopWindow int `json:"loop_window,omitzero"`
	// OnLoop is what follows from a loop; default [LoopWarn].
	OnLoop LoopAction `json:"on_loop,omitzero"`
	// RequestTimeoutMS bounds a whole answer of the model, IdleTimeoutMS its silence, both in
	// milliseconds; 0 means [DefaultRequestTimeout] and [DefaultIdleTimeout].
	RequestTimeoutMS int64 `json:"request_timeout_ms,omitzero"`
	IdleTimeoutMS    int64 `json:"idle_timeout_ms,omitzero"`
}

// LoopAction is what follows when the model repeats itself.
type LoopAction string

// The actions. Each begins with a loop_detected event.
const (
	// LoopWarn tells the model; if its next turn repeats itself as well, the task ends.
	LoopWarn LoopAction = "warn"
	// LoopContinue does nothing more.
	LoopContinue LoopAction = "continue"
	// LoopTerminate forbids the turn's calls and ends the task.
	LoopTerminate LoopAction = "terminate"
)

// What repeats itself, the kind of a [LoopDetected].
const (
	// LoopOfCalls: the same tool calls with the same arguments; their outputs were the same.
	LoopOfCalls = "tool_calls"
	// LoopOfText: the same text; the outputs of its calls were the same.
	LoopOfText = "text"
)

// Defaults and bounds of [Limits].
const (
	DefaultMaxTurns       = 200
	DefaultRequestTimeout = 10 * time.Minute
	DefaultIdleTimeout    = 2 * time.Minute

	// MaxLoopWindow bounds both the window and the limit of loop detection, in turns.
	MaxLoopWindow = 100
	// MaxRequestTimeout bounds both timeouts.
	MaxRequestTimeout = 24 * time.Hour
)

// WithDefaults returns the limits with what was left open filled in. A MaxTurns of -1 stays.
func (l Limits) WithDefaults() Limits {
	if l.MaxTurns == 0 {
		l.MaxTurns = DefaultMaxTurns
	}
	if l.LoopWindow == 0 {
		l.LoopWindow = min(2*l.LoopLimit, MaxLoopWindow)
	}
	if l.OnLoop == "" {
		l.OnLoop = LoopWarn
	}
	if l.RequestTimeoutMS == 0 {
		l.RequestTimeoutMS = DefaultRequestTimeout.Milliseconds()
	}
	if l.IdleTimeoutMS == 0 {
		l.IdleTimeoutMS = DefaultIdleTimeout.Milliseconds()
	}
	return l
}

// CostBudget names the member that bounds what may be spent, the task's first; empty if none does.
func (l Limits) CostBudget() string {
	switch {
	case l.MaxCostTask > 0:
		return "limits.max_cost_task_usd"
	case l.MaxCostSession > 0:
		return "limits.max_cost_session_usd"
	}
	return ""
}

// validate checks the limits; errors name the field below "limits".
func (l Limits) validate() error {
	timeout := MaxRequestTimeout.Milliseconds()
	for _, f := range []struct {
		name       string
		value      int64
		least, max int64 // no upper bound if max is 0
	}{
		{"max_turns", int64(l.MaxTurns), -1, 0},
		{"max_tokens_task", l.MaxTokensTask, 0, 0},
		{"max_tokens_session", l.MaxTokensSession, 0, 0},
		{"max_cost_task_usd", int64(l.MaxCostTask), 0, 0},
		{"max_cost_session_usd", int64(l.MaxCostSession), 0, 0},
		{"loop_limit", int64(l.LoopLimit), 0, MaxLoopWindow},
		{"loop_window", int64(l.LoopWindow), 0, MaxLoopWindow},
		{"request_timeout_ms", l.RequestTimeoutMS, 0, timeout},
		{"idle_timeout_ms", l.IdleTimeoutMS, 0, timeout},
	} {
		switch {
		case f.value < f.least:
			return badLimit(f.name, "%s must be at least %d", f.name, f.least)
		case f.max > 0 && f.value > f.max:
			return badLimit(f.name, "%s must be at most %d", f.name, f.max)
		}
	}
	return l.validateLoop()
}

func (l Limits) validateLoop() error {
	switch l.OnLoop {
	case "", LoopWarn, LoopContinue, LoopTerminate:
	default:
		return badLimit("on_loop", "on_loop must be warn, continue or terminate")
	}
	switch {
	case l.LoopLimit == 1:
		return badLimit("loop_limit", "loop_limit must be 0 or at least 2: one turn is no loop")
	case l.LoopLimit == 0 && (l.LoopWindow != 0 || l.OnLoop != ""):
		return badLimit("loop_limit", "loop_window and on_loop need a loop_limit")
	case l.LoopWindow != 0 && l.LoopWindow < l.LoopLimit:
		return badLimit("loop_window", "loop_window must be at least loop_limit")
	}
	return nil
}

func badLimit(field, format string, args ...any) error {
	e := Errorf(CodeInvalid, format, args...)
	e.Field = "limits." + field
	return e
}
