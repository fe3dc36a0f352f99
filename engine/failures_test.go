package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// The failures of a project are told of, the latest first, with where they stand; not those of a session that is
// deleted.
func TestFailures(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"locked": `
turns:
  - steps: [{tool_call: {id: c1, name: nowhere, arguments: {}}}]
  - steps: [{fail: {status: auth, message: "a bad key"}}]
`})
	h.engine("e1")
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	h.create("scripted/locked", schemas.ApproveAll)
	h.task("t1", "hello")
	h.follow(taskEnded)
	ask := func(args bus.FailuresArgs) (failures []bus.Failure) {
		args.Current = true
		for range 10 {
			page, err := h.conn.AskFailures(ctx, ref.Project, args)
			if err != nil {
				t.Fatal(err)
			}
			failures = append(failures, page.Failures...)
			if args.Cursor = page.Next; args.Cursor == "" {
				return failures
			}
		}
		t.Fatal("the pages have no end")
		return nil
	}
	all := ask(bus.FailuresArgs{Limit: 2})
	page, err := h.conn.AskMessages(ctx, ref, 0, bus.MessagesArgs{}) // the trace is as far now
	if err != nil || page.More {
		t.Fatalf("got %+v, %v", page, err)
	}
	said := map[string]schemas.Message{}
	for _, m := range page.Messages {
		said[schemas.Cursor{Epoch: page.Epoch, Position: m.Position}.String()] = m.Message
	}
	var told []string
	for _, f := range all {
		told = append(told, string(f.Kind)+" "+string(f.Status)+" "+f.Session+" "+f.Model+" "+f.Tool+": "+f.Message)
		stands := false
		switch p := said[f.ID].Payload.(type) {
		case *schemas.TaskEnd:
			stands = f.Kind == bus.FailedTask
		case *schemas.RequestEnd:
			stands = f.Kind == bus.FailedRequest
		case *schemas.ToolCallOutput:
			stands = p.ToolCallID == f.ToolCallID
		}
		if !stands {
			t.Errorf("at %s is %+v", f.ID, said[f.ID])
		}
	}
	if !slices.IsSortedFunc(all, func(a, b bus.Failure) int { return strings.Compare(b.Time, a.Time) }) {
		t.Errorf("the latest is not the first: %+v", all)
	}
	slices.Sort(told) // all may have happened in one millisecond
	want := []string{
		"request auth s scripted/locked : a bad key",
		"task auth s scripted/locked : a bad key",
		`tool failed s scripted/locked nowhere: There is no tool named "nowhere". No tools are available.`,
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("failures (-want +got)\n%s", diff)
	}
	if got := ask(bus.FailuresArgs{Kinds: []bus.FailureKind{bus.FailedTool}, Since: all[0].Time}); len(got) > 1 || len(got) == 1 && got[0].Kind != bus.FailedTool {
		t.Errorf("of the tools: %+v", got)
	}
	if got := ask(bus.FailuresArgs{Since: time.Now().Add(time.Hour).Format(time.RFC3339)}); len(got) != 0 {
		t.Errorf("of later: %+v", got)
	}
	for field, args := range map[string]bus.FailuresArgs{
		"kind": {Kinds: []bus.FailureKind{"turn"}}, "since": {Since: "yesterday"}, "cursor": {Cursor: "!"},
	} {
		_, err := h.conn.AskFailures(ctx, ref.Project, args)
		if refused, ok := errors.AsType[*schemas.Error](err); !ok || refused.Code != schemas.CodeInvalid || refused.Field != field {
			t.Errorf("an odd %s: %v", field, err)
		}
	}
}
