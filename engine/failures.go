package engine

import (
	"context"
	"fmt"
	"slices"

	"braid/bus"
	"braid/schemas"
	"braid/trace"
)

// answerFailures answers what failed in a project.
func (r *Reader) answerFailures(ctx context.Context, q bus.Query) (any, error) {
	var args bus.FailuresArgs
	if err := q.DecodeArgs(&args); err != nil {
		return nil, err
	}
	var filter trace.FailureFilter
	for _, kind := range args.Kinds {
		if !slices.Contains(bus.FailureKinds(), kind) {
			return nil, &schemas.Error{Code: schemas.CodeInvalid, Field: "kind", Message: fmt.Sprintf("kind is none of %v", bus.FailureKinds())}
		}
		filter.Kinds = append(filter.Kinds, trace.FailureKind(kind))
	}
	var err error
	if filter.Since, err = parseTime("since", args.Since); err != nil {
		return nil, err
	}
	if args.Current {
		if err := r.projector.awaitNow(ctx); err != nil {
			return nil, err
		}
	}
	limit := args.Limit
	if limit <= 0 || limit > pageFailures {
		limit = pageFailures
	}
	found, err := r.store.Failures(ctx, q.Project, filter, trace.Paging{Limit: limit, Cursor: args.Cursor})
	if err != nil {
		return nil, err
	}
	page := bus.FailuresPage{Failures: make([]bus.Failure, 0, len(found.Failures)), Next: found.Next}
	for _, f := range found.Failures {
		page.Failures = append(page.Failures, r.failure(f))
	}
	return page, nil
}

// failure is a failure of a trace as it travels.
func (r *Reader) failure(f trace.Failure) bus.Failure {
	at := schemas.Cursor{Epoch: r.conn.Epoch(f.Session), Position: f.Position}
	return bus.Failure{
		Session: f.Session.ID, ID: at.String(), Time: schemas.FormatTime(f.Time), Kind: bus.FailureKind(f.Kind), Status: f.Status,
		Message: f.Message, Model: f.Model, ToolCallID: f.ToolCallID, Tool: f.Tool,
	}
}
