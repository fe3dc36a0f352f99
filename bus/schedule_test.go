package bus_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

var scheduleTests = []workTest{
	{"a schedule becomes a command", testScheduleFires},
	{"a schedule in the past fires now", testSchedulePast},
	{"a later schedule replaces the first, and none fires when removed", testScheduleReplaced},
	{"a schedule erases no commands", testScheduleErasesNothing},
}

// decision is a command as a deadline sends it.
func decision(ref schemas.SessionRef, id, call string) schemas.Command {
	return schemas.Command{ID: id, Type: schemas.CommandApprove, Session: ref,
		Approve: &schemas.ApproveBody{ToolCallID: call, Decision: schemas.DecisionDeny}}
}

func schedule(t *testing.T, c *bus.Conn, ref schemas.SessionRef, call string, at time.Time, id string) {
	t.Helper()
	if err := c.Schedule(testContext(t), ref, call, at, decision(ref, id, call)); err != nil {
		t.Fatal(err)
	}
}

func testScheduleFires(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	schedule(t, c, ref, "call", time.Now().Add(time.Second), "deadline")
	cmd := awaitCommand(t, c, ref)
	if cmd.ID != "deadline" || cmd.Invalid != nil || cmd.Lane != bus.LaneControl || cmd.Approve.ToolCallID != "call" {
		t.Fatalf("got %+v", cmd)
	}
	// It is a command with a lifetime, like any other.
	header, found, err := c.LeaderGet(testContext(t), "COMMANDS", cmd.Sequence, "")
	if err != nil || !found || header.Get("Nats-TTL") == "" {
		t.Errorf("the fired command stays for ever: %v, %v", header, err)
	}
}

func testSchedulePast(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	schedule(t, c, ref, "call", time.Now().Add(-time.Hour), "late")
	if cmd := awaitCommand(t, c, ref); cmd.ID != "late" {
		t.Fatalf("got %+v", cmd)
	}
}

func testScheduleReplaced(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	for lead := 2 * time.Second; ; lead *= 2 {
		ref := schemas.SessionRef{Project: project, ID: fmt.Sprintf("s%d", lead)}
		soon := time.Now().Add(lead)
		schedule(t, c, ref, "replaced", soon, "first")
		schedule(t, c, ref, "removed", soon, "never")
		schedule(t, c, ref, "replaced", soon.Add(time.Second), "second")
		if err := c.Unschedule(testContext(t), ref, "removed"); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(soon) {
			continue // they may have fired, rightly
		}
		if err := c.Unschedule(testContext(t), ref, "not-there"); err != nil {
			t.Fatal(err)
		}
		schedule(t, c, ref, "witness", soon.Add(2*time.Second), "witness")
		var got []string
		eventually(t, "the last schedules fire", func() bool {
			commands, err := c.ReadCommands(testContext(t), ref, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			got = strings.Fields(ids(commands))
			return slices.Contains(got, "witness") && slices.Contains(got, "second")
		})
		if len(got) != 2 {
			t.Fatalf("got %s, want second and witness", got)
		}
		return
	}
}

// A schedule rolls up the subject it is published on.
func testScheduleErasesNothing(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	send(t, c, task(ref, "before", "x"))
	send(t, c, abort(ref, "too"))
	schedule(t, c, ref, "call", time.Now(), "deadline")
	schedule(t, c, ref, "call2", time.Now(), "deadline2")
	var got []bus.StoredCommand
	eventually(t, "both schedules fire", func() bool {
		var err error
		if got, err = c.ReadCommands(testContext(t), ref, 0, 0); err != nil {
			t.Fatal(err)
		}
		return len(got) == 4
	})
	if got[0].ID != "before" || got[1].ID != "too" {
		t.Fatalf("got %s", ids(got))
	}
}
