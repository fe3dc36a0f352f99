package gateway

import (
	"context"
	"net/http"
	"time"

	"braid/bus"
	"braid/schemas"
)

// This file answers what is asked of the project as a whole.

// sessionsView is a page of sessions.
type sessionsView struct {
	Sessions []sessionView `json:"sessions"`
	Next     string        `json:"next,omitzero"`
}

// listSessions lists the sessions that the parameters want.
func (g *Gateway) listSessions(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	limit, err := pageLimit(values, usualSessions, mostSessions)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), g.o.QueryWait)
	defer cancel()
	page, err := g.conn.AskSessions(ctx, g.o.Project, bus.SessionsArgs{
		Limit: limit, Cursor: values.Get("cursor"),
		State: bus.SessionState(values.Get("state")), Agent: values.Get("agent"), Model: values.Get("model"),
		TaskStatus:   listParameter[schemas.StopReason](values.Get("task_status")),
		CreatedSince: values.Get("created_since"), CreatedUntil: values.Get("created_until"),
		Current: true, // else whoever is told of changes may have listed what was before them
	})
	if err != nil {
		return readFailed(err)
	}
	views := make([]sessionView, 0, len(page.Sessions))
	for _, info := range page.Sessions {
		views = append(views, viewOf(info))
	}
	writeJSON(w, http.StatusOK, sessionsView{views, page.Next})
	return nil
}

// listFailures lists what failed, as far as the parameters want it.
func (g *Gateway) listFailures(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	limit, err := pageLimit(values, usualFailures, mostFailures)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), g.o.QueryWait)
	defer cancel()
	page, err := g.conn.AskFailures(ctx, g.o.Project, bus.FailuresArgs{
		Limit: limit, Cursor: values.Get("cursor"), Kinds: listParameter[bus.FailureKind](values.Get("kind")), Since: values.Get("since"), Current: true,
	})
	if err != nil {
		return readFailed(err)
	}
	writeJSON(w, http.StatusOK, page)
	return nil
}

// showUsage tells what the project used, or one session.
func (g *Gateway) showUsage(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	ref := schemas.SessionRef{Project: g.o.Project, ID: values.Get("session")}
	if values.Has("session") {
		if err := schemas.ValidateName("session", ref.ID); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), g.o.QueryWait)
	defer cancel()
	report, err := g.conn.ReportUsage(ctx, ref, bus.UsageArgs{From: values.Get("from"), To: values.Get("to")}, time.Now())
	if err != nil {
		return readFailed(err)
	}
	writeJSON(w, http.StatusOK, report)
	return nil
}

// listModels tells what sessions may run on, as far as one engine knows.
func (g *Gateway) listModels(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), g.o.QueryWait)
	defer cancel()
	list, err := g.conn.AskModels(ctx, g.o.Project)
	if err != nil {
		return readFailed(err)
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}

// toolsView are the tools that toolrunners offer.
type toolsView struct {
	Tools     []schemas.ToolDefinition `json:"tools"`
	Conflicts []conflictView           `json:"conflicts,omitzero"`
}

// conflictView is a tool that two toolrunners define differently.
type conflictView struct {
	Tool    string `json:"tool"`
	Used    string `json:"used"`
	Ignored string `json:"ignored"`
}

// listTools tells what tools the project's sessions have now.
func (g *Gateway) listTools(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), g.o.QueryWait)
	defer cancel()
	tools, conflicts, err := g.conn.Tools(ctx, g.o.Project, nil)
	if err != nil {
		return readFailed(err)
	}
	view := toolsView{Tools: tools}
	for _, c := range conflicts {
		view.Conflicts = append(view.Conflicts, conflictView{Tool: c.Name, Used: c.Used, Ignored: c.Ignored})
	}
	writeJSON(w, http.StatusOK, view)
	return nil
}
