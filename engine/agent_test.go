package engine

import (
	"context"
	"strings"
	"testing"
	"time"

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

// importOf is the import of a short trace with an agent.
func (h *house) importOf(session, id, agent string, trace []string) schemas.Command {
	h.t.Helper()
	c := h.imports(session, id, trace)
	c.Import.Model, c.Import.Agent = "", agent
	return c
}

// A trace that is imported with an agent goes on as that one, and is refused as a session of it would be.
func TestImportWithAnAgent(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"write", `{"n":1}`}, [2]string{"look", `{"n":2}`})})
	h.engine("e1")
	hands := h.toolrunner("r1")
	trace := encoded(t, []schemas.Message{schemas.New(time.Now(), &schemas.SessionMeta{
		SessionID: "old", Provider: "shell", ModelID: "demo", SystemPrompt: "Write.", Agent: "writer", ApprovalMode: schemas.ApproveNone,
	})})
	h.putAgent(schemas.Agent{Name: "reader", Model: "scripted/m", SystemPrompt: "Read.", Tools: []string{"lo*"}, ApprovalMode: schemas.ApproveAll})
	h.putAgent(schemas.Agent{Name: "nowhere", Model: "no/such"})
	h.putAgent(schemas.Agent{Name: "lame", Model: "shell/demo", FallbackModels: []string{"no/such"}})
	for _, row := range []struct {
		why, agent string
		code       schemas.Code
		field      string
	}{
		{"nobody", "nobody", schemas.CodeInvalid, "agent"},
		{"one whose model is gone", "nowhere", schemas.CodeUnknownModel, "model"},
		{"one whose other model is gone", "lame", schemas.CodeUnknownModel, "fallback_models[0]"},
	} {
		// Each has the same trace, which the refusal of the one before must leave alone.
		if o := h.send(h.importOf("s", "refused-"+row.agent, row.agent, trace)); o.Code != row.code || o.Field != row.field {
			t.Errorf("%s: %+v, want %s of %s", row.why, o, row.code, row.field)
		}
	}
	if o := h.send(h.importOf("plain", "plain", "", trace)); o.Code != schemas.CodeApplied {
		t.Errorf("an agent of the trace that nobody knows here: %+v", o)
	}
	if o := h.send(h.importOf("s", "import", "reader", trace)); o.Code != schemas.CodeApplied {
		t.Fatalf("import: %+v", o)
	}
	h.task("t", "go")
	call := hands.call(`{"n":2}`) // allowed by the agent's mode, on the agent's model
	if err := call.end(schemas.StopCompleted); err != nil {
		t.Fatal(err)
	}
	h.follow(taskEnded)
	if hands.starts != 1 {
		t.Errorf("%d calls ran, want the one that the agent has", hands.starts)
	}
}

// An import that another engine goes on with does not look for its agent again: it may be gone.
func TestImportOutlivesItsAgent(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), nil)
	first, w := h.wired("e1")
	h.putAgent(schemas.Agent{Name: "reader", Model: "shell/demo", SystemPrompt: "Read."})
	frame := w.hold("braid.p.session.", `"step 400.`)
	h.post(h.importOf("s", "import", "reader", longTrace(t, 700)))
	frame.wait()
	crash(first, w)
	if err := h.conn.DeleteAgent(context.Background(), ref.Project, "reader"); err != nil {
		t.Fatal(err)
	}
	h.engine("e2")
	h.follow(func(m schemas.Message) bool {
		p, ok := m.Payload.(*schemas.CommandOutcome)
		return ok && p.CommandID == "import"
	})
	h.once("import", schemas.CodeApplied)
	if o := h.send(taskCommand("t1")); o.Code != schemas.CodeApplied {
		t.Errorf("a task: %+v", o)
	}
}
