package main

import (
	"context"
	"fmt"
	"strings"

	"braid/schemas"
)

// Names of the events that control a stream.
const (
	eventState  = "task_state"
	eventResync = "resync_required"
)

// takeTurns is take for the view of turns. That view has no approval requests: what waits for a
// decision is told with the state.
func (r *promptRun) takeTurns(ctx context.Context, e event) error {
	switch e.name {
	case "":
	case eventResync:
		return errLost
	case eventState:
		return r.decideAll(ctx, e.data)
	default:
		return nil
	}
	var t schemas.TurnEvent
	if err := schemas.DecodeJSON(e.data, &t); err != nil {
		return err
	}
	r.show.turn(e.data, t)
	switch d := t.Data.(type) {
	case *schemas.TaskResult:
		if !r.ours(d.TaskID) {
			return nil
		}
		r.failure = whyNot(d)
		return errStop
	case *schemas.TaskFailure:
		if !r.ours(d.TaskID) {
			return nil
		}
		r.failure = d.Message
		return errStop
	}
	return nil
}

// decideAll decides on the calls that wait in a state and were not decided on before: a state may
// be told again.
func (r *promptRun) decideAll(ctx context.Context, data []byte) error {
	var state struct {
		Pending []pendingCall `json:"pending"`
	}
	if err := schemas.DecodeJSON(data, &state); err != nil {
		return err
	}
	for _, p := range state.Pending {
		if r.decided[p.ToolCallID] {
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

// turn shows one event of the view of turns; raw is its JSON.
func (r *renderer) turn(raw []byte, e schemas.TurnEvent) {
	if r.json {
		fmt.Fprintf(r.out, "%s\n", raw)
		return
	}
	switch d := e.Data.(type) {
	case string:
		r.say("", "", d)
		r.newline()
	case *schemas.ToolUseBlock:
		label := fmt.Sprintf("%d %s", len(r.names)+1, d.Name)
		r.names[d.ID] = label
		r.line("→ %s %s", label, d.Input)
	case *schemas.ToolResultBlock:
		mark := "←"
		if d.IsError {
			mark = "✗"
		}
		r.line("%s %s", mark, r.names[d.ToolUseID])
		if d.Content != "" {
			r.line("%s", strings.TrimSuffix(d.Content, "\n"))
		}
		r.images(d.Images)
	case *schemas.LoopDetectionInfo:
		r.line("! the model repeats itself (%s, %d times)", d.Kind, d.Repetitions)
	case *schemas.BudgetExceededInfo:
		r.line("! the budget is used up: %s", d.Message)
	}
}
