package gateway

import (
	"net/http"

	"braid/schemas"
)

// This file serves the definitions of agents. They are kept by the broker; no engine is asked.

// agentRequest is the body of PUT /v1/agents/{name}: an agent, whose name is in the path.
type agentRequest struct {
	// Name may be left out.
	Name              string               `json:"name,omitzero"`
	Model             string               `json:"model"`
	FallbackModels    []string             `json:"fallback_models,omitzero"`
	SystemPrompt      string               `json:"system_prompt,omitzero"`
	Tools             []string             `json:"tools,omitzero"`
	ApprovalMode      schemas.ApprovalMode `json:"approval_mode,omitzero"`
	ApprovalTimeoutMS int64                `json:"approval_timeout_ms,omitzero"`
	Limits            schemas.Limits       `json:"limits,omitzero"`
}

// agentView answers who asks for one agent, agentsView who asks for all.
type agentView struct {
	Agent schemas.Agent `json:"agent"`
}

type agentsView struct {
	Agents []schemas.Agent `json:"agents"`
}

// agentRoutes are about definitions of agents.
func (g *Gateway) agentRoutes() []route {
	return []route{
		{"GET", "/v1/agents", g.listAgents, accessToken, operation{
			id: "listAgents", does: "Lists all agents, sorted by name.",
			replies: []reply{{status: 200, says: "The agents.", content: document[agentsView]()}},
		}},
		{"GET", "/v1/agents/{name}", g.showAgent, accessToken, operation{
			id: "showAgent", does: "Returns an agent's definition.",
			replies: []reply{{status: 200, says: "The definition.", content: document[agentView]()}},
			codes:   []schemas.Code{schemas.CodeNotFound},
		}},
		{"PUT", "/v1/agents/{name}", g.putAgent, accessToken, operation{
			id: "putAgent", does: "Creates or replaces an agent. Existing sessions keep the settings they were created with.", body: document[agentRequest]().like(`{"model":"shell/demo","system_prompt":"You review changes.","tools":["read_*"]}`),
			replies: []reply{{status: 200, says: "The agent was stored.", content: document[agentView]()}},
		}},
		{"DELETE", "/v1/agents/{name}", g.deleteAgent, accessToken, operation{
			id: "deleteAgent", does: "Deletes an agent. Its sessions are not affected.",
			replies: []reply{{status: 204, says: "No agent has this name any more, or none had."}},
		}},
	}
}

func (g *Gateway) listAgents(w http.ResponseWriter, r *http.Request) error {
	agents, err := g.conn.Agents(r.Context(), g.o.Project)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, agentsView{agents})
	return nil
}

func (g *Gateway) showAgent(w http.ResponseWriter, r *http.Request) error {
	agent, err := g.conn.Agent(r.Context(), g.o.Project, r.PathValue("name"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, agentView{agent})
	return nil
}

func (g *Gateway) putAgent(w http.ResponseWriter, r *http.Request) error {
	var body agentRequest
	if err := readBody(w, r, &body, false); err != nil {
		return err
	}
	name := r.PathValue("name")
	if body.Name != "" && body.Name != name {
		return &schemas.Error{Code: schemas.CodeInvalid, Field: "name", Message: "the agent's name must be that of the path, or be left out"}
	}
	body.Name = name
	agent := schemas.Agent(body)
	if err := g.conn.PutAgent(r.Context(), g.o.Project, agent); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, agentView{agent})
	return nil
}

func (g *Gateway) deleteAgent(w http.ResponseWriter, r *http.Request) error {
	if err := g.conn.DeleteAgent(r.Context(), g.o.Project, r.PathValue("name")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
