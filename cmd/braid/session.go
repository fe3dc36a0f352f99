package main

import (
	"context"
	"fmt"
	"time"

	"braid/client"
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

// body is the session that the flags ask for.
func (o *runOptions) body() schemas.CreateBody {
	b := schemas.CreateBody{
		Agent: o.agent, Model: o.model, FallbackModels: o.fallback, ApprovalMode: schemas.ApprovalMode(o.approve),
		SystemPrompt: o.system, Tools: o.tools, Limits: o.limits, ApprovalTimeoutMS: o.approvalTimeout.Milliseconds(),
	}
	if o.open("model") {
		b.Model = ""
	}
	if o.open("approve") {
		b.ApprovalMode = ""
	}
	return b
}

// open names the session of the run: the one that was given, or a new one.
func (r *promptRun) open(ctx context.Context, c *client.Client, o *runOptions) (err error) {
	if o.session != "" {
		r.session = c.Session(o.session)
		return nil
	}
	if r.session, err = c.Create(ctx, client.CreateOptions{CreateBody: o.body()}); err != nil {
		return fmt.Errorf("create a session: %s%w", atField(err), err)
	}
	fmt.Fprintf(r.console.err, "session %s\n", r.session.ID())
	return nil
}

// awaitTurn waits until the task, which waits for others of its session, begins, and returns where.
// What the others do is neither shown nor decided on.
func (r *promptRun) awaitTurn(ctx context.Context) (cursor string, err error) {
	fmt.Fprintf(r.console.err, "the session is busy; task %s waits\n", r.task.ID)
	if cursor, err = r.task.Begin(ctx); err != nil {
		return "", fmt.Errorf("wait for the task's turn: %w", err)
	}
	r.waiting.Store(false)
	return cursor, nil
}

// stop ends the task, or takes it back if it still waits: what runs is somebody else's then.
func (r *promptRun) stop(ctx context.Context) error {
	if r.waiting.Load() {
		if err := r.task.Withdraw(ctx); !client.IsCode(err, schemas.CodeNotPending) {
			return err
		}
	}
	return r.session.Abort(ctx, "interrupted", false)
}
