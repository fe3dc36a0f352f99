package bus

import (
	"context"

	"braid/schemas"
)

// OutcomeArgs asks for the outcome of a command.
type OutcomeArgs struct {
	CommandID string `json:"command_id"`
}

// AskOutcome returns a command's recorded outcome. least is the command's sequence. The error is
// CodeNotFound while there is none.
func (c *Conn) AskOutcome(ctx context.Context, ref schemas.SessionRef, commandID string, least uint64) (schemas.Outcome, error) {
	return ask[schemas.Outcome](ctx, c, sessionQuery(QueryOutcome, ref, least), OutcomeArgs{CommandID: commandID})
}

// SessionInfo describes a session.
type SessionInfo struct {
	Session schemas.SessionRef `json:"session"`
	Agent   string             `json:"agent,omitzero"`
	Model   string             `json:"model,omitzero"`
	// FallbackModels may go on with its tasks, in this order. ActiveModel is the one that does with the
	// running task; empty if it is Model.
	FallbackModels []string `json:"fallback_models,omitzero"`
	ActiveModel    string   `json:"active_model,omitzero"`
	// State is as far as the answering engine knows.
	State SessionState `json:"state,omitzero"`
	// TaskStatus and TaskCause are how the last task ended; empty if none has.
	TaskStatus schemas.StopReason `json:"task_status,omitzero"`
	TaskCause  string             `json:"task_cause,omitzero"`
	// Created and LastActivity are RFC 3339 times.
	Created      string `json:"created,omitzero"`
	LastActivity string `json:"last_activity,omitzero"`
	// Title is the beginning of the first prompt.
	Title string `json:"title,omitzero"`
	Tasks int    `json:"tasks,omitzero"`
	Turns int    `json:"turns,omitzero"`
	// TotalTokens is the session's use so far.
	TotalTokens int64 `json:"total_tokens,omitzero"`
	// TotalCostUSD is what that cost, as far as prices were known.
	TotalCostUSD schemas.USD `json:"total_cost_usd,omitzero"`
	// ApprovalMode and Limits are in force, defaults filled in.
	ApprovalMode schemas.ApprovalMode `json:"approval_mode,omitzero"`
	Limits       schemas.Limits       `json:"limits,omitzero"`
	// ApprovalTimeoutMS is how long a call waits for a decision, in milliseconds; 0: without end.
	ApprovalTimeoutMS int64 `json:"approval_timeout_ms,omitzero"`
	// Pending are the calls that wait for a decision.
	Pending []PendingApproval `json:"pending,omitzero"`
	// Queue are the tasks that wait, in order.
	Queue []QueuedTask `json:"queue,omitzero"`
	// Epoch and LastSequence are where the session's stream ends.
	Epoch        string `json:"epoch,omitzero"`
	LastSequence uint64 `json:"last_sequence,omitzero"`
}

// QueuedTask is a task that waits: for its turn, or to be added to the running one.
type QueuedTask struct {
	TaskID string `json:"task_id"`
	// Prompt is its beginning.
	Prompt string `json:"prompt"`
	Steers bool   `json:"steers,omitzero"`
}

// PendingApproval is a tool call that waits for a person.
type PendingApproval struct {
	ToolCallID string `json:"tool_call_id"`
	Name       string `json:"name"`
	Arguments  string `json:"arguments"`
	Hash       string `json:"hash"`
	// Deadline is an RFC 3339 time, if there is one.
	Deadline string `json:"deadline,omitzero"`
	// Rule is the policy's rule for which a person is asked, if it is not the mode that asks.
	Rule string `json:"rule,omitzero"`
}

// AskSession describes one session; CodeUnknownSession if there is none.
func (c *Conn) AskSession(ctx context.Context, ref schemas.SessionRef, least uint64) (SessionInfo, error) {
	return ask[SessionInfo](ctx, c, sessionQuery(QuerySession, ref, least), nil)
}

// DescribeSession is [Conn.AskSession] with an answer that has seen everything recorded until now: an
// engine that is behind must not call a session unknown that was created a moment ago.
func (c *Conn) DescribeSession(ctx context.Context, ref schemas.SessionRef) (SessionInfo, error) {
	ends, err := c.KnownEnds(ctx, ref)
	if err != nil {
		return SessionInfo{}, err
	}
	info, err := c.AskSession(ctx, ref, ends.Log)
	if err == nil && info.LastSequence == 0 {
		info.LastSequence = ends.Log
	}
	return info, err
}

// SessionsArgs asks for a page of a project's sessions, the latest activity first.
type SessionsArgs struct {
	// Limit is the most sessions wanted; 0 leaves it to the engine.
	Limit int `json:"limit,omitzero"`
	// Cursor is Next of the page before.
	Cursor string `json:"cursor,omitzero"`

	// State, Agent and Model are those of the sessions that are wanted; empty: of any.
	State SessionState `json:"state,omitzero"`
	Agent string       `json:"agent,omitzero"`
	Model string       `json:"model,omitzero"`
	// TaskStatus are the ways in which their last task may have ended; empty: in any, or none has.
	TaskStatus []schemas.StopReason `json:"task_status,omitzero"`
	// CreatedSince and CreatedUntil are RFC 3339 times, the first included, the second not.
	CreatedSince string `json:"created_since,omitzero"`
	CreatedUntil string `json:"created_until,omitzero"`
	// Current has the answer wait until it has seen everything that was recorded when it was asked for: else
	// an engine that is behind lists sessions as they were.
	Current bool `json:"current,omitzero"`
}

// SessionsPage is a page of sessions; Next is empty on the last one. A page of few, or of none, may
// have one.
type SessionsPage struct {
	Sessions []SessionInfo `json:"sessions"`
	Next     string        `json:"next,omitzero"`
}

// AskSessions returns a page of a project's sessions.
func (c *Conn) AskSessions(ctx context.Context, project string, args SessionsArgs) (SessionsPage, error) {
	return ask[SessionsPage](ctx, c, Query{Op: QuerySessions, Project: project}, args)
}

// MessagesArgs asks for a page of a session's recorded messages, in order.
type MessagesArgs struct {
	// After is the position of the last message the asker has; zero starts at the beginning.
	After schemas.Position `json:"after,omitzero"`
	// Limit is the most messages wanted; 0 leaves it to the engine.
	Limit int `json:"limit,omitzero"`
}

// MessagesPage is a page of recorded messages.
type MessagesPage struct {
	Messages []PositionedMessage `json:"messages"`
	// More says that there are messages after these.
	More bool `json:"more,omitzero"`
	// Epoch is the incarnation of the stream the positions belong to.
	Epoch string `json:"epoch,omitzero"`
}

// PositionedMessage is a message at its position.
type PositionedMessage struct {
	Position schemas.Position `json:"position"`
	Message  schemas.Message  `json:"message"`
}

// AskMessages returns a page of a session's recorded messages.
func (c *Conn) AskMessages(ctx context.Context, ref schemas.SessionRef, least uint64, args MessagesArgs) (MessagesPage, error) {
	return ask[MessagesPage](ctx, c, sessionQuery(QueryMessages, ref, least), args)
}

// ExportArgs asks for a page of a session's trace as JSON Lines.
type ExportArgs struct {
	After schemas.Position `json:"after,omitzero"`
}

// ExportPage is a page of whole lines.
type ExportPage struct {
	Lines string `json:"lines"`
	// Next is where the next page begins after; More says whether there is one.
	Next schemas.Position `json:"next,omitzero"`
	More bool             `json:"more,omitzero"`
}

// AskExport returns a page of a session's trace.
func (c *Conn) AskExport(ctx context.Context, ref schemas.SessionRef, least uint64, args ExportArgs) (ExportPage, error) {
	return ask[ExportPage](ctx, c, sessionQuery(QueryExport, ref, least), args)
}

// UsageArgs asks what was used from one day to another, both included, in UTC: 2006-01-02. Without
// From it is everything up to To.
type UsageArgs struct {
	From string `json:"from,omitzero"`
	To   string `json:"to"`
}

// UsageTable says what was used, by day and model.
type UsageTable struct {
	Rows []UsageRow `json:"rows"`
}

// UsageRow is what was used of one model on one day. Requests counts the model calls that used
// something, completed or not.
type UsageRow struct {
	Day      string              `json:"day"`
	Model    string              `json:"model"`
	Requests int64               `json:"requests"`
	Tokens   schemas.TokenCounts `json:"tokens"`
}

// AskUsage returns what a project used, or one session if ref names one. What sessions used that are
// deleted is not in it. least is as in [Conn.AskSession].
func (c *Conn) AskUsage(ctx context.Context, ref schemas.SessionRef, least uint64, args UsageArgs) (UsageTable, error) {
	return ask[UsageTable](ctx, c, sessionQuery(QueryUsage, ref, least), args)
}

// ModelList is what an engine can run sessions on.
type ModelList struct {
	Models []ModelInfo `json:"models"`
	// Providers may serve models that they do not list.
	Providers []string `json:"providers"`
}

// ModelInfo is one model, "provider/model". Price is what it costs, if the engine knows.
type ModelInfo struct {
	Name  string      `json:"name"`
	Price *ModelPrice `json:"price,omitzero"`
}

// ModelPrice is in US dollars per million tokens.
type ModelPrice struct {
	Input      schemas.USD `json:"input"`
	Output     schemas.USD `json:"output"`
	CacheRead  schemas.USD `json:"cache_read"`
	CacheWrite schemas.USD `json:"cache_write"`
}

// AskModels returns what the engine that answers can run a project's sessions on.
func (c *Conn) AskModels(ctx context.Context, project string) (ModelList, error) {
	return ask[ModelList](ctx, c, Query{Op: QueryModels, Project: project}, nil)
}

func sessionQuery(op QueryOp, ref schemas.SessionRef, least uint64) Query {
	return Query{Op: op, Project: ref.Project, Session: ref.ID, LeastSequence: least}
}
