package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"braid/bus"
	"braid/schemas"
)

// natsTransport reaches engines through the broker, as a gateway does.
type natsTransport struct {
	conn    *bus.Conn
	project string
}

const (
	commandWait = 10 * time.Second // for a command's outcome
	queryWait   = 5 * time.Second  // for an answer to a question
	traceStored = 5 * time.Minute  // for a trace to be stored
	traceWait   = 25 * time.Second // for it to be appended
	pageSize    = 200
)

// NATS reaches a project's sessions straight over the broker, without a gateway. The connection
// stays the caller's, who closes it when nobody watches any more. Whoever may use the broker may use
// every session.
func NATS(conn *bus.Conn, project string) Transport {
	return &natsTransport{conn: conn, project: project}
}

func (t *natsTransport) close() {}

func (t *natsTransport) ref(id string) schemas.SessionRef {
	return schemas.SessionRef{Project: t.project, ID: id}
}

func (t *natsTransport) send(ctx context.Context, cmd schemas.Command) (accepted, error) {
	return t.sendWithin(ctx, cmd, commandWait)
}

func (t *natsTransport) sendWithin(ctx context.Context, cmd schemas.Command, wait time.Duration) (accepted, error) {
	cmd.Session.Project = t.project
	outcome, _, err := t.conn.SendAndWait(ctx, cmd, wait)
	if err == nil {
		err = outcome.Err()
	}
	if err != nil {
		return accepted{}, fmt.Errorf("%s: %w", cmd.Type, err)
	}
	a := accepted{CommandID: cmd.ID, Taken: outcome.Taken}
	if at := outcome.Cursor(t.conn.Epoch(cmd.Session)); !at.IsZero() {
		a.Cursor = at.String()
	}
	return a, nil
}

// importTrace stores the trace first: it is too large for a command.
func (t *natsTransport) importTrace(ctx context.Context, cmd schemas.Command, trace []byte) error {
	cmd.Session.Project = t.project
	storing, cancel := context.WithTimeout(ctx, traceStored)
	defer cancel()
	name, err := t.conn.PutTrace(storing, cmd.Session, bytes.NewReader(trace))
	if err != nil {
		return fmt.Errorf("store the trace: %w", err)
	}
	body := *cmd.Import
	body.Trace, cmd.Import = name, &body
	_, err = t.sendWithin(ctx, cmd, traceWait)
	return err
}

// ends are where a session's stream ends.
func (t *natsTransport) ends(ctx context.Context, ref schemas.SessionRef) (bus.Ends, error) {
	ends, err := t.conn.KnownEnds(ctx, ref)
	if err != nil {
		return ends, fmt.Errorf("find the session: %w", err)
	}
	return ends, nil
}

// describe asks for a session, with an answer that has seen everything recorded until now.
func (t *natsTransport) describe(ctx context.Context, ref schemas.SessionRef) (bus.SessionInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, queryWait)
	defer cancel()
	info, err := t.conn.DescribeSession(ctx, ref)
	if err != nil {
		return info, fmt.Errorf("describe the session: %w", err)
	}
	return info, nil
}

func (t *natsTransport) info(ctx context.Context, id string) (Info, error) {
	info, err := t.describe(ctx, t.ref(id))
	if err != nil {
		return Info{}, err
	}
	return infoOf(info), nil
}

func infoOf(i bus.SessionInfo) Info {
	return Info{
		ID: i.Session.ID, Model: i.Model, FallbackModels: i.FallbackModels, ActiveModel: i.ActiveModel, Agent: i.Agent,
		State: i.Activity().State(), TaskStatus: i.TaskStatus, TaskCause: i.TaskCause, Title: i.Title, Created: i.Created, LastActivity: i.LastActivity,
		Tasks: i.Tasks, Turns: i.Turns, TotalTokens: i.TotalTokens, TotalCostUSD: i.TotalCostUSD,
		ApprovalMode: i.ApprovalMode, ApprovalTimeoutMS: i.ApprovalTimeoutMS, Limits: i.Limits,
		Pending: i.Pending, Queue: i.Queue, LastSequence: i.LastSequence,
	}
}

func (t *natsTransport) history(ctx context.Context, id, after string) (historyPage, error) {
	ref := t.ref(id)
	at, err := parseTurnCursor(after)
	if err != nil {
		return historyPage{}, err
	}
	epoch := t.conn.Epoch(ref)
	if after != "" && at.Epoch != epoch {
		return historyPage{}, &schemas.Error{Code: schemas.CodeConflict, Field: "after", Message: "the cursor belongs to an earlier incarnation of the stream: start from the beginning"}
	}
	ctx, cancel := context.WithTimeout(ctx, queryWait)
	defer cancel()
	ends, err := t.ends(ctx, ref)
	if err != nil {
		return historyPage{}, err
	}
	found, err := t.conn.AskMessages(ctx, ref, ends.Log, bus.MessagesArgs{After: at.Position, Limit: pageSize})
	if err != nil {
		return historyPage{}, fmt.Errorf("read the history: %w", err)
	}
	page := historyPage{More: found.More && len(found.Messages) > 0}
	end := schemas.Behind(ends.Log)
	for _, m := range found.Messages {
		if page.More = page.More && m.Position.Compare(end) <= 0; m.Position.Compare(end) > 0 {
			break
		}
		page.Next = schemas.Cursor{Epoch: epoch, Position: m.Position}.String()
		if m.Message.Shown(true) {
			page.Messages = append(page.Messages, historyMessage{ID: page.Next, Message: m.Message})
		}
	}
	if !page.More {
		page.Cursor = schemas.Cursor{Epoch: epoch, Position: end}.String()
	}
	return page, nil
}

func (t *natsTransport) export(ctx context.Context, id string, w io.Writer) error {
	ref := t.ref(id)
	ends, err := t.ends(ctx, ref)
	if err != nil {
		return err
	}
	for after := (schemas.Position{}); ; {
		page, err := t.exportPage(ctx, ref, ends.Log, after)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, page.Lines); err != nil {
			return fmt.Errorf("write the trace: %w", err)
		}
		if !page.More {
			return nil
		}
		after = page.Next
	}
}

func (t *natsTransport) exportPage(ctx context.Context, ref schemas.SessionRef, least uint64, after schemas.Position) (bus.ExportPage, error) {
	ctx, cancel := context.WithTimeout(ctx, queryWait)
	defer cancel()
	page, err := t.conn.AskExport(ctx, ref, least, bus.ExportArgs{After: after})
	if err != nil {
		return page, fmt.Errorf("read the trace: %w", err)
	}
	return page, nil
}

func (t *natsTransport) watch(ctx context.Context, id string, w watch) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		n := &natsWatcher{transport: t, ref: t.ref(id), watch: w, yield: yield}
		run := n.stream
		if w.turns {
			run = n.turns
		}
		if err := run(ctx); err != nil && !n.left {
			yield(nil, err)
		}
	}
}
