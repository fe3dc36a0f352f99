package bus_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"braid/bus/bustest"
	"braid/schemas"
)

func testAgents(t *testing.T, b *bustest.Broker, project string) {
	c, ctx := b.Conn(t), testContext(t)
	put := func(project string, a schemas.Agent) {
		t.Helper()
		if err := c.PutAgent(ctx, project, a); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Agent(ctx, project, a.Name); err != nil || got.Model != a.Model { // whatever replica was asked before
			t.Fatalf("%+v, %v", got, err)
		}
	}
	put(project, schemas.Agent{Name: "writer", Model: "a/b", Tools: []string{}})
	put(project, schemas.Agent{Name: "coder", Model: "a/b"})
	put(project, schemas.Agent{Name: "coder", Model: "a/c", Limits: schemas.Limits{MaxTurns: 3}})
	put(project+"x", schemas.Agent{Name: "foreign", Model: "a/b"})
	eventually(t, "both are listed by name", func() bool {
		agents, err := c.Agents(ctx, project)
		if err != nil {
			t.Fatal(err)
		}
		return len(agents) == 2 && agents[0].Name == "coder" && agents[0].Limits.MaxTurns == 3 &&
			agents[1].Name == "writer" && agents[1].Tools != nil
	})
	for range 2 { // also what is gone
		if err := c.DeleteAgent(ctx, project, "coder"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Agent(ctx, project, "coder"); !errors.Is(err, &schemas.Error{Code: schemas.CodeNotFound}) {
			t.Fatalf("a deleted agent: %v", err)
		}
	}
	put(project, schemas.Agent{Name: "coder", Model: "a/d"})
	_, none := c.Agent(ctx, project, "nobody")
	for why, err := range map[string]error{
		"one that never was":  none,
		"no model":            c.PutAgent(ctx, project, schemas.Agent{Name: "a"}),
		"a name with a dot":   c.PutAgent(ctx, project, schemas.Agent{Name: "a.b", Model: "a/b"}),
		"a project with none": c.PutAgent(ctx, "", schemas.Agent{Name: "a", Model: "a/b"}),
		"all of them":         c.DeleteAgent(ctx, project, "*"),
		"what escaping makes too large": c.PutAgent(context.WithoutCancel(ctx), project,
			schemas.Agent{Name: "a", Model: "a/b", SystemPrompt: strings.Repeat("\n", schemas.MaxSystemPrompt+1)}),
	} {
		if _, ok := errors.AsType[*schemas.Error](err); !ok {
			t.Errorf("%s: %v", why, err)
		}
	}
}
