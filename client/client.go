package client

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"braid/bus"
	"braid/schemas"
)

// Transport is a way to reach a project's sessions: [HTTP] or [NATS]. It belongs to one [Client].
//
// Errors that a caller can decide on are *[schemas.Error]; any other means that the connection
// broke, and trying again is worth it.
type Transport interface {
	// send has a command applied, once however often it is sent under its id. The session has no
	// project yet.
	send(ctx context.Context, cmd schemas.Command) (accepted, error)
	// importTrace is send for a command that makes a session of a trace.
	importTrace(ctx context.Context, cmd schemas.Command, trace []byte) error
	info(ctx context.Context, id string) (Info, error)
	sessions(ctx context.Context, o SessionsOptions, cursor string) (sessionsPage, error)
	failures(ctx context.Context, o FailuresOptions, cursor string) (bus.FailuresPage, error)
	models(ctx context.Context) (bus.ModelList, error)
	tools(ctx context.Context) (ToolList, error)
	usage(ctx context.Context, o UsageOptions) (bus.UsageReport, error)
	agentStore
	history(ctx context.Context, id, after string) (historyPage, error)
	export(ctx context.Context, id string, w io.Writer) error
	// watch is one connection, from after w's cursor on, until it breaks: the last element is an
	// error.
	watch(ctx context.Context, id string, w watch) iter.Seq2[Event, error]
	// events is the same of all sessions.
	events(ctx context.Context, after string) iter.Seq2[ProjectEvent, error]
	close()
}

// accepted is an applied command.
type accepted struct {
	CommandID string        `json:"command_id"`
	Cursor    string        `json:"cursor"` // where watching shows all that the command brings about
	Taken     schemas.Taken `json:"taken"`
}

// Client makes, finds and lists the sessions of a project. It is safe for concurrent use.
type Client struct {
	transport Transport
	pauses    pauses
}

// New makes a client. It connects to nothing until it is asked for something.
func New(t Transport) *Client { return &Client{transport: t, pauses: defaultPauses} }

// Close drops what the client holds open without using it. Streams end with their own contexts. A
// connection that was given to [NATS] stays open.
func (c *Client) Close() { c.transport.close() }

// Ping asks once, without trying again, whether the project's sessions can be reached.
func (c *Client) Ping(ctx context.Context) error {
	if _, err := c.transport.sessions(ctx, SessionsOptions{}, ""); err != nil {
		return failure(ctx, err)
	}
	return nil
}

// CreateOptions describe a session. Model must be set, or Agent, which may say all the rest.
type CreateOptions struct {
	// ID names the session; empty: one is made up, and is the same for the same [Key].
	ID string
	schemas.CreateBody
}

// Create makes a session.
func (c *Client) Create(ctx context.Context, o CreateOptions, options ...Option) (*Session, error) {
	cmd := schemas.Command{Type: schemas.CommandCreate, ID: commandID(options), Create: &o.CreateBody}
	s := c.newSession(o.ID, cmd.ID)
	if _, err := s.send(ctx, cmd); err != nil {
		return nil, err
	}
	return s, nil
}

// newSession is a handle on a session that is to be made: of the id that was asked for, or of one
// that is the same for the same key.
func (c *Client) newSession(asked, key string) *Session {
	if asked == "" {
		asked = schemas.DerivedSessionID(key)
	}
	return c.Session(asked)
}

// Session is a handle on the session of that id. It asks nobody whether there is one.
func (c *Client) Session(id string) *Session { return &Session{client: c, id: id} }

// Info describes a session.
type Info struct {
	ID string `json:"id"`
	// Model is "provider/model"; FallbackModels go on with a task that it can't. ActiveModel is the
	// one of those that does now, if any.
	Model          string   `json:"model"`
	FallbackModels []string `json:"fallback_models,omitzero"`
	ActiveModel    string   `json:"active_model,omitzero"`
	Agent          string   `json:"agent,omitzero"`
	// State is idle, running or waiting (for a person).
	State bus.SessionState `json:"state"`
	// TaskStatus and TaskCause are how the last task ended; empty if none has.
	TaskStatus schemas.StopReason `json:"task_status,omitzero"`
	TaskCause  string             `json:"task_cause,omitzero"`
	// Title is the beginning of the first prompt.
	Title string `json:"title,omitzero"`
	// Created and LastActivity are RFC 3339 times.
	Created      string `json:"created"`
	LastActivity string `json:"last_activity"`
	Tasks        int    `json:"tasks"`
	Turns        int    `json:"turns"`
	TotalTokens  int64  `json:"total_tokens"`
	// TotalCostUSD is what its requests cost, as far as their models have prices.
	TotalCostUSD schemas.USD `json:"total_cost_usd,omitzero"`
	// ApprovalMode, ApprovalTimeoutMS (0: without end) and Limits are those in force.
	ApprovalMode      schemas.ApprovalMode `json:"approval_mode"`
	ApprovalTimeoutMS int64                `json:"approval_timeout_ms"`
	Limits            schemas.Limits       `json:"limits"`
	// Pending are the tool calls that wait for a person, Queue the tasks that wait for their turn.
	Pending []bus.PendingApproval `json:"pending"`
	Queue   []bus.QueuedTask      `json:"queue"`
	// LastSequence says how far the session's log was read for this: of two descriptions, which may
	// come in any order, the one with the greater number is newer.
	LastSequence uint64 `json:"last_sequence"`
}

// pauses say how long it is worth trying again, and how often.
type pauses struct {
	first, longest time.Duration
	tries          int // in a row, all in vain
	// patience is when no other try of a request begins any more, after the first.
	patience time.Duration
}

var defaultPauses = pauses{first: 100 * time.Millisecond, longest: 2 * time.Second, tries: 15, patience: time.Minute}

// wait pauses before the try of that number, from 1 on, as long as the refusal of the last one asks
// for, if it does; false if it is one too many or ctx has ended.
func (p pauses) wait(ctx context.Context, try int, refusal error) bool {
	if try >= p.tries {
		return false
	}
	pause := p.longest
	if shift := try - 1; shift < 16 {
		pause = min(pause, p.first<<shift)
	}
	pause = max(pause, min(RetryAfter(refusal), p.patience))
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// retry tries as long as the connection breaks, or the server says that it is worth it.
func retry[T any](ctx context.Context, p pauses, try func() (T, error)) (T, error) {
	begun := time.Now()
	for n := 1; ; n++ {
		v, err := try()
		if err == nil {
			return v, nil
		}
		if !transient(err) || time.Since(begun)+RetryAfter(err) >= p.patience || !p.wait(ctx, n, err) {
			return v, failure(ctx, err)
		}
	}
}

// reconnect makes one connection after the other until the caller left the range, or it is not worth
// trying again. connection reports whether it got anywhere; without an error the next is made at once.
func reconnect(ctx context.Context, p pauses, connection func() (came, left bool, err error)) error {
	for tries := 1; ; tries++ {
		came, left, err := connection()
		if left {
			return nil
		}
		if came {
			tries = 1
		}
		if err != nil && (!transient(err) || !p.wait(ctx, tries, err)) {
			return failure(ctx, err)
		}
	}
}

// RetryAfter is in what time it is worth trying again, by the word of the server that refused, 0 if it
// gave none. What the client tries again by itself it does not try before.
func RetryAfter(err error) time.Duration {
	if refused, ok := errors.AsType[*schemas.Error](err); ok {
		return time.Duration(refused.RetryAfterMS) * time.Millisecond
	}
	return 0
}

// transient reports whether the same request may go well the next time.
func transient(err error) bool {
	refused, ok := errors.AsType[*schemas.Error](err)
	return !ok || refused.Code == schemas.CodeUnavailable || refused.Code == schemas.CodeTooMany
}

// failure is err as callers get it: the context's own, if it ended, else a *schemas.Error.
func failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, ok := errors.AsType[*schemas.Error](err); ok {
		return err
	}
	return &unreachable{err}
}

// unreachable is a *schemas.Error of code unavailable, with the last reason.
type unreachable struct{ cause error }

func (e *unreachable) Error() string { return "Braid can't be reached: " + e.cause.Error() }

// Unwrap gives both, so that errors.As finds the code and errors.Is the cause.
func (e *unreachable) Unwrap() []error {
	return []error{unavailable("%s", e.Error()), e.cause}
}
