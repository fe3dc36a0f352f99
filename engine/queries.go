package engine

import (
	"context"
	"strings"
	"time"

	"braid/bus"
	"braid/schemas"
	"braid/trace"
)

// This file answers questions about sessions from the trace, once it has seen what the asker has.

// An answer is a page, so that it fits one broker message: of messages, of their bytes as JSON, of
// sessions, or of failures.
const (
	pageMessages = 500
	pageBytes    = 512 << 10
	pageSessions = 500
	pageFailures = 500
)

// catchUp is how long answering a question may take, the wait included for the trace to have seen what
// the asker has.
const catchUp = 5 * time.Second

// answer answers one question about sessions from the trace.
func (r *Reader) answer(ctx context.Context, q bus.Query) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	switch {
	case q.Op == bus.QuerySessions:
		return r.answerSessions(ctx, q)
	case q.Op == bus.QueryModels:
		return ListModels(r.models, r.prices), nil
	case q.Op == bus.QueryFailures:
		return r.answerFailures(ctx, q)
	case q.Op == bus.QueryUsage && q.Session == "":
		return r.answerUsage(ctx, q)
	}
	if err := q.Ref().Validate(); err != nil {
		return nil, err
	}
	if q.Op == bus.QueryOutcome {
		return r.answerOutcome(ctx, q)
	}
	if err := r.projector.await(ctx, q.Ref(), q.LeastSequence); err != nil {
		return nil, err
	}
	switch q.Op {
	case bus.QuerySession:
		return r.answerSession(q)
	case bus.QueryMessages:
		return r.answerMessages(ctx, q)
	case bus.QueryExport:
		return r.answerExport(ctx, q)
	case bus.QueryUsage:
		return r.answerUsage(ctx, q)
	case bus.QueryOutcome, bus.QuerySessions, bus.QueryModels, bus.QueryFailures: // answered above
	}
	return nil, schemas.Errorf(schemas.CodeInvalid, "no question is called %q", q.Op)
}

// answerOutcome looks a command's outcome up. A command is not in the trace before it has one, so
// the asker's least sequence, which is the command's own, can't be waited for: the asker asks
// again.
func (r *Reader) answerOutcome(ctx context.Context, q bus.Query) (any, error) {
	var args bus.OutcomeArgs
	if err := q.DecodeArgs(&args); err != nil {
		return nil, err
	}
	if err := schemas.ValidateName("command_id", args.CommandID); err != nil {
		return nil, err
	}
	o, found, err := r.store.Outcome(q.Ref(), args.CommandID)
	if err != nil {
		return nil, err
	}
	if found {
		return o, nil
	}
	return r.unrecordedOutcome(ctx, q, args.CommandID)
}

// unrecordedOutcome is the outcome of a command on a session that does not exist, which has no
// log to record one in; it follows from the commands alone.
func (r *Reader) unrecordedOutcome(ctx context.Context, q bus.Query, id string) (any, error) {
	notYet := schemas.Errorf(schemas.CodeNotFound, "command %s has no outcome yet", id)
	claim, claimed, err := r.conn.LastClaim(ctx, q.Ref())
	if err != nil || q.LeastSequence == 0 {
		return nil, notYet
	}
	o := schemas.Outcome{CommandID: id, Sequence: q.LeastSequence}
	if claimed {
		if claim.State != bus.ClaimDeleted {
			return nil, notYet
		}
		o.Code, o.Message = schemas.CodeDeleted, "session "+q.Session+" was deleted"
		return o, nil
	}
	commands, err := r.conn.ReadCommands(ctx, q.Ref(), 0, q.LeastSequence)
	if err != nil {
		return nil, notYet
	}
	for _, c := range commands {
		if c.Type.Creates() {
			return nil, notYet
		}
	}
	o.Code, o.Message = schemas.CodeUnknownSession, "there is no session "+q.Session
	return o, nil
}

func (r *Reader) answerSessions(ctx context.Context, q bus.Query) (any, error) {
	var args bus.SessionsArgs
	if err := q.DecodeArgs(&args); err != nil {
		return nil, err
	}
	limit := args.Limit
	if limit <= 0 || limit > pageSessions {
		limit = pageSessions
	}
	filter, err := filterOf(args)
	if err != nil {
		return nil, err
	}
	if args.Current {
		if err := r.projector.awaitNow(ctx); err != nil {
			return nil, err
		}
	}
	found, err := r.store.Sessions(ctx, q.Project, filter, trace.Paging{Limit: limit, Cursor: args.Cursor})
	if err != nil {
		return nil, err
	}
	page := bus.SessionsPage{Sessions: make([]bus.SessionInfo, 0, len(found.Sessions)), Next: found.Next}
	for _, s := range found.Sessions {
		page.Sessions = append(page.Sessions, r.info(s))
	}
	return page, nil
}

func (r *Reader) answerSession(q bus.Query) (any, error) {
	s, err := r.session(q)
	if err != nil {
		return nil, err
	}
	return r.info(s), nil
}

// session is what the trace knows of the session that a question is about. Commands find no session
// whose making was refused, and so do questions.
func (r *Reader) session(q bus.Query) (trace.SessionInfo, error) {
	s, found, err := r.store.Session(q.Ref())
	if err == nil && (!found || !s.Made()) {
		err = schemas.Errorf(schemas.CodeUnknownSession, "there is no session %s", q.Session)
	}
	return s, err
}

// info is a trace's description of a session as it travels.
func (r *Reader) info(s trace.SessionInfo) bus.SessionInfo {
	out := bus.SessionInfo{
		Session: s.Session, Agent: s.Agent, Model: s.Model, FallbackModels: s.FallbackModels, ActiveModel: s.ActiveModel, State: bus.SessionState(s.State),
		TaskStatus: s.TaskStatus, TaskCause: s.TaskCause,
		Created: schemas.FormatTime(s.Created), LastActivity: schemas.FormatTime(s.LastActivity),
		Title: s.Title, Tasks: int(s.Tasks), Turns: int(s.Turns), TotalTokens: s.Usage.Total, TotalCostUSD: s.Usage.CostUSD,
		ApprovalMode: s.Mode, Limits: s.Limits.WithDefaults(), ApprovalTimeoutMS: s.ApprovalTimeoutMS,
		Epoch: s.Head.Epoch, LastSequence: s.Head.Sequence,
	}
	for _, p := range s.Pending {
		out.Pending = append(out.Pending, bus.PendingFor(p.Request))
	}
	for _, q := range s.Queue {
		out.Queue = append(out.Queue, bus.QueuedTask{TaskID: q.TaskID, Prompt: beginning(q.Task.PromptText()), Steers: q.Steers})
	}
	return out
}

// beginning is what lists show of a text: about its first 120 bytes, cut between characters.
func beginning(text string) string {
	const most = 120
	for i := range text {
		if i >= most {
			return text[:i]
		}
	}
	return text
}

func (r *Reader) answerMessages(ctx context.Context, q bus.Query) (any, error) {
	var args bus.MessagesArgs
	if err := q.DecodeArgs(&args); err != nil {
		return nil, err
	}
	page, err := r.page(ctx, q, args.After, args.Limit)
	if err != nil {
		return nil, err
	}
	out := bus.MessagesPage{Messages: make([]bus.PositionedMessage, 0, len(page.Entries)), More: page.More, Epoch: page.Head.Epoch}
	for _, entry := range page.Entries {
		out.Messages = append(out.Messages, bus.PositionedMessage{Position: entry.Position, Message: entry.Message})
	}
	return out, nil
}

func (r *Reader) answerExport(ctx context.Context, q bus.Query) (any, error) {
	var args bus.ExportArgs
	if err := q.DecodeArgs(&args); err != nil {
		return nil, err
	}
	page, err := r.page(ctx, q, args.After, 0)
	if err != nil {
		return nil, err
	}
	var lines strings.Builder
	for _, entry := range page.Entries {
		line, err := schemas.Encode(entry.Message)
		if err != nil {
			return nil, err
		}
		lines.Write(line)
		lines.WriteByte('\n')
	}
	return bus.ExportPage{Lines: lines.String(), Next: page.Next, More: page.More}, nil
}

// page reads a page of a session's messages after a position; limit 0 means as many as a page holds.
func (r *Reader) page(ctx context.Context, q bus.Query, after schemas.Position, limit int) (trace.Page, error) {
	if _, err := r.session(q); err != nil {
		return trace.Page{}, err
	}
	if limit <= 0 || limit > pageMessages {
		limit = pageMessages
	}
	return r.store.Messages(ctx, q.Ref(), after, trace.Limit{Messages: limit, Bytes: pageBytes})
}
