package client

import (
	"context"
	"crypto/rand"
	"errors"

	"braid/schemas"
)

// Session is a handle on one session. It is safe for concurrent use, and as many handles as one
// likes may name the same session.
type Session struct {
	client *Client
	id     string
}

// ID is the session's name.
func (s *Session) ID() string { return s.id }

// Option changes how a command is sent.
type Option func(*sending)

type sending struct {
	key    string
	caller schemas.TraceContext
}

// Key is the id of the command, a name: whoever sends the same command again under the same key, in
// this process or another, learns what became of it and does nothing twice. Another command under
// the key is refused with [schemas.CodeConflict]. Keys are remembered for 7 days. Without one each
// call is a command of its own.
func Key(id string) Option { return func(s *sending) { s.key = id } }

// Traced makes the task that a prompt starts a part of a distributed trace, where spans are drawn: a prompt
// that joins a running task is linked to it. The two are the headers of W3C Trace Context, as OpenTelemetry's
// propagation.TraceContext writes them; without a traceparent, or with one that is malformed, nothing is
// said. Commands other than prompts are in no trace.
func Traced(traceparent, tracestate string) Option {
	return func(s *sending) { s.caller = schemas.ParseTraceContext(traceparent, tracestate) }
}

func sendingOf(options []Option) sending {
	var s sending
	for _, o := range options {
		o(&s)
	}
	if s.key == "" {
		s.key = "c-" + rand.Text()
	}
	return s
}

func commandID(options []Option) string { return sendingOf(options).key }

// Info describes the session.
func (s *Session) Info(ctx context.Context) (Info, error) {
	if err := schemas.ValidateName("session", s.id); err != nil {
		return Info{}, err
	}
	return retry(ctx, s.client.pauses, func() (Info, error) { return s.client.transport.info(ctx, s.id) })
}

// Approve lets a tool call that waits for a person run. hash, if it is not empty, must be that of the
// call which was asked about: what was seen is what runs.
func (s *Session) Approve(ctx context.Context, call, hash string, options ...Option) error {
	return s.decide(ctx, schemas.ApproveBody{ToolCallID: call, Decision: schemas.DecisionAllow, Hash: hash}, options)
}

// Deny forbids a tool call that waits for a person; hash as in [Session.Approve].
func (s *Session) Deny(ctx context.Context, call, hash string, options ...Option) error {
	return s.decide(ctx, schemas.ApproveBody{ToolCallID: call, Decision: schemas.DecisionDeny, Hash: hash}, options)
}

func (s *Session) decide(ctx context.Context, b schemas.ApproveBody, options []Option) error {
	return s.apply(ctx, schemas.Command{Type: schemas.CommandApprove, Approve: &b}, options)
}

// Abort ends the running task. The next one that waits begins, unless dropQueue takes all of those
// back. The error is [schemas.CodeNotRunning] if there is nothing to end.
func (s *Session) Abort(ctx context.Context, reason string, dropQueue bool, options ...Option) error {
	return s.apply(ctx, schemas.Command{Type: schemas.CommandAbort, Abort: &schemas.AbortBody{Reason: reason, DropQueue: dropQueue}}, options)
}

// RetryNow ends the wait before a failed request is made again.
func (s *Session) RetryNow(ctx context.Context, options ...Option) error {
	return s.apply(ctx, schemas.Command{Type: schemas.CommandRetryNow}, options)
}

// SetApprovalMode says who decides on tool calls from now on, also on those that wait.
func (s *Session) SetApprovalMode(ctx context.Context, mode schemas.ApprovalMode, options ...Option) error {
	return s.apply(ctx, schemas.Command{Type: schemas.CommandSet, Set: &schemas.SetBody{ApprovalMode: mode}}, options)
}

// Delete deletes the session. One that runs a task is deleted only if force is set, which aborts it
// first. A session that was deleted before is no error.
func (s *Session) Delete(ctx context.Context, force bool, options ...Option) error {
	err := s.apply(ctx, schemas.Command{Type: schemas.CommandDelete, Delete: &schemas.DeleteBody{Force: force}}, options)
	if IsCode(err, schemas.CodeDeleted) {
		return nil
	}
	return err
}

// IsCode reports whether err is, or wraps, a *[schemas.Error] of that code.
func IsCode(err error, code schemas.Code) bool { return errors.Is(err, &schemas.Error{Code: code}) }

func (s *Session) apply(ctx context.Context, cmd schemas.Command, options []Option) error {
	cmd.ID = commandID(options)
	_, err := s.send(ctx, cmd)
	return err
}

// send sends a command until its outcome is known. Each try has the same id, so it applies once.
func (s *Session) send(ctx context.Context, cmd schemas.Command) (accepted, error) {
	cmd.Session.ID = s.id
	if err := checkNames(cmd); err != nil {
		return accepted{}, err
	}
	return retry(ctx, s.client.pauses, func() (accepted, error) { return s.client.transport.send(ctx, cmd) })
}

// checkNames checks what becomes a part of a path or a subject. The rest is for the server to judge.
func checkNames(cmd schemas.Command) error {
	if err := schemas.ValidateName("session", cmd.Session.ID); err != nil {
		return err
	}
	if err := schemas.ValidateName("key", cmd.ID); err != nil {
		return err
	}
	switch {
	case cmd.Approve != nil:
		return schemas.ValidateName("tool_call_id", cmd.Approve.ToolCallID)
	case cmd.Withdraw != nil:
		return schemas.ValidateName("task_id", cmd.Withdraw.TaskID)
	}
	return nil
}
