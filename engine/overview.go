package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"braid/bus"
	"braid/llm"
	"braid/schemas"
	"braid/trace"
)

// This file answers what is asked of a project as a whole.

// filterOf reads which sessions a question wants. An error names the argument that makes no sense.
func filterOf(args bus.SessionsArgs) (f trace.Filter, err error) {
	f = trace.Filter{State: trace.State(args.State), Agent: args.Agent, Model: args.Model, TaskStatus: args.TaskStatus, Made: true}
	switch f.State {
	case "", trace.StateIdle, trace.StateRunning, trace.StateWaiting:
	default:
		return f, &schemas.Error{Code: schemas.CodeInvalid, Field: "state", Message: "state must be idle, running or waiting"}
	}
	for _, status := range f.TaskStatus {
		if !slices.Contains(schemas.StopReasons(), status) {
			return f, &schemas.Error{Code: schemas.CodeInvalid, Field: "task_status", Message: fmt.Sprintf("task_status is none of %v", schemas.StopReasons())}
		}
	}
	if f.CreatedSince, err = parseTime("created_since", args.CreatedSince); err == nil {
		f.CreatedUntil, err = parseTime("created_until", args.CreatedUntil)
	}
	return f, err
}

// parseTime reads an argument that is an RFC 3339 time; an empty one is the zero time.
func parseTime(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, &schemas.Error{Code: schemas.CodeInvalid, Field: field, Message: field + " must be a time such as 2006-01-02T15:04:05Z"}
	}
	return t, nil
}

// maxUsageRows is how many rows an answer about usage may have: a row a day and model.
const maxUsageRows = 20_000

// answerUsage answers what a project used, or one session if the question names one.
func (r *Reader) answerUsage(ctx context.Context, q bus.Query) (any, error) {
	var args bus.UsageArgs
	if err := q.DecodeArgs(&args); err != nil {
		return nil, err
	}
	var from trace.Day
	to, err := parseDay("to", args.To)
	if err == nil && args.From != "" {
		from, err = parseDay("from", args.From)
	}
	if err != nil {
		return nil, err
	}
	var rows []trace.UsageRow
	if q.Session == "" {
		rows, err = r.store.Usage(ctx, q.Project, from, to)
	} else {
		rows, err = r.store.SessionUsage(ctx, q.Ref(), from, to)
	}
	switch {
	case err != nil:
		return nil, err
	case len(rows) > maxUsageRows:
		return nil, schemas.Errorf(schemas.CodeTooLarge, "that is %d rows, the limit is %d: ask for fewer days", len(rows), maxUsageRows)
	}
	table := bus.UsageTable{Rows: make([]bus.UsageRow, 0, len(rows))}
	for _, row := range rows {
		table.Rows = append(table.Rows, bus.UsageRow{Day: row.Day.String(), Model: row.Model, Requests: row.Requests, Tokens: row.Tokens})
	}
	return table, nil
}

// parseDay reads an argument that is a day in UTC.
func parseDay(field, text string) (trace.Day, error) {
	d, err := trace.ParseDay(text)
	if err != nil {
		return d, &schemas.Error{Code: schemas.CodeInvalid, Field: field, Message: field + " must be a day such as 2006-01-02"}
	}
	return d, nil
}

// ListModels lists the models that the providers of a catalog tell of, and those that have a price.
func ListModels(models *llm.Catalog, prices Prices) bus.ModelList {
	names := slices.Concat(models.Models(), slices.Collect(maps.Keys(prices)))
	slices.Sort(names)
	list := bus.ModelList{Models: []bus.ModelInfo{}, Providers: models.Providers()}
	for _, name := range slices.Compact(names) {
		provider, _, err := schemas.SplitModel(name)
		if err != nil || !slices.Contains(list.Providers, provider) {
			continue // a price of what nobody serves
		}
		info := bus.ModelInfo{Name: name}
		if p, ok := prices[name]; ok {
			info.Price = &bus.ModelPrice{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite}
		}
		list.Models = append(list.Models, info)
	}
	return list
}
