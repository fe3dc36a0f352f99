package session

import (
	"cmp"
	"fmt"

	"braid/schemas"
)

// limits are the session's limits, with defaults filled in.
func (s *State) limits() schemas.Limits {
	if s.importing != nil {
		return s.importing.settings.Limits.WithDefaults()
	}
	if s.Meta == nil {
		return schemas.Limits{}.WithDefaults()
	}
	return s.Meta.Limits.WithDefaults()
}

// closeTurn is called once the newest request's outputs are in the context. Of a committed turn it keeps
// what loop detection needs, and if the turn repeated others it adds the hint about that to the context,
// behind the outputs.
func (s *State) closeTurn() {
	t := s.Task
	r := t.Request
	if r == nil || r.Status != schemas.StopCompleted {
		return
	}
	t.Warned = r.Looped
	limits := s.limits()
	if limits.LoopLimit > 0 {
		t.Past = append(t.Past, s.turnOf(r))
		t.Past = t.Past[max(0, len(t.Past)-limits.LoopWindow+1):]
	}
	if r.Looped && limits.OnLoop == schemas.LoopWarn {
		s.Context = append(s.Context, schemas.Message{Type: schemas.TypeModel, Payload: schemas.HarnessText(loopHint)})
	}
}

// marks records what a request that has just ended shows: budget_exceeded, if a budget is used up, then
// loop_detected, if the model repeats itself. A request that did not complete is no turn, and repeats
// nothing.
func (st *step) marks() {
	if over := st.overBudget(); over != nil {
		st.emit(over)
	}
	if st.Task.Request.Status != schemas.StopCompleted {
		return
	}
	if loop := st.loop(); loop != nil {
		st.emit(loop)
	}
}

// overBudget compares what is used with the budgets, the session's first; nil if it is within them.
func (s *State) overBudget() *schemas.BudgetExceeded {
	limits := s.limits()
	tokens := func(used, limit int64) *schemas.BudgetExceeded {
		if limit == 0 || used <= limit {
			return nil
		}
		return &schemas.BudgetExceeded{Used: float64(used), Limit: float64(limit), Unit: schemas.UnitTokens}
	}
	money := func(used, limit schemas.USD) *schemas.BudgetExceeded {
		if limit == 0 || used <= limit {
			return nil
		}
		return &schemas.BudgetExceeded{Used: used.Float(), Limit: limit.Float(), Unit: schemas.UnitUSD}
	}
	return cmp.Or(
		tokens(s.Usage.Total, limits.MaxTokensSession), money(s.Usage.CostUSD, limits.MaxCostSession),
		tokens(s.Task.Used.Total, limits.MaxTokensTask), money(s.Task.Used.CostUSD, limits.MaxCostTask))
}

// firstTurn begins the task's first request, unless tasks before have used up the session's budget.
func (st *step) firstTurn() {
	if over := st.overBudget(); over != nil {
		st.endTask(&schemas.TaskEnd{Status: schemas.StopFailed, Cause: schemas.CauseBudget, ErrorInfo: &schemas.ErrorInfo{
			Kind: schemas.FaultInput, Message: "the session has used " + over.Amounts(),
		}})
		return
	}
	st.begin(1, st.nextRoute())
}

// nextTurn follows a committed turn whose calls all have their outputs. Where no further turn may
// begin the task ends, and the next prompt's context begins with those outputs. A task whose last turn
// made no calls is done: what was to steer it begins as a task of its own.
func (st *step) nextTurn() {
	t, limits := st.Task, st.limits()
	outOfTurns := limits.MaxTurns > 0 && t.Turn >= limits.MaxTurns
	answered := len(t.Request.Calls) == 0 && !t.Request.folded // else something has joined it since
	switch {
	case st.loopEnds():
		st.endTask(&schemas.TaskEnd{Status: schemas.StopFailed, Cause: schemas.CauseLoop})
	case answered && (!st.steered() || t.OverBudget || outOfTurns):
		st.endTask(&schemas.TaskEnd{Status: schemas.StopCompleted, Cause: schemas.CauseDone})
	case t.OverBudget:
		st.endTask(&schemas.TaskEnd{Status: schemas.StopCompleted, Cause: schemas.CauseBudget})
	case outOfTurns:
		st.noticeMaxTurns(limits.MaxTurns)
		st.endTask(&schemas.TaskEnd{Status: schemas.StopFailed, Cause: schemas.CauseMaxTurns})
	default:
		st.begin(1, t.Request.Model)
	}
}

// noticeMaxTurns tells readers, not the model, that the task's turns are used up.
func (st *step) noticeMaxTurns(turns int) {
	text := schemas.AssistantText(fmt.Sprintf("[reached max turns (%d); stopping]", turns))
	text.StopReason = schemas.StopFailed
	stop := schemas.TextFragment(schemas.PhaseStop, "")
	stop.StopReason = schemas.StopFailed
	st.emit(schemas.TextFragment(schemas.PhaseStart, ""))
	st.emit(schemas.TextFragment(schemas.PhaseDelta, text.Text))
	st.emit(stop)
	st.emit(text)
}
