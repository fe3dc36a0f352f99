package main

import (
	"context"
	"fmt"

	"braid/bus"
	"braid/client"
	"braid/schemas"
)

// This file is how a chat takes what happens in its session.

// take shows an event, and does what it asks for.
func (w *work) take(ctx context.Context, event client.Event) error {
	switch e := event.(type) {
	case client.Gap:
		if e.Reset {
			return errLost
		}
		w.note("some of what was streamed came too late to be shown (%s); complete messages follow", e.Reason)
	case client.State:
		w.told(ctx, e)
	case client.Message:
		if err := w.show.message(e.Message); err != nil {
			return err
		}
		if len(e.Origin) == 0 {
			w.took(ctx, e.Payload)
		}
	}
	return nil
}

// told takes what the session does, where watching begins or begins again.
func (w *work) told(ctx context.Context, s client.State) {
	if s.State == "idle" {
		w.stranger = false
	}
	waits := map[string]bool{}
	for _, p := range s.Pending {
		waits[p.ToolCallID] = true
	}
	for _, q := range append([]bus.PendingApproval(nil), w.questions...) {
		if !waits[q.ToolCallID] {
			w.settle(q.ToolCallID)
		}
	}
	for _, p := range s.Pending {
		w.question(ctx, p)
	}
	w.ask()
}

// took does what a message of the session means for the talk.
func (w *work) took(ctx context.Context, payload schemas.Payload) {
	switch p := payload.(type) {
	case *schemas.ApprovalRequest:
		w.question(ctx, bus.PendingApproval{ToolCallID: p.ToolCallID, Name: p.Name, Arguments: p.Arguments, Hash: p.Hash, Rule: p.Rule})
	case *schemas.ApprovalDecision:
		w.settle(p.ToolCallID)
		w.ask()
	case *schemas.ToolCallOutput: // which hides a question
		w.asked = false
		w.ask()
	case *schemas.TokenUsage:
		w.used = w.used.Add(p.Request)
	case *schemas.TaskDequeued:
		w.dequeued(p)
	case *schemas.TaskEnd:
		w.end(p)
	}
}

// dequeued: a prompt that waited waits no longer.
func (w *work) dequeued(p *schemas.TaskDequeued) {
	if _, ours := w.tasks[p.TaskID]; !ours {
		return
	}
	switch p.Cause {
	case schemas.DequeuedStarted:
		delete(w.waiting, p.TaskID)
	case schemas.DequeuedSteering: // whose end is to be waited for is the task that it joined
		w.drop(p.TaskID)
		w.stranger = w.stranger || len(w.tasks) == len(w.waiting)
	case schemas.DequeuedWithdrawn:
		w.drop(p.TaskID)
	}
}

// end: a task ended, if not one of this talk then another that it waits for, or joined.
func (w *work) end(p *schemas.TaskEnd) {
	w.questions, w.asked = nil, false
	_, ours := w.tasks[p.TaskID]
	if !ours && !w.stranger {
		return
	}
	w.drop(p.TaskID)
	w.stranger = false
	if reason := why(p); reason != "" {
		w.failed++
		if !w.show.json {
			w.show.line(red, "! the task ended: %s", reason)
		}
	}
	if w.show.terminal && w.used.Total > 0 {
		line := count(w.used.Total, "token")
		if w.used.CostUSD > 0 {
			line += fmt.Sprintf(", $%s", w.used.CostUSD)
		}
		w.show.line(dim, "%s", line)
	}
	w.used = schemas.TokenCounts{}
}
