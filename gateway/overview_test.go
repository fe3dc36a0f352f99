package gateway

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/schemas"
)

func TestListsAskForWhatIsWanted(t *testing.T) {
	w := newWorld(t)
	w.must(200, "GET", "/v1/sessions?limit=7&cursor=c&state=waiting&agent=a&model=shell/demo&task_status=failed,timeout&created_since=2026-01-02T00:00:00Z&created_until=2026-02-02T00:00:00Z", "")
	want := bus.SessionsArgs{
		Limit: 7, Cursor: "c", State: "waiting", Agent: "a", Model: "shell/demo", TaskStatus: []schemas.StopReason{schemas.StopFailed, schemas.StopTimeout},
		CreatedSince: "2026-01-02T00:00:00Z", CreatedUntil: "2026-02-02T00:00:00Z", Current: true,
	}
	if diff := cmp.Diff(want, w.engine.wanted); diff != "" {
		t.Errorf("(-wanted +asked)\n%s", diff)
	}
}

func TestFailures(t *testing.T) {
	w := newWorld(t)
	var v bus.FailuresPage
	w.must(200, "GET", "/v1/failures?limit=7&cursor=c&kind=task,tool&since=2026-01-02T00:00:00Z", "").decode(t, &v)
	const asked = `{"limit":7,"cursor":"c","kinds":["task","tool"],"since":"2026-01-02T00:00:00Z","current":true}`
	if len(v.Failures) != 1 || v.Failures[0].Message != asked || v.Failures[0].Kind != bus.FailedTool || v.Next != "c2" {
		t.Errorf("got %+v", v)
	}
	if e := w.must(400, "GET", "/v1/failures?limit=x", "").problem(t); e.Field != "limit" {
		t.Errorf("an odd limit: %+v", e)
	}
}

func TestUsage(t *testing.T) {
	w := newWorld(t)
	w.create("s")
	var v bus.UsageReport
	w.must(200, "GET", "/v1/usage?from=2026-01-02&to=2026-01-05&session=s", "").decode(t, &v)
	if v.From != "2026-01-02" || v.To != "2026-01-05" || v.Session != "s" || len(v.Usage) != 2 || v.Usage[1].Model != "shell/of-s" {
		t.Errorf("got %+v", v)
	}
	if diff := cmp.Diff(bus.UsageTotal{Requests: 3, Tokens: schemas.TokenCounts{Output: 2, Total: 6, CostUSD: 2 * schemas.Dollar}}, v.Total); diff != "" {
		t.Errorf("total (-want +got)\n%s", diff)
	}
	w.must(200, "GET", "/v1/usage?to=2026-03-01", "").decode(t, &v)
	if v.From != "2026-01-31" {
		t.Errorf("30 days up to the first of March begin at %s", v.From)
	}
	before := time.Now().UTC().Format(time.DateOnly)
	w.must(200, "GET", "/v1/usage", "").decode(t, &v)
	if v.To < before || v.To > time.Now().UTC().Format(time.DateOnly) {
		t.Errorf("without days it tells of the days up to %s", v.To)
	}
	if e := w.must(400, "GET", "/v1/usage?to=march", "").problem(t); e.Field != "to" {
		t.Errorf("an odd day: %+v", e)
	}
	if e := w.must(400, "GET", "/v1/usage?session=", "").problem(t); e.Field != "session" {
		t.Errorf("a session without a name: %+v", e)
	}
}

// The tools are those of toolrunners that live; who disagrees about one is told of.
func TestTools(t *testing.T) {
	w := newWorld(t)
	ctx := testContext(t)
	for _, name := range []string{"one", "two", "gone"} {
		if name != "gone" {
			beat, err := w.conn.StartBeat(ctx, bus.KindToolrunner, name, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := beat.Stop(testContext(t)); err != nil {
					t.Errorf("stop the beat of %s: %v", name, err)
				}
			})
		}
		err := w.conn.Announce(ctx, bus.Announcement{Instance: name, Project: "default", Pools: []string{"default"}, Tools: []schemas.ToolDefinition{
			{Name: "exec", Description: "of " + name}, {Name: "by_" + name, Description: "x"},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	var v toolsView
	w.must(200, "GET", "/v1/tools", "").decode(t, &v)
	var names []string
	for _, tool := range v.Tools {
		names = append(names, tool.Name+": "+tool.Description)
	}
	if diff := cmp.Diff([]string{"by_one: x", "by_two: x", "exec: of one"}, names); diff != "" {
		t.Errorf("tools (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]conflictView{{Tool: "exec", Used: "one", Ignored: "two"}}, v.Conflicts); diff != "" {
		t.Errorf("conflicts (-want +got)\n%s", diff)
	}
}
