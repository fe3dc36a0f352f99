package schemas

import (
	"fmt"
	"time"
)

// Code is a machine-readable reason: of an error that a caller gets, or of a command's outcome.
type Code string

// The codes. Each is used in HTTP errors, command outcomes and typed Go errors alike.
const (
	// CodeApplied is the outcome of a command that took effect.
	CodeApplied Code = "applied"

	// CodeInvalid: the input is malformed; Error.Field says where.
	CodeInvalid Code = "invalid"
	// CodeTooLarge: the input is over a stated limit.
	CodeTooLarge Code = "too_large"
	// CodeUnauthorized: the token is missing or wrong.
	CodeUnauthorized Code = "unauthorized"
	// CodeForbidden: the request comes from an origin or host that is not allowed.
	CodeForbidden Code = "forbidden"
	// CodeNotFound: no such resource.
	CodeNotFound Code = "not_found"
	// CodeUnknownSession: no session of that name in this project.
	CodeUnknownSession Code = "unknown_session"
	// CodeUnknownModel: no provider serves the model that was named.
	CodeUnknownModel Code = "unknown_model"
	// CodeSessionExists: a session of that name was created before.
	CodeSessionExists Code = "session_exists"
	// CodeTaskInProgress: the session runs a task already.
	CodeTaskInProgress Code = "task_in_progress"
	// CodeQueueFull: as many tasks wait as may.
	CodeQueueFull Code = "queue_full"
	// CodeTooMany: as many are served at once as may be.
	CodeTooMany Code = "too_many"
	// CodeNotRunning: there is no task to act on.
	CodeNotRunning Code = "not_running"
	// CodeNotPending: that tool call does not wait for a decision (any more), that task does not
	// wait for its turn, or no retry is waited for.
	CodeNotPending Code = "not_pending"
	// CodeHashMismatch: the decision names another call than the one that waits.
	CodeHashMismatch Code = "hash_mismatch"
	// CodeConflict: the same idempotency key was used for another request.
	CodeConflict Code = "conflict"
	// CodeDeleted: the session was deleted.
	CodeDeleted Code = "deleted"
	// CodeAborted: an abort ended what the command had begun; nothing has come of it.
	CodeAborted Code = "aborted"
	// CodeUnavailable: the broker or an engine can't be reached now; try again.
	CodeUnavailable Code = "unavailable"
	// CodeUnsupported: the session's model can't take such input.
	CodeUnsupported Code = "unsupported"
	// CodeHasHistory: turns that come before all others can't be given to a session that has some.
	CodeHasHistory Code = "has_history"
	// CodeStorageFull: the broker has no room for what was sent; nothing was stored.
	CodeStorageFull Code = "storage_full"
	// CodeInternal: Braid failed; the log says more.
	CodeInternal Code = "internal_error"
)

// Error is an error a caller can decide on. Its message is a sentence for the person who gets
// it and holds no secret.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// Field names the offending input of a CodeInvalid, CodeTooLarge or CodeUnsupported error, as a
	// path such as "input[2].content[0].image_url".
	Field string `json:"field,omitzero"`
	// RetryAfterMS is in how many milliseconds it is worth trying again; 0: time alone changes
	// nothing, or nobody knows.
	RetryAfterMS int64 `json:"retry_after_ms,omitzero"`
}

// RetryAfter is in what time it is worth trying again after a refusal with the code, 0 if time alone
// changes nothing: a broker that is full stays so until somebody makes room, a queue until a task ends.
func (c Code) RetryAfter() time.Duration {
	switch c {
	case CodeUnavailable:
		return time.Second
	case CodeQueueFull, CodeTooMany:
		return 5 * time.Second
	case CodeStorageFull:
		return 30 * time.Second
	}
	return 0
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Is matches by code, so that errors.Is works on errors decoded from the network.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Errorf makes an Error, which says when to try again if its code does.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), RetryAfterMS: code.RetryAfter().Milliseconds()}
}
