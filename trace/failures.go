package trace

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"braid/schemas"
)

// Failure is a request, task, tool call or compaction that failed.
type Failure struct {
	Session  schemas.SessionRef `json:"session"`
	Position schemas.Position   `json:"position"`
	Time     time.Time          `json:"time"` // the broker's
	Kind     FailureKind        `json:"kind"`
	Status   schemas.StopReason `json:"status"`
	// Message says what happened, shortened to 500 characters.
	Message string `json:"message,omitzero"`
	Model   string `json:"model,omitzero"` // "provider/model" of the session
	// ToolCallID and Tool are set for a tool call.
	ToolCallID string `json:"tool_call_id,omitzero"`
	Tool       string `json:"tool,omitzero"`
}

// FailurePage is a page of failures.
type FailurePage struct {
	Failures []Failure `json:"failures"`
	// Next is the cursor of the next page; empty if this is the last.
	Next string `json:"next,omitzero"`
}

// FailureFilter says which failures of a listing are wanted. Its zero value wants all.
type FailureFilter struct {
	// Kinds are those that are wanted; empty: all.
	Kinds []FailureKind
	// Since is the time of the oldest one.
	Since time.Time
}

func (f FailureFilter) takes(kind FailureKind) bool {
	return len(f.Kinds) == 0 || slices.Contains(f.Kinds, kind)
}

// Failures lists those of a project's failures that the filter takes, the newest first. What a person
// aborted or denied is not a failure. A filter that takes few may leave a page short, or empty, though it
// has a Next.
func (s *Store) Failures(ctx context.Context, project string, filter FailureFilter, paging Paging) (FailurePage, error) {
	if err := checkCursor(spaceFailure, project, paging.Cursor, func(key []byte) (schemas.SessionRef, error) {
		ref, _, _, err := parseFailureKey(key)
		return ref, err
	}); err != nil {
		return FailurePage{}, err
	}
	var page FailurePage
	next, err := s.filtered(ctx, spaceFailure, project, paging, func(row listed) (bool, error) {
		f, err := parseFailure(row)
		if err == nil && f.Time.Before(filter.Since) {
			err = errStop
		}
		if err != nil || !filter.takes(f.Kind) {
			return false, err
		}
		if f.ToolCallID != "" {
			f.Tool, err = s.toolOf(f.Session, f.ToolCallID)
		}
		page.Failures = append(page.Failures, f)
		return true, err
	})
	if err != nil {
		return FailurePage{}, s.explain(err, "list failures of %s", project)
	}
	page.Next = next
	return page, nil
}

// parseFailure reads a row of the index of failures; the name of the tool is not in it.
func parseFailure(row listed) (Failure, error) {
	ref, millis, at, err := parseFailureKey(row.key)
	if err != nil {
		return Failure{}, err
	}
	var v failure
	if err := schemas.DecodeJSON(row.value, &v); err != nil {
		return Failure{}, err
	}
	return Failure{
		Session: ref, Position: at, Time: time.UnixMilli(millis).UTC(),
		Kind: v.Kind, Status: v.Status, Message: v.Message, Model: v.Model, ToolCallID: v.ToolCallID,
	}, nil
}

// toolOf is the name of the tool a call is for; empty if the call is not in the trace.
func (s *Store) toolOf(ref schemas.SessionRef, call string) (string, error) {
	e, found, err := s.Call(ref, call)
	if p, ok := e.Message.Payload.(*schemas.ToolCall); err == nil && found && ok {
		return p.Name, nil
	}
	return "", err
}

// Call returns the tool_call message of a call; false if there is none.
func (s *Store) Call(ref schemas.SessionRef, call string) (e schemas.Entry, found bool, err error) {
	if err := ref.Validate(); err != nil {
		return e, false, err
	}
	if err := s.begin(); err != nil {
		return e, false, err
	}
	defer s.end()
	if e.Position, found, err = s.callPosition(ref, call); err == nil && found {
		e.Message, found, err = s.message(ref, e.Position)
	}
	return e, found, s.explain(err, "read call %.80q of %s", call, ref)
}

// callPosition looks up where a call stands. The caller has begun.
func (s *Store) callPosition(ref schemas.SessionRef, call string) (at schemas.Position, found bool, err error) {
	value, closer, err := s.db.Get(callKey(ref, call))
	if errors.Is(err, pebble.ErrNotFound) {
		return at, false, nil
	}
	if err != nil {
		return at, false, err
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	at, err = parsePosition(value)
	return at, true, err
}
