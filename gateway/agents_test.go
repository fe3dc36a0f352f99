package gateway

import (
	"strings"
	"testing"

	"braid/schemas"
)

func TestAgents(t *testing.T) {
	w := newWorld(t)
	var one agentView
	w.must(200, "PUT", "/v1/agents/coder", `{"model":"shell/demo","system_prompt":"Code.","tools":["read_*"],"approval_mode":"allow-all","limits":{"max_turns":3}}`).decode(t, &one)
	if one.Agent.Name != "coder" || one.Agent.Limits.MaxTurns != 3 {
		t.Errorf("stored %+v", one)
	}
	w.must(200, "PUT", "/v1/agents/coder", `{"name":"coder","model":"shell/demo","tools":[]}`)
	w.must(200, "GET", "/v1/agents/coder", "").decode(t, &one)
	if one.Agent.Tools == nil || one.Agent.SystemPrompt == "Code." && len(one.Agent.Tools) > 0 {
		t.Errorf("it is %+v", one)
	}
	var all agentsView
	w.must(200, "GET", "/v1/agents", "").decode(t, &all)
	if len(all.Agents) != 1 || all.Agents[0].Name != "coder" {
		t.Errorf("they are %+v", all)
	}
	w.must(201, "POST", "/v1/sessions", `{"agent":"coder"}`)
	w.must(204, "DELETE", "/v1/agents/coder", "")
	w.must(204, "DELETE", "/v1/agents/coder", "")
	w.must(404, "GET", "/v1/agents/coder", "")
}

func TestAgentsRefused(t *testing.T) {
	w := newWorld(t)
	for why, row := range map[string]struct{ name, body, field string }{
		"no model":                {"a", `{}`, "model"},
		"a member nobody knows":   {"a", `{"model":"a/b","colour":"red"}`, "colour"},
		"a tool that can't be":    {"a", `{"model":"a/b","tools":["x","a b"]}`, "tools[1]"},
		"limits that can't be":    {"a", `{"model":"a/b","limits":{"max_turns":-2}}`, "limits.max_turns"},
		"another name than its":   {"a", `{"name":"b","model":"a/b"}`, "name"},
		"a name that can't be":    {"a.b", `{"model":"a/b"}`, "name"},
		"a name that is too long": {strings.Repeat("x", 65), `{"model":"a/b"}`, "name"},
	} {
		p := w.must(400, "PUT", "/v1/agents/"+row.name, row.body).problem(t)
		if p.Code != schemas.CodeInvalid || p.Field != row.field {
			t.Errorf("%s: %+v, want field %s", why, p, row.field)
		}
	}
}
