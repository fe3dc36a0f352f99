package session

import (
	"strings"

	"pgregory.net/rapid"

	"braid/schemas"
)

// drawLimits draws none, or some that a few turns reach.
func (w *world) drawLimits() schemas.Limits {
	var l schemas.Limits
	if rapid.Bool().Draw(w.t, "no limits") {
		return l
	}
	l.MaxTurns = rapid.SampledFrom([]int{0, -1, 1, 2, 4}).Draw(w.t, "max turns")
	l.MaxTokensTask = rapid.SampledFrom([]int64{0, 0, 3, 8}).Draw(w.t, "task budget")
	l.MaxTokensSession = rapid.SampledFrom([]int64{0, 0, 10, 30}).Draw(w.t, "session budget")
	l.MaxCostTask = rapid.SampledFrom([]schemas.USD{0, 0, 0, 2, 6}).Draw(w.t, "task budget in money")
	l.MaxCostSession = rapid.SampledFrom([]schemas.USD{0, 0, 0, 20}).Draw(w.t, "session budget in money")
	if l.LoopLimit = rapid.SampledFrom([]int{0, 2, 2, 3}).Draw(w.t, "loop limit"); l.LoopLimit > 0 {
		l.LoopWindow = rapid.SampledFrom([]int{0, l.LoopLimit, 5}).Draw(w.t, "loop window")
		l.OnLoop = rapid.SampledFrom([]schemas.LoopAction{
			"", schemas.LoopWarn, schemas.LoopContinue, schemas.LoopTerminate,
		}).Draw(w.t, "on loop")
	}
	return l
}

// nextScript is a new one; of sessions that look for loops mostly the one before.
func (w *world) nextScript() []schemas.Message {
	if w.said == nil || w.state.limits().LoopLimit == 0 || rapid.IntRange(0, 4).Draw(w.t, "something new") == 0 {
		w.said = w.drawScript()
	}
	return w.said
}

// limitReader is a reader of the log that knows of limits.
type limitReader struct {
	require func(ok bool, what string)
	limits  schemas.Limits
	session schemas.TokenCounts
	task    struct {
		turns          int
		used           schemas.TokenCounts
		committed      bool // the newest request
		over, notice   bool
		looped, before bool // the newest committed turn, the one before
		calls          map[string]schemas.Decision
	}
}

// checkLimits asserts from the log alone that tasks keep to their limits, and end because of one
// exactly when it is reached.
func (w *world) checkLimits() {
	r := &limitReader{session: w.before()}
	r.require = func(ok bool, what string) {
		if !ok {
			w.t.Fatalf("%s (limits %+v)\n%s", what, r.limits, w.dump())
		}
	}
	for _, m := range w.native() {
		r.read(m)
	}
}

func (r *limitReader) read(m schemas.Message) {
	if m.Given() {
		return
	}
	t := &r.task
	switch p := m.Payload.(type) {
	case *schemas.SessionMeta:
		r.limits = p.Limits.WithDefaults()
	case *schemas.SessionImported:
		r.limits = p.Settings.Limits.WithDefaults()
	case *schemas.RequestBegin:
		r.require(!t.over, "a request begins over budget")
		r.require(!r.overSession(), "a request begins over the session's budget")
		r.require(!r.overTask(), "a request begins over the task's budget")
		if p.Attempt <= 1 {
			t.turns++
		}
		r.require(r.limits.MaxTurns < 0 || t.turns <= r.limits.MaxTurns, "one turn too many")
		t.calls, t.committed = map[string]schemas.Decision{}, false
	case *schemas.ToolCall:
		t.calls[p.ToolCallID] = ""
	case *schemas.ApprovalDecision:
		t.calls[p.ToolCallID] = p.Decision
	case *schemas.TokenUsage:
		r.session, t.used = p.Session, t.used.Add(p.Request)
	case *schemas.RequestEnd:
		if t.committed = p.Status == schemas.StopCompleted; t.committed {
			t.before, t.looped = t.looped, false
		}
	case *schemas.BudgetExceeded:
		r.require(!t.over, "a second budget_exceeded in a task")
		r.require(p.Used > p.Limit && r.counted(p), "a budget that was not exceeded")
		t.over = true
	case *schemas.LoopDetected:
		r.require(r.limits.LoopLimit > 0 && p.Repetitions >= r.limits.LoopLimit && p.Repetitions <= r.limits.LoopWindow, "no loop")
		t.looped = true
	case *schemas.Text:
		t.notice = t.notice || p.StopReason == schemas.StopFailed && strings.HasPrefix(p.Text, "[reached max turns (")
	case *schemas.TaskEnd:
		r.end(p)
		*t = limitReader{}.task
	}
}

func (r *limitReader) overSession() bool {
	l, used := r.limits, r.session
	return l.MaxTokensSession > 0 && used.Total > l.MaxTokensSession || l.MaxCostSession > 0 && used.CostUSD > l.MaxCostSession
}

func (r *limitReader) overTask() bool {
	l, used := r.limits, r.task.used
	return l.MaxTokensTask > 0 && used.Total > l.MaxTokensTask || l.MaxCostTask > 0 && used.CostUSD > l.MaxCostTask
}

// counted reports that what the event says was used is what was used.
func (r *limitReader) counted(p *schemas.BudgetExceeded) bool {
	if p.Unit == schemas.UnitUSD {
		return p.Used == r.session.CostUSD.Float() || p.Used == r.task.used.CostUSD.Float()
	}
	return p.Unit == schemas.UnitTokens && (int64(p.Used) == r.session.Total || int64(p.Used) == r.task.used.Total)
}

// end checks why the task ended.
func (r *limitReader) end(p *schemas.TaskEnd) {
	t := &r.task
	terminated := t.looped && t.committed && (r.limits.OnLoop == schemas.LoopTerminate || r.limits.OnLoop == schemas.LoopWarn && t.before)
	r.require(terminated == (p.Cause == schemas.CauseLoop), "the loop and the end don't fit")
	for _, d := range t.calls {
		r.require(!terminated || d == schemas.DecisionForbidden, "a call of the last turn was not forbidden")
	}
	r.require(t.notice == (p.Cause == schemas.CauseMaxTurns), "the notice and the end don't fit")
	switch p.Cause {
	case schemas.CauseMaxTurns:
		r.require(t.turns == r.limits.MaxTurns, "turns were left")
	case schemas.CauseBudget:
		r.require(t.over || t.turns == 0 && r.overSession(), "the budget was not used up")
	case schemas.CauseDone:
		r.require(len(t.calls) == 0, "done, and there are calls")
	}
}
