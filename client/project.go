package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"braid/bus"
	"braid/schemas"
)

// This file is what can be asked of a project as a whole.

// SessionsOptions say which sessions are wanted; what is empty does not narrow them.
type SessionsOptions struct {
	// State is idle, running or waiting (for a person).
	State bus.SessionState
	Agent string
	// Model is the "provider/model" that they were made for.
	Model string
	// TaskStatus are the ways in which their last task may have ended, such as [schemas.StopFailed].
	TaskStatus []schemas.StopReason
	// CreatedSince and CreatedUntil are when they were made, the first included, the second not.
	CreatedSince, CreatedUntil time.Time
}

// args is what a page is asked for with; limit 0 leaves it to the server.
func (o SessionsOptions) args(limit int, cursor string) bus.SessionsArgs {
	return bus.SessionsArgs{
		Limit: limit, Cursor: cursor, State: o.State, Agent: o.Agent, Model: o.Model, TaskStatus: o.TaskStatus,
		CreatedSince: wireTime(o.CreatedSince), CreatedUntil: wireTime(o.CreatedUntil),
	}
}

// commas is a list as a parameter of a query has it.
func commas[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, one := range list {
		texts[i] = string(one)
	}
	return strings.Join(texts, ",")
}

func wireTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

type sessionsPage struct {
	Sessions []Info `json:"sessions"`
	Next     string `json:"next"` // empty on the last page
}

// Sessions lists the project's sessions, those with the latest activity first. The list ends at the
// first error.
func (c *Client) Sessions(ctx context.Context, o SessionsOptions) iter.Seq2[Info, error] {
	if slices.Contains(o.TaskStatus, "") { // a query could not tell it from none
		return failing[Info](&schemas.Error{Code: schemas.CodeInvalid, Field: "task_status", Message: "a task status is empty"})
	}
	return paged(ctx, c.pauses, func(cursor string) ([]Info, string, error) {
		page, err := c.transport.sessions(ctx, o, cursor)
		return page.Sessions, page.Next, err
	})
}

// failing is a list that is nothing but an error.
func failing[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}

// paged lists what pages have, each of which names the cursor of the next one, and the last one none.
func paged[T any](ctx context.Context, p pauses, read func(cursor string) (page []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := ""; ; {
			next := ""
			page, err := retry(ctx, p, func() (page []T, err error) {
				page, next, err = read(cursor)
				return page, err
			})
			if err != nil {
				failing[T](err)(yield)
				return
			}
			for _, one := range page {
				if !yield(one, nil) {
					return
				}
			}
			if cursor = next; cursor == "" {
				return
			}
		}
	}
}

// Models tells what sessions can run on, as far as the engine knows that answers.
func (c *Client) Models(ctx context.Context) (bus.ModelList, error) {
	return retry(ctx, c.pauses, func() (bus.ModelList, error) { return c.transport.models(ctx) })
}

// ToolList are the tools that a project's sessions have now.
type ToolList struct {
	Tools []schemas.ToolDefinition `json:"tools"`
	// Conflicts are tools that toolrunners define differently.
	Conflicts []ToolConflict `json:"conflicts"`
}

// ToolConflict is a tool that two toolrunners define differently: Used and Ignored name them.
type ToolConflict struct {
	Tool    string `json:"tool"`
	Used    string `json:"used"`
	Ignored string `json:"ignored"`
}

// Tools lists the tools that toolrunners offer now.
func (c *Client) Tools(ctx context.Context) (ToolList, error) {
	return retry(ctx, c.pauses, func() (ToolList, error) { return c.transport.tools(ctx) })
}

func (t *httpTransport) sessions(ctx context.Context, o SessionsOptions, cursor string) (sessionsPage, error) {
	args := o.args(0, cursor)
	query := queryOf(map[string]string{
		"cursor": args.Cursor, "state": string(args.State), "agent": args.Agent, "model": args.Model, "task_status": commas(args.TaskStatus),
		"created_since": args.CreatedSince, "created_until": args.CreatedUntil,
	})
	var page sessionsPage
	return page, t.call(ctx, route{http.MethodGet, "/v1/sessions" + query, nil}, nil, &page)
}

func (t *httpTransport) models(ctx context.Context) (list bus.ModelList, err error) {
	return list, t.call(ctx, route{http.MethodGet, "/v1/models", nil}, nil, &list)
}

func (t *httpTransport) tools(ctx context.Context) (list ToolList, err error) {
	return list, t.call(ctx, route{http.MethodGet, "/v1/tools", nil}, nil, &list)
}

func (t *natsTransport) sessions(ctx context.Context, o SessionsOptions, cursor string) (sessionsPage, error) {
	ctx, cancel := context.WithTimeout(ctx, queryWait)
	defer cancel()
	args := o.args(pageSize, cursor)
	args.Current = true
	found, err := t.conn.AskSessions(ctx, t.project, args)
	if err != nil {
		return sessionsPage{}, fmt.Errorf("list the sessions: %w", err)
	}
	page := sessionsPage{Next: found.Next}
	for _, info := range found.Sessions {
		page.Sessions = append(page.Sessions, infoOf(info))
	}
	return page, nil
}

func (t *natsTransport) models(ctx context.Context) (bus.ModelList, error) {
	ctx, cancel := context.WithTimeout(ctx, queryWait)
	defer cancel()
	list, err := t.conn.AskModels(ctx, t.project)
	if err != nil {
		return list, fmt.Errorf("list the models: %w", err)
	}
	return list, nil
}

func (t *natsTransport) tools(ctx context.Context) (ToolList, error) {
	ctx, cancel := context.WithTimeout(ctx, queryWait)
	defer cancel()
	tools, conflicts, err := t.conn.Tools(ctx, t.project, nil)
	if err != nil {
		return ToolList{}, fmt.Errorf("list the tools: %w", err)
	}
	list := ToolList{Tools: tools}
	for _, c := range conflicts {
		list.Conflicts = append(list.Conflicts, ToolConflict{Tool: c.Name, Used: c.Used, Ignored: c.Ignored})
	}
	return list, nil
}
