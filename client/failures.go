package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"time"

	"braid/bus"
	"braid/schemas"
)

// FailuresOptions say which failures are wanted; what is empty does not narrow them.
type FailuresOptions struct {
	// Kinds are what failed, such as [bus.FailedTask].
	Kinds []bus.FailureKind
	// Since is the time of the oldest one.
	Since time.Time
}

func (o FailuresOptions) args(limit int, cursor string) bus.FailuresArgs {
	return bus.FailuresArgs{Limit: limit, Cursor: cursor, Kinds: o.Kinds, Since: wireTime(o.Since)}
}

// Failures lists what failed in the project's sessions, the latest first: tasks, model requests (of which others
// may have followed), tool calls and compactions. What a person aborted or denied is none. The list ends at the
// first error.
func (c *Client) Failures(ctx context.Context, o FailuresOptions) iter.Seq2[bus.Failure, error] {
	if slices.Contains(o.Kinds, "") { // a query could not tell it from none
		return failing[bus.Failure](&schemas.Error{Code: schemas.CodeInvalid, Field: "kind", Message: "a kind is empty"})
	}
	return paged(ctx, c.pauses, func(cursor string) ([]bus.Failure, string, error) {
		page, err := c.transport.failures(ctx, o, cursor)
		return page.Failures, page.Next, err
	})
}

func (t *httpTransport) failures(ctx context.Context, o FailuresOptions, cursor string) (page bus.FailuresPage, err error) {
	args := o.args(0, cursor)
	query := queryOf(map[string]string{"cursor": args.Cursor, "kind": commas(args.Kinds), "since": args.Since})
	return page, t.call(ctx, route{http.MethodGet, "/v1/failures" + query, nil}, nil, &page)
}

func (t *natsTransport) failures(ctx context.Context, o FailuresOptions, cursor string) (bus.FailuresPage, error) {
	ctx, cancel := context.WithTimeout(ctx, queryWait)
	defer cancel()
	args := o.args(pageSize, cursor)
	args.Current = true
	page, err := t.conn.AskFailures(ctx, t.project, args)
	if err != nil {
		return page, fmt.Errorf("list the failures: %w", err)
	}
	return page, nil
}
