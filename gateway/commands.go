package gateway

import (
	"net/http"
	"time"

	"braid/bus"
	"braid/schemas"
)

// createRequest is the body of POST /v1/sessions.
type createRequest struct {
	// ID names the session; one is made up if it is empty.
	ID string `json:"id,omitzero"`
	// Model may be left to the agent.
	Model string `json:"model,omitzero"`
	// FallbackModels go on with a task that Model can't, in this order.
	FallbackModels []string             `json:"fallback_models,omitzero"`
	Tools          []string             `json:"tools,omitzero"`
	ApprovalMode   schemas.ApprovalMode `json:"approval_mode,omitzero"`
	SystemPrompt   string               `json:"system_prompt,omitzero"`
	Workspace      string               `json:"workspace,omitzero"`
	Agent          string               `json:"agent,omitzero"`
	Limits         schemas.Limits       `json:"limits,omitzero"`
	// ApprovalTimeoutMS is how long a tool call waits for a decision; 0: without end.
	ApprovalTimeoutMS int64 `json:"approval_timeout_ms,omitzero"`
}

// decisionRequest is the body of POST /v1/sessions/{id}/approvals/{call}.
type decisionRequest struct {
	Decision schemas.Decision `json:"decision"`
	Hash     string           `json:"hash,omitzero"`
}

// setRequest is the body of PATCH /v1/sessions/{id}.
type setRequest struct {
	ApprovalMode schemas.ApprovalMode `json:"approval_mode,omitzero"`
}

// abortRequest is the body of POST /v1/sessions/{id}/abort; it may be left out.
type abortRequest struct {
	Reason string `json:"reason,omitzero"`
	// DropQueue takes back every task that waits as well.
	DropQueue bool `json:"drop_queue,omitzero"`
}

// createdView answers who creates a session.
type createdView struct {
	CommandID string      `json:"command_id"`
	Session   sessionView `json:"session"`
}

// accepted answers a command that was applied.
type accepted struct {
	CommandID string `json:"command_id"`
	Session   string `json:"session"`
	// Cursor is where to start watching to see everything the command brings about.
	Cursor string `json:"cursor,omitzero"`
	// Taken says what became of a prompt.
	Taken schemas.Taken `json:"taken,omitzero"`
	// Result is what the task came to, if that was waited for.
	Result *schemas.TurnEvent `json:"result,omitzero"`
}

// apply sends a command and waits for its outcome; a refusal is an error.
func (g *Gateway) apply(r *http.Request, cmd schemas.Command) (schemas.Outcome, error) {
	outcome, _, err := g.sendAndWait(r, cmd, g.o.CommandWait)
	if err != nil {
		return outcome, err
	}
	return outcome, outcome.Err()
}

// sendAndWait sends a command and waits for its outcome, unless too many are waited for already.
func (g *Gateway) sendAndWait(r *http.Request, cmd schemas.Command, wait time.Duration) (schemas.Outcome, bus.Receipt, error) {
	leave, err := g.waiting.enter(cmd.Session)
	if err != nil {
		return schemas.Outcome{}, bus.Receipt{}, err
	}
	defer leave()
	return g.conn.SendAndWait(r.Context(), cmd, wait)
}

// accept sends a command and answers 202 once it is applied.
func (g *Gateway) accept(w http.ResponseWriter, r *http.Request, cmd schemas.Command) error {
	answer, _, err := g.applied(w, r, cmd)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusAccepted, answer)
	return nil
}

// applied sends a command, and describes it once it is applied.
func (g *Gateway) applied(w http.ResponseWriter, r *http.Request, cmd schemas.Command) (accepted, schemas.Outcome, error) {
	id, _, err := commandID(w, r)
	if err != nil {
		return accepted{}, schemas.Outcome{}, err
	}
	cmd.ID = id
	outcome, err := g.apply(r, cmd)
	if err != nil {
		return accepted{}, outcome, err
	}
	answer := accepted{CommandID: id, Session: cmd.Session.ID, Taken: outcome.Taken}
	if at := outcome.Cursor(g.conn.Epoch(cmd.Session)); !at.IsZero() {
		answer.Cursor = at.String()
	}
	return answer, outcome, nil
}

func (g *Gateway) createSession(w http.ResponseWriter, r *http.Request) error {
	var body createRequest
	if err := readBody(w, r, &body, false); err != nil {
		return err
	}
	id, _, err := commandID(w, r)
	if err != nil {
		return err
	}
	body.ID = newSessionID(body.ID, id)
	if err := schemas.ValidateName("id", body.ID); err != nil {
		return err
	}
	ref := schemas.SessionRef{Project: g.o.Project, ID: body.ID}
	outcome, err := g.apply(r, schemas.Command{
		ID: id, Type: schemas.CommandCreate, Session: ref,
		Create: &schemas.CreateBody{
			Model: body.Model, FallbackModels: body.FallbackModels, Agent: body.Agent, SystemPrompt: body.SystemPrompt,
			ApprovalMode: body.ApprovalMode, Workspace: body.Workspace, Limits: body.Limits,
			ApprovalTimeoutMS: body.ApprovalTimeoutMS, Tools: body.Tools,
		},
	})
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/sessions/"+ref.ID)
	writeJSON(w, http.StatusCreated, createdView{id, g.created(r, ref, body, outcome.Log)})
	return nil
}

func (g *Gateway) decide(w http.ResponseWriter, r *http.Request) error {
	ref, err := g.session(r)
	if err != nil {
		return err
	}
	call := r.PathValue("call")
	if err := schemas.ValidateName("tool_call_id", call); err != nil {
		return err
	}
	var body decisionRequest
	if err := readBody(w, r, &body, false); err != nil {
		return err
	}
	return g.accept(w, r, schemas.Command{
		Type: schemas.CommandApprove, Session: ref,
		Approve: &schemas.ApproveBody{ToolCallID: call, Decision: body.Decision, Hash: body.Hash},
	})
}

func (g *Gateway) abort(w http.ResponseWriter, r *http.Request) error {
	ref, err := g.session(r)
	if err != nil {
		return err
	}
	var body abortRequest
	if err := readBody(w, r, &body, true); err != nil {
		return err
	}
	return g.accept(w, r, schemas.Command{
		Type: schemas.CommandAbort, Session: ref, Abort: &schemas.AbortBody{Reason: body.Reason, DropQueue: body.DropQueue},
	})
}

func (g *Gateway) changeSession(w http.ResponseWriter, r *http.Request) error {
	ref, err := g.session(r)
	if err != nil {
		return err
	}
	var body setRequest
	if err := readBody(w, r, &body, false); err != nil {
		return err
	}
	return g.accept(w, r, schemas.Command{
		Type: schemas.CommandSet, Session: ref, Set: &schemas.SetBody{ApprovalMode: body.ApprovalMode},
	})
}

func (g *Gateway) retryNow(w http.ResponseWriter, r *http.Request) error {
	ref, err := g.session(r)
	if err != nil {
		return err
	}
	if err := readBody(w, r, &struct{}{}, true); err != nil {
		return err
	}
	return g.accept(w, r, schemas.Command{Type: schemas.CommandRetryNow, Session: ref})
}
