package main

import (
	"context"
	"strings"

	"braid/client"
	"braid/schemas"
)

// takeTurn is take for the view of turns.
func (r *promptRun) takeTurn(t schemas.TurnEvent) (over bool, err error) {
	if err := r.show.turn(t); err != nil {
		return false, err
	}
	switch d := t.Data.(type) {
	case *schemas.TaskResult:
		if over = r.ours(d.TaskID); over {
			r.failure = whyNot(d)
		}
	case *schemas.TaskFailure:
		if over = r.ours(d.TaskID); over {
			r.failure = d.Message
		}
	}
	return over, nil
}

// takeState decides on the calls that wait and were not decided on before: a state may be told again.
// The stream of messages has approval requests instead.
func (r *promptRun) takeState(ctx context.Context, s client.State) error {
	for _, p := range s.Pending {
		if !r.turns || r.decided[p.ToolCallID] {
			continue
		}
		if err := r.decide(ctx, p); err != nil {
			return err
		}
		if r.decided == nil {
			r.decided = map[string]bool{}
		}
		r.decided[p.ToolCallID] = true
	}
	return nil
}

// Why a task ended that is no failure of anybody's.
const (
	noTurns = "no turns are left"
	inLoop  = "the model repeats itself"
)

// whyNot says why a task did not complete, though it ended well; nothing if it did.
func whyNot(d *schemas.TaskResult) string {
	switch {
	case d.Success:
		return ""
	case d.Aborted:
		return string(schemas.StopAborted)
	case d.MaxTurns:
		return noTurns
	case d.BudgetExceeded:
		return "the budget is used up"
	case d.LoopDetected:
		return inLoop
	}
	return string(schemas.StopFailed)
}

// turn shows one event of the view of turns.
func (r *renderer) turn(e schemas.TurnEvent) error {
	if r.json {
		return r.object(e)
	}
	switch d := e.Data.(type) {
	case string:
		r.say("", "", d, plain)
		r.newline()
	case *schemas.ToolUseBlock:
		r.call(d.ID, d.Name, string(d.Input))
	case *schemas.ToolResultBlock:
		mark, as := "←", cyan
		if d.IsError {
			mark, as = "✗", red
		}
		r.line(as, "%s %s", mark, r.names[d.ToolUseID])
		if d.Content != "" {
			r.line(plain, "%s", strings.TrimSuffix(d.Content, "\n"))
		}
		r.images(d.Images)
	case *schemas.LoopDetectionInfo:
		r.line(yellow, "! the model repeats itself (%s, %d times)", d.Kind, d.Repetitions)
	case *schemas.BudgetExceededInfo:
		r.line(yellow, "! the budget is used up: %s", d.Message)
	}
	return nil
}
