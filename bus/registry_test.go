package bus_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

var registryTests = []workTest{
	{"tools of living toolrunners are merged", testTools},
	{"announcements that make no sense are refused", testAnnounceInvalid},
	{"agents are put, read, listed and deleted", testAgents},
}

func announcement(project, instance string, tools ...schemas.ToolDefinition) bus.Announcement {
	return bus.Announcement{Instance: instance, Project: project, Pools: []string{"default"}, Tools: tools, Slots: 4}
}

func announce(t *testing.T, c *bus.Conn, a bus.Announcement) {
	t.Helper()
	if err := c.Announce(testContext(t), a); err != nil {
		t.Fatal(err)
	}
}

func testTools(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ctx := testContext(t)
	bash := schemas.ToolDefinition{Name: "bash", Description: "runs a command"}
	changed := schemas.ToolDefinition{Name: "bash", Description: "runs a command, differently"}
	read := schemas.ToolDefinition{Name: "read", Permission: schemas.PermissionRead}
	judge := beat(t, c, bus.KindEngine, "engine-"+project)
	for _, instance := range []string{"a-" + project, "b-" + project, "z-" + project} {
		beat(t, c, bus.KindToolrunner, instance)
	}
	announce(t, c, announcement(project, "b-"+project, bash, read))
	announce(t, c, announcement(project, "a-"+project, bash))
	announce(t, c, announcement(project, "z-"+project, changed))
	announce(t, c, announcement(project, "dead-"+project, schemas.ToolDefinition{Name: "gone"}))
	announce(t, c, announcement(project+"x", "a-"+project, schemas.ToolDefinition{Name: "foreign"}))
	names := func(tools []schemas.ToolDefinition) string {
		var out []string
		for _, d := range tools {
			out = append(out, d.Name)
		}
		return strings.Join(out, " ")
	}
	for _, j := range []*bus.Beat{nil, judge} {
		var tools []schemas.ToolDefinition
		var conflicts []bus.ToolConflict
		eventually(t, "the dead one's tool is left out", func() bool {
			var err error
			if tools, conflicts, err = c.Tools(ctx, project, j); err != nil {
				t.Fatal(err)
			}
			return names(tools) == "bash read"
		})
		if tools[0].Description != bash.Description || tools[0].Permission != schemas.PermissionReadWrite {
			t.Errorf("got %+v", tools[0])
		}
		want := bus.ToolConflict{Name: "bash", Used: "a-" + project, Ignored: "z-" + project}
		if len(conflicts) != 1 || conflicts[0] != want {
			t.Errorf("got %+v, want %+v", conflicts, want)
		}
	}
	if err := c.Unannounce(ctx, project, "b-"+project); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one that left is left out", func() bool {
		tools, _, err := c.Tools(ctx, project, judge)
		if err != nil {
			t.Fatal(err)
		}
		return names(tools) == "bash"
	})
}

func testAnnounceInvalid(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	for why, a := range map[string]bus.Announcement{
		"a tool in a pool it does not serve": announcement(project, "r", schemas.ToolDefinition{Name: "t", Pool: "gpu"}),
		"a tool without a name":              announcement(project, "r", schemas.ToolDefinition{}),
		"parameters that are nested too deep": announcement(project, "r", schemas.ToolDefinition{
			Name: "t", Parameters: jsontext.Value(strings.Repeat("[", 2000) + strings.Repeat("]", 2000)),
		}),
		"a pool with a wildcard": {Instance: "r", Project: project, Pools: []string{"*"}},
	} {
		if err := c.Announce(testContext(t), a); !errors.Is(err, &schemas.Error{Code: schemas.CodeInvalid}) {
			t.Errorf("%s: got %v, want invalid", why, err)
		}
	}
	big := announcement(project, "r", schemas.ToolDefinition{Name: "t", Description: strings.Repeat("x", 2<<20)})
	if err := c.Announce(testContext(t), big); !errors.Is(err, &schemas.Error{Code: schemas.CodeTooLarge}) {
		t.Errorf("got %v, want too large", err)
	}
}
