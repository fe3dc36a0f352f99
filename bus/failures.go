package bus

import (
	"context"

	"braid/schemas"
)

// FailureKind says what failed.
type FailureKind string

// The kinds of failures.
const (
	FailedRequest    FailureKind = "request" // of a model; others may have followed
	FailedTask       FailureKind = "task"
	FailedTool       FailureKind = "tool"
	FailedCompaction FailureKind = "compaction"
)

// FailureKinds are all of them.
func FailureKinds() []FailureKind {
	return []FailureKind{FailedRequest, FailedTask, FailedTool, FailedCompaction}
}

// FailuresArgs asks for a page of a project's failures, the latest first.
type FailuresArgs struct {
	// Limit is the most failures wanted; 0 leaves it to the engine.
	Limit int `json:"limit,omitzero"`
	// Cursor is Next of the page before.
	Cursor string `json:"cursor,omitzero"`
	// Kinds are those that are wanted; empty: all.
	Kinds []FailureKind `json:"kinds,omitzero"`
	// Since is an RFC 3339 time; what failed before it is not wanted.
	Since string `json:"since,omitzero"`
	// Current is as in [SessionsArgs].
	Current bool `json:"current,omitzero"`
}

// FailuresPage is a page of failures; Next is empty on the last one. A page of few, or of none, may have one.
type FailuresPage struct {
	Failures []Failure `json:"failures"`
	Next     string    `json:"next,omitzero"`
}

// Failure is a model request, task, tool call or compaction that failed.
type Failure struct {
	// Session is the id of its session, and ID the id of the message that says so: its position in the session's
	// stream.
	Session string             `json:"session"`
	ID      string             `json:"id"`
	Time    string             `json:"time"` // RFC 3339
	Kind    FailureKind        `json:"kind"`
	Status  schemas.StopReason `json:"status"`
	// Message says what happened, at most 500 characters of it.
	Message string `json:"message,omitzero"`
	Model   string `json:"model,omitzero"` // that the session was on, "provider/model"
	// ToolCallID and Tool are set if a tool call failed.
	ToolCallID string `json:"tool_call_id,omitzero"`
	Tool       string `json:"tool,omitzero"`
}

// AskFailures returns a page of what failed in a project's sessions. What a person aborted or denied is not in it,
// nor what failed in sessions that are deleted.
func (c *Conn) AskFailures(ctx context.Context, project string, args FailuresArgs) (FailuresPage, error) {
	return ask[FailuresPage](ctx, c, Query{Op: QueryFailures, Project: project}, args)
}
