package engine

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"braid/bus/bustest"
	"braid/schemas"
)

func (h *house) putAgent(a schemas.Agent) {
	h.t.Helper()
	if err := h.conn.PutAgent(context.Background(), ref.Project, a); err != nil {
		h.t.Fatal(err)
	}
}

// An agent's tools are all that its model is told of and all that can be called; what becomes of the
// definition later does not concern the session.
func TestAgentBoundsItsSessions(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"write", `{"n":1}`}, [2]string{"look", `{"n":2}`})})
	h.engine("e1")
	hands := h.toolrunner("r1")
	agent := schemas.Agent{
		Name: "reader", Model: "scripted/m", SystemPrompt: "Read.", Tools: []string{"lo*"},
		ApprovalMode: schemas.ApproveAll, ApprovalTimeoutMS: 60_000, Limits: schemas.Limits{MaxTurns: 9, MaxTokensTask: 1_000_000},
	}
	h.putAgent(agent)
	o := h.send(schemas.Command{ID: "create", Type: schemas.CommandCreate, Session: ref, Create: &schemas.CreateBody{
		Agent: "reader", SystemPrompt: "Read aloud.", Limits: schemas.Limits{MaxTurns: 5},
	}})
	if o.Code != schemas.CodeApplied {
		t.Fatalf("create: %+v", o)
	}
	agent.Tools, agent.Model = nil, "scripted/gone"
	h.putAgent(agent)
	h.task("t", "go")
	call := hands.call(`{"n":2}`)
	if err := call.end(schemas.StopCompleted); err != nil {
		t.Fatal(err)
	}
	var tools []string
	var meta *schemas.SessionMeta
	for _, m := range h.follow(taskEnded) {
		switch p := m.Payload.(type) {
		case *schemas.SessionMeta:
			meta = p
		case *schemas.ToolListReady:
			for _, d := range p.Tools {
				tools = append(tools, d.Name)
			}
		}
	}
	if diff := cmp.Diff([]string{"look"}, tools); diff != "" {
		t.Errorf("what the model is told of (-want +got)\n%s", diff)
	}
	if hands.starts != 1 {
		t.Errorf("%d calls ran, want the one that is allowed", hands.starts)
	}
	want := &schemas.SessionMeta{
		SessionID: ref.ID, Provider: "scripted", ModelID: "m", Agent: "reader", SystemPrompt: "Read aloud.", Tools: []string{"lo*"},
		ApprovalMode: schemas.ApproveAll, ApprovalTimeoutMS: 60_000, Limits: schemas.Limits{MaxTurns: 5, MaxTokensTask: 1_000_000},
	}
	if diff := cmp.Diff(want, meta); diff != "" {
		t.Errorf("session_meta (-want +got)\n%s", diff)
	}
}

func TestAgentRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), nil)
	h.engine("e1")
	h.putAgent(schemas.Agent{Name: "nowhere", Model: "no/such"})
	h.putAgent(schemas.Agent{Name: "demo", Model: "shell/demo"})
	for why, row := range map[string]struct {
		body  schemas.CreateBody
		code  schemas.Code
		field string
	}{
		"nobody":                         {schemas.CreateBody{Agent: "nobody"}, schemas.CodeInvalid, "agent"},
		"nobody, on a model that is":     {schemas.CreateBody{Agent: "nobody", Model: "shell/demo"}, schemas.CodeInvalid, "agent"},
		"one whose model is gone":        {schemas.CreateBody{Agent: "nowhere"}, schemas.CodeUnknownModel, "model"},
		"what does not go with the rest": {schemas.CreateBody{Agent: "demo", FallbackModels: []string{"shell/demo"}}, schemas.CodeInvalid, "fallback_models[0]"},
	} {
		o := h.send(schemas.Command{ID: strings.NewReplacer(" ", "-", ",", "").Replace(why), Type: schemas.CommandCreate, Session: ref, Create: &row.body})
		if o.Code != row.code || o.Field != row.field {
			t.Errorf("%s: %+v, want %s of %s", why, o, row.code, row.field)
		}
	}
}
