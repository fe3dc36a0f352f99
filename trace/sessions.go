package trace

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"time"

	"braid/schemas"
)

// SessionInfo is what is known of a session without reading its messages.
type SessionInfo struct {
	Session schemas.SessionRef `json:"session"`
	// Created and LastActivity are the broker's times of its first and last frame.
	Created      time.Time `json:"created"`
	LastActivity time.Time `json:"last_activity"`
	Model        string    `json:"model"` // "provider/model"
	// FallbackModels may go on with its tasks. ActiveModel is the one that does with the open task;
	// empty if it is Model.
	FallbackModels []string `json:"fallback_models,omitzero"`
	ActiveModel    string   `json:"active_model,omitzero"`
	Agent          string   `json:"agent,omitzero"`
	// Title is how the first prompt begins.
	Title string `json:"title,omitzero"`
	State State  `json:"state"`
	// TaskStatus and TaskCause are how the last finished task ended; empty if none has.
	TaskStatus schemas.StopReason `json:"task_status,omitzero"`
	TaskCause  string             `json:"task_cause,omitzero"`
	// Mode is the approval mode in force; Limits are as they were given.
	Mode   schemas.ApprovalMode `json:"mode,omitzero"`
	Limits schemas.Limits       `json:"limits,omitzero"`
	// ApprovalTimeoutMS is how long a call waits for a decision, in milliseconds; 0: without end.
	ApprovalTimeoutMS int64 `json:"approval_timeout_ms,omitzero"`
	// Pending are the tool calls that wait for a decision, oldest first.
	Pending []PendingApproval `json:"pending,omitzero"`
	// Queue are the tasks that wait, oldest first.
	Queue []*schemas.TaskQueued `json:"queue,omitzero"`
	// Deleted says that the session's end is recorded. It is in the trace until the tombstone comes.
	Deleted bool `json:"deleted,omitzero"`
	// Usage is the session's total.
	Usage schemas.TokenCounts `json:"usage"`
	// Tasks counts finished tasks, Turns committed requests outside of compactions, Messages
	// everything recorded.
	Tasks    int64 `json:"tasks"`
	Turns    int64 `json:"turns"`
	Messages int64 `json:"messages"`
	// Last is the position of the last message.
	Last schemas.Position `json:"last"`
	// Head is the session's last frame.
	Head Head `json:"head"`
}

// Made reports that the session was made, and is there. One whose making was refused, or an import that
// came to nothing, has a log that says so and runs on nothing.
func (i SessionInfo) Made() bool { return i.Model != "" && !i.Deleted }

// PendingApproval is a tool call that waits for a person.
type PendingApproval struct {
	Position schemas.Position         `json:"position"`
	Request  *schemas.ApprovalRequest `json:"request"`
}

// Paging selects a page of a listing.
type Paging struct {
	// Cursor is the Next of the page before; empty for the first one.
	Cursor string
	// Limit is the number of rows; the default is 50, the most 1000.
	Limit int
}

func (p Paging) limit() int {
	if p.Limit <= 0 {
		return 50
	}
	return min(p.Limit, 1000)
}

// SessionPage is a page of sessions.
type SessionPage struct {
	Sessions []SessionInfo `json:"sessions"`
	// Next is the cursor of the next page; empty if this is the last.
	Next string `json:"next,omitzero"`
}

// Session returns what is known of a session; false if there is no such session, or no longer.
func (s *Store) Session(ref schemas.SessionRef) (SessionInfo, bool, error) {
	st, found, err := s.state(ref)
	if err != nil || !found {
		return SessionInfo{}, false, err
	}
	info, err := s.info(ref, st)
	if err != nil {
		return SessionInfo{}, false, s.explain(err, "read session %s", ref)
	}
	return info, true, nil
}

// Filter says which sessions of a listing are wanted. Its zero value wants all.
type Filter struct {
	State        State
	Agent, Model string
	// TaskStatus are the ways in which the last finished task may have ended; empty: any, or none yet.
	TaskStatus []schemas.StopReason
	// CreatedSince is included, CreatedUntil is not.
	CreatedSince, CreatedUntil time.Time
	// Made leaves out what runs on no model, since its making was refused, and what is deleted.
	Made bool
}

func (f Filter) takes(info SessionInfo) bool {
	return (f.State == "" || f.State == info.State) &&
		(f.Agent == "" || f.Agent == info.Agent) &&
		(f.Model == "" || f.Model == info.Model) &&
		(len(f.TaskStatus) == 0 || slices.Contains(f.TaskStatus, info.TaskStatus)) &&
		(!f.Made || info.Made()) &&
		!info.Created.Before(f.CreatedSince) &&
		(f.CreatedUntil.IsZero() || info.Created.Before(f.CreatedUntil))
}

// Sessions lists those of a project's sessions that the filter takes, by last activity, the newest
// first. A session that becomes active between two pages moves to the front, where the second page
// does not look. A filter that takes few sessions may leave a page short, or empty, though it has a
// Next.
func (s *Store) Sessions(ctx context.Context, project string, filter Filter, paging Paging) (SessionPage, error) {
	if err := checkCursor(spaceActivity, project, paging.Cursor, func(key []byte) (schemas.SessionRef, error) {
		ref, _, err := parseActivityKey(key)
		return ref, err
	}); err != nil {
		return SessionPage{}, err
	}
	var page SessionPage
	next, err := s.filtered(ctx, spaceActivity, project, paging, func(row listed) (bool, error) {
		ref, _, err := parseActivityKey(row.key)
		if err != nil {
			return false, err
		}
		info, there, err := s.Session(ref)
		if err != nil || !there || !filter.takes(info) { // not there: it was deleted just now
			return false, err
		}
		page.Sessions = append(page.Sessions, info)
		return true, nil
	})
	if err != nil {
		return SessionPage{}, s.explain(err, "list sessions of %s", project)
	}
	page.Next = next
	return page, nil
}

// info completes a session's summary by what it names by position.
func (s *Store) info(ref schemas.SessionRef, st sessionState) (SessionInfo, error) {
	sum := &st.Summary
	info := SessionInfo{
		Session: ref,
		Created: time.UnixMilli(sum.Created).UTC(), LastActivity: time.UnixMilli(sum.Active).UTC(),
		Model: sum.Model, FallbackModels: sum.Fallbacks, ActiveModel: sum.active(), Agent: sum.Agent, Title: sum.Title,
		Mode: sum.Mode, Limits: sum.Limits, ApprovalTimeoutMS: sum.ApprovalTimeoutMS,
		Deleted: sum.Deleted, State: sum.state(), TaskStatus: sum.TaskStatus, TaskCause: sum.TaskCause,
		Usage: sum.Usage, Tasks: sum.Tasks, Turns: sum.Turns, Messages: sum.Messages,
		Last: st.Head.Last, Head: st.Head,
	}
	for _, p := range sum.Pending {
		m, found, err := s.message(ref, p.At)
		if err != nil {
			return info, err
		}
		if request, ok := m.Payload.(*schemas.ApprovalRequest); found && ok {
			info.Pending = append(info.Pending, PendingApproval{Position: p.At, Request: request})
		}
	}
	for _, q := range sum.Queue {
		m, found, err := s.message(ref, q.At)
		if err != nil {
			return info, err
		}
		if task, ok := m.Payload.(*schemas.TaskQueued); found && ok {
			info.Queue = append(info.Queue, task)
		}
	}
	return info, nil
}

// message reads one message.
func (s *Store) message(ref schemas.SessionRef, at schemas.Position) (m schemas.Message, found bool, err error) {
	if err := s.begin(); err != nil {
		return m, false, err
	}
	defer s.end()
	found, err = decodeValue(s.db, messageKey(ref, at), &m)
	return m, found, err
}

// listed is one row of an index.
type listed struct{ key, value []byte }

// listing reads a page of an index over a project, and the cursor of the next page.
func (s *Store) listing(ctx context.Context, space byte, project string, paging Paging) (rows []listed, next string, err error) {
	if err := schemas.ValidateName("project", project); err != nil {
		return nil, "", err
	}
	prefix := projectKey(space, project)
	lower, err := decodeCursor(prefix, paging.Cursor)
	if err != nil {
		return nil, "", err
	}
	limit := paging.limit()
	err = s.scan(ctx, lower, prefixEnd(prefix), func(k, v []byte) error {
		if len(rows) == limit {
			next = encodeCursor(prefix, rows[limit-1].key)
			return errStop
		}
		rows = append(rows, listed{append([]byte(nil), k...), append([]byte(nil), v...)})
		return nil
	})
	return rows, next, err
}

// maxLooked bounds how many rows of an index are looked at for one page.
const maxLooked = 5000

// filtered hands rows of an index over a project to take until that took a page of them, or many were looked at,
// and returns the cursor of the next page. If take returns errStop there is none.
func (s *Store) filtered(ctx context.Context, space byte, project string, paging Paging, take func(listed) (bool, error)) (string, error) {
	taken, limit := 0, paging.limit()
	for looked := 0; ; {
		rows, next, err := s.listing(ctx, space, project, paging)
		if err != nil {
			return "", err
		}
		for i, row := range rows {
			took, err := take(row)
			switch {
			case errors.Is(err, errStop):
				return "", nil
			case err != nil:
				return "", err
			case took:
				taken++
			}
			if taken == limit && i < len(rows)-1 {
				return encodeCursor(projectKey(space, project), row.key), nil
			}
		}
		looked += len(rows)
		if next == "" || taken == limit || looked >= maxLooked {
			return next, nil
		}
		paging.Cursor = next
	}
}

// encodeCursor makes a cursor of the last key of a page.
func encodeCursor(prefix, last []byte) string {
	return base64.RawURLEncoding.EncodeToString(last[len(prefix):])
}

// checkCursor refuses what no page of a listing has ever ended with; parse reads a key of the index.
func checkCursor(space byte, project, cursor string, parse func(key []byte) (schemas.SessionRef, error)) error {
	if cursor == "" {
		return nil
	}
	key, err := decodeCursor(projectKey(space, project), cursor)
	if err != nil {
		return err
	}
	if ref, err := parse(key[:len(key)-1]); err != nil || ref.Validate() != nil {
		return errCursor()
	}
	return nil
}

func errCursor() error {
	return &schemas.Error{Code: schemas.CodeInvalid, Field: "cursor", Message: "the cursor is not one of this listing"}
}

// decodeCursor is the first key of the page after a cursor.
func decodeCursor(prefix []byte, cursor string) ([]byte, error) {
	if cursor == "" {
		return prefix, nil
	}
	rest, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(rest) > 256 {
		return nil, errCursor()
	}
	return append(append(prefix[:len(prefix):len(prefix)], rest...), 0), nil
}
