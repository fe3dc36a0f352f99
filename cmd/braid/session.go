package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"braid/internal/cli"
	"braid/schemas"
)

// checkSession checks the flags that say which session a run is for, and on what terms.
func (o *runOptions) checkSession() error {
	if _, err := schemas.ParseWhenBusy(o.whenBusy); err != nil {
		return cli.Usage("--when-busy: %v", err)
	}
	if longest := schemas.MaxApprovalTimeout * time.Millisecond; o.approvalTimeout < 0 || o.approvalTimeout > longest {
		return cli.Usage("--approval-timeout must be from 0 to %s", longest)
	}
	if o.approvalTimeout%time.Millisecond != 0 {
		return cli.Usage("--approval-timeout must be whole milliseconds")
	}
	if o.session == "" {
		return nil
	}
	if err := schemas.ValidateName("session", o.session); err != nil {
		return cli.Usage("--session: %v", err)
	}
	return nil
}

// open names the session of the run: the one that was given, or a new one.
func (r *promptRun) open(ctx context.Context, o *runOptions) error {
	if r.session = o.session; r.session != "" {
		return nil
	}
	var created struct {
		Session struct {
			ID string `json:"id"`
		} `json:"session"`
	}
	err := r.api.call(ctx, "/v1/sessions", map[string]any{
		"model": o.model, "fallback_models": o.fallback, "approval_mode": o.approve, "system_prompt": o.system, "limits": o.limits,
		"approval_timeout_ms": o.approvalTimeout.Milliseconds(),
	}, &created)
	if err != nil {
		return fmt.Errorf("create a session: %w", err)
	}
	r.session = created.Session.ID
	fmt.Fprintf(r.console.err, "session %s\n", r.session)
	return nil
}

// awaitTurn waits until the task, which waits for others of its session, begins. What they do is
// neither shown nor decided on. The cursor moves to where the task begins.
func (r *promptRun) awaitTurn(ctx context.Context, cursor *string) error {
	fmt.Fprintf(r.console.err, "the session is busy; task %s waits\n", r.task)
	err := r.api.follow(ctx, r.path("stream"), *cursor, func(e event) error {
		if e.name == eventResync {
			return errLost
		}
		if e.name != "" {
			return nil
		}
		m, err := schemas.Decode(e.data)
		if err != nil {
			return err
		}
		p, ok := m.Payload.(*schemas.TaskDequeued)
		switch {
		case !ok || len(m.Origin) > 0 || p.TaskID != r.task:
			return nil
		case p.Cause == schemas.DequeuedWithdrawn:
			return errWithdrawn
		}
		*cursor = e.id
		return errStop
	})
	if err != nil {
		return fmt.Errorf("wait for the task's turn: %w", err)
	}
	r.waiting.Store(false)
	return nil
}

var errWithdrawn = errors.New("the task was taken back before it began")

// stop ends the task, or takes it back if it still waits: what runs is somebody else's then.
func (r *promptRun) stop(ctx context.Context) error {
	if r.waiting.Load() {
		err := r.withdraw(ctx)
		if refused, ok := errors.AsType[*schemas.Error](err); !ok || refused.Code != schemas.CodeNotPending {
			return err
		}
	}
	return r.api.call(ctx, r.path("abort"), map[string]any{"reason": "interrupted"}, nil)
}

// withdraw takes the task back while it waits.
func (r *promptRun) withdraw(ctx context.Context) error {
	response, err := r.api.do(ctx, http.MethodDelete, r.path("tasks/"+r.task), nil, nil)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
