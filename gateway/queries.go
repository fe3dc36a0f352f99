package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"braid/bus"
	"braid/schemas"
)

// sessionView is a session on the wire.
type sessionView struct {
	ID          string           `json:"id"`
	Model       string           `json:"model,omitzero"`
	Fallbacks   []string         `json:"fallback_models,omitzero"`
	ActiveModel string           `json:"active_model,omitzero"`
	Agent       string           `json:"agent,omitzero"`
	State       bus.SessionState `json:"state"`
	// TaskStatus and TaskCause are how the last task ended, if one has.
	TaskStatus   schemas.StopReason    `json:"task_status,omitzero"`
	TaskCause    string                `json:"task_cause,omitzero"`
	Title        string                `json:"title,omitzero"`
	Created      string                `json:"created,omitzero"`
	LastActivity string                `json:"last_activity,omitzero"`
	Tasks        int                   `json:"tasks"`
	Turns        int                   `json:"turns"`
	TotalTokens  int64                 `json:"total_tokens"`
	TotalCostUSD schemas.USD           `json:"total_cost_usd,omitzero"`
	Pending      []bus.PendingApproval `json:"pending"`
	// ApprovalMode and Limits are in force, defaults filled in.
	ApprovalMode schemas.ApprovalMode `json:"approval_mode,omitzero"`
	// ApprovalTimeoutMS is how long a call waits for a decision; 0: without end.
	ApprovalTimeoutMS int64          `json:"approval_timeout_ms"`
	Limits            schemas.Limits `json:"limits,omitzero"`
	// Queue are the tasks that wait, in order.
	Queue []bus.QueuedTask `json:"queue"`
	// LastSequence is that of the last frame the description knows of: it grows with every change.
	LastSequence uint64 `json:"last_sequence,omitzero"`
}

// shownView answers who asks for one session.
type shownView struct {
	Session sessionView `json:"session"`
}

func viewOf(info bus.SessionInfo) sessionView {
	v := sessionView{
		ID: info.Session.ID, Model: info.Model, Fallbacks: info.FallbackModels, ActiveModel: info.ActiveModel, Agent: info.Agent, State: info.Activity().State(),
		TaskStatus: info.TaskStatus, TaskCause: info.TaskCause, Title: info.Title, Created: info.Created, LastActivity: info.LastActivity,
		Tasks: info.Tasks, Turns: info.Turns, TotalTokens: info.TotalTokens, TotalCostUSD: info.TotalCostUSD,
		Pending: info.Pending, Queue: info.Queue,
		ApprovalMode: info.ApprovalMode, ApprovalTimeoutMS: info.ApprovalTimeoutMS, Limits: info.Limits, LastSequence: info.LastSequence,
	}
	if v.Queue == nil {
		v.Queue = []bus.QueuedTask{}
	}
	if v.Pending == nil {
		v.Pending = []bus.PendingApproval{}
	}
	return v
}

// created describes a session that was just created, or long ago if the request is a repeat. If
// no engine answers it is described by what is known for certain.
func (g *Gateway) created(r *http.Request, ref schemas.SessionRef, body createRequest, log uint64) sessionView {
	ctx, cancel := context.WithTimeout(r.Context(), g.o.QueryWait)
	defer cancel()
	info, err := g.conn.AskSession(ctx, ref, log)
	if err != nil {
		info = bus.SessionInfo{Session: ref, Model: body.Model, FallbackModels: body.FallbackModels, Agent: body.Agent}
	}
	return viewOf(info)
}

// Sizes of pages: what is usual, and the most.
const (
	usualSessions, mostSessions = 50, 500
	usualFailures, mostFailures = 50, 500
	usualMessages, mostMessages = 200, 1000
)

func (g *Gateway) showSession(w http.ResponseWriter, r *http.Request) error {
	ref, err := g.session(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), g.o.QueryWait)
	defer cancel()
	info, err := describe(ctx, g.conn, ref)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, shownView{viewOf(info)})
	return nil
}

// messageView is a message of the history. ID is what the stream gives the same message.
type messageView struct {
	ID      string          `json:"id"`
	Message schemas.Message `json:"message"`
}

// messagesView is a page of history. The last page also has what the history does not hold: the
// beginnings of messages that are not complete, and the cursor at which all of this holds. A
// stream from that cursor continues the messages and the partials without loss or repeat.
type messagesView struct {
	Messages []messageView `json:"messages"`
	More     bool          `json:"more"`
	// Next is the "after" of the next page, if there is one.
	Next string `json:"next,omitzero"`

	Partials []schemas.Message     `json:"partials,omitempty"`
	Cursor   string                `json:"cursor,omitzero"`
	State    bus.SessionState      `json:"state,omitzero"`
	Pending  []bus.PendingApproval `json:"pending,omitempty"`
}

func (g *Gateway) showMessages(w http.ResponseWriter, r *http.Request) error {
	ref, err := g.session(r)
	if err != nil {
		return err
	}
	values := r.URL.Query()
	limit, err := pageLimit(values, usualMessages, mostMessages)
	if err != nil {
		return err
	}
	after, err := cursorParameter("after", values.Get("after"))
	if err != nil {
		return err
	}
	h, release, err := g.follow(r.Context(), ref)
	if err != nil {
		return err
	}
	defer release()
	if !after.IsZero() && after.Epoch != h.epoch {
		return &schemas.Error{Code: schemas.CodeConflict, Field: "after", Message: "the cursor belongs to an earlier incarnation of the stream: start from the beginning"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), g.o.QueryWait)
	defer cancel()
	view, err := g.history(ctx, h, after.Position, limit)
	if err != nil {
		return readFailed(err)
	}
	writeJSON(w, http.StatusOK, view)
	return nil
}

// history joins a page of the trace with the live tail: first the tail, at some position, then
// the trace up to that position and no further.
func (g *Gateway) history(ctx context.Context, h *hub, after schemas.Position, limit int) (messagesView, error) {
	tail := h.tail()
	end := tail.cursor.Position
	view := messagesView{Messages: []messageView{}}
	view.More = true
	// A page of the trace may hold nothing but what clients are not shown.
	for view.More && len(view.Messages) == 0 {
		page, err := g.conn.AskMessages(ctx, h.ref, tail.log, bus.MessagesArgs{After: after, Limit: limit})
		if err != nil {
			return view, err
		}
		view.More = page.More && len(page.Messages) > 0
		for _, m := range page.Messages {
			if m.Position.Compare(end) > 0 {
				view.More = false
				break
			}
			after = m.Position
			if m.Message.Shown(true) {
				id := schemas.Cursor{Epoch: h.epoch, Position: m.Position}.String()
				view.Messages = append(view.Messages, messageView{ID: id, Message: m.Message})
			}
		}
	}
	if view.More {
		view.Next = schemas.Cursor{Epoch: h.epoch, Position: after}.String()
		return view, nil
	}
	view.Partials = tail.partials
	state := viewOfActivity(tail.state, tail.cursor)
	view.Cursor, view.State, view.Pending = state.Cursor, state.State, state.Pending
	return view, nil
}

func (g *Gateway) exportTrace(w http.ResponseWriter, r *http.Request) error {
	ref, err := g.session(r)
	if err != nil {
		return err
	}
	ends, err := g.ends(r.Context(), ref)
	if err != nil {
		return err
	}
	page, err := g.tracePage(r.Context(), ref, ends, schemas.Position{})
	if err != nil {
		return err
	}
	out, err := newEventWriter(w, g.o.WriteTimeout)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", mediaLines)
	w.WriteHeader(http.StatusOK)
	for {
		if err := out.send([]byte(page.Lines)); err != nil {
			panic(http.ErrAbortHandler) // the client must not take a part for the whole
		}
		if !page.More {
			return nil
		}
		if page, err = g.tracePage(r.Context(), ref, ends, page.Next); err != nil {
			g.log.Warn().Err(err).Stringer("session", ref).Msg("an export is cut off")
			panic(http.ErrAbortHandler)
		}
	}
}

// ends is the sequence of the session's last recorded frame.
func (g *Gateway) ends(ctx context.Context, ref schemas.SessionRef) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, g.o.QueryWait)
	defer cancel()
	ends, err := g.conn.KnownEnds(ctx, ref)
	return ends.Log, readFailed(err)
}

func (g *Gateway) tracePage(ctx context.Context, ref schemas.SessionRef, least uint64, after schemas.Position) (bus.ExportPage, error) {
	ctx, cancel := context.WithTimeout(ctx, g.o.QueryWait)
	defer cancel()
	page, err := g.conn.AskExport(ctx, ref, least, bus.ExportArgs{After: after})
	return page, readFailed(err)
}

// probeView answers probes.
type probeView struct {
	Status string `json:"status"`
}

// health says that the process answers, nothing more.
func (g *Gateway) health(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, probeView{"ok"})
	return nil
}

// readiness remembers the last check, since anybody may ask and each check asks an engine.
type readiness struct {
	sync.Mutex
	checked time.Time
	err     error
}

const (
	readyFor  = time.Second
	readyWait = 2 * time.Second
)

// readyz says whether the broker is reached and an engine answers.
func (g *Gateway) readyz(w http.ResponseWriter, _ *http.Request) error {
	if err := g.checkReady(); err != nil {
		return readFailed(err)
	}
	writeJSON(w, http.StatusOK, probeView{"ready"})
	return nil
}

func (g *Gateway) checkReady() error {
	g.ready.Lock()
	defer g.ready.Unlock()
	if !g.ready.checked.IsZero() && time.Since(g.ready.checked) < readyFor {
		return g.ready.err
	}
	ctx, cancel := context.WithTimeout(g.stopping, readyWait)
	defer cancel()
	var err error
	switch {
	case g.stopping.Err() != nil:
		err = errStopping
	case !g.conn.Connected():
		err = schemas.Errorf(schemas.CodeUnavailable, "the broker can't be reached")
	default:
		_, err = g.conn.AskSessions(ctx, g.o.Project, bus.SessionsArgs{Limit: 1})
	}
	g.ready.checked, g.ready.err = time.Now(), err
	return err
}
