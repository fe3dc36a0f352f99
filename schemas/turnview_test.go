package schemas_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"braid/schemas"
	"braid/schemas/schematest"
)

var rewrite = flag.Bool("rewrite", false, "write what the turn view gives into testdata/turnview")

// formatEvent writes an event as one line, for people.
func formatEvent(e schemas.TurnEvent) string {
	switch d := e.Data.(type) {
	case string:
		return fmt.Sprintf("%s %q", e.Type, d)
	case *schemas.ToolUseBlock:
		return fmt.Sprintf("%s %s %s %s", e.Type, d.ID, d.Name, d.Input)
	case *schemas.ToolResultBlock:
		line := fmt.Sprintf("%s %s %q", e.Type, d.ToolUseID, d.Content)
		for _, image := range d.Images {
			line += fmt.Sprintf(" image=%q", image)
		}
		return line + mark("is_error", d.IsError)
	case *schemas.TaskResult:
		return string(e.Type) + formatResult(d)
	case *schemas.TaskFailure:
		return fmt.Sprintf("%s %q kind=%s retryable=%v", e.Type, d.Message, e.ErrorInfo.Kind, e.ErrorInfo.Retryable)
	}
	return string(e.Type)
}

func mark(name string, set bool) string {
	if !set {
		return ""
	}
	return " " + name
}

func formatResult(r *schemas.TaskResult) string {
	line := fmt.Sprintf(" output=%q turns=%d", r.Output, r.Turns)
	for _, m := range r.Messages {
		line += " " + string(m.Kind())
		if o, ok := m.Payload.(*schemas.ToolCallOutput); ok {
			line += ":" + o.ToolCallID
		}
	}
	for _, c := range r.ToolCalls {
		line += fmt.Sprintf(" %s=%q", c.ID, c.Output) + mark("is_error", c.IsError)
	}
	return line + mark("success", r.Success) + mark("aborted", r.Aborted) + mark("maxTurns", r.MaxTurns) +
		mark("budgetExceeded", r.BudgetExceeded) + mark("loopDetected", r.LoopDetected) + mark("incomplete", r.Incomplete)
}

// Every timeline gives the events that stand below it, each at the message that completes it. A
// section "<name>" holds a timeline, "<name>: events" what comes of it. "gap" is a place where
// recorded messages were missed, "finish" one where the frame is known to be over.
func TestTurnViewTimelines(t *testing.T) {
	files, err := filepath.Glob("testdata/turnview/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no timelines: %v", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out := &txtar.Archive{Comment: archive.Comment}
		wanted := map[string]string{}
		for _, f := range archive.Files {
			wanted[f.Name] = string(f.Data)
		}
		for _, f := range archive.Files {
			if strings.HasSuffix(f.Name, ": events") {
				continue
			}
			t.Run(f.Name, func(t *testing.T) {
				got := turnTimeline(t, string(f.Data))
				if diff := cmp.Diff(wanted[f.Name+": events"], got); diff != "" && !*rewrite {
					t.Errorf("(-want +got)\n%s", diff)
				}
				out.Files = append(out.Files, f, txtar.File{Name: f.Name + ": events", Data: []byte(got)})
			})
		}
		if *rewrite {
			if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func turnTimeline(t *testing.T, text string) string {
	steps, err := schematest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	view := schemas.NewTurnView()
	var b strings.Builder
	show := func(at string, events []schemas.TurnEvent) {
		for _, e := range events {
			fmt.Fprintf(&b, "%s %s\n", at, formatEvent(e))
		}
	}
	for _, s := range steps {
		switch {
		case s.Gap:
			view.Missed()
		case s.Finish:
			show("flush", view.Flush())
		default:
			show(s.Entry.Position.String(), view.Add(s.Entry))
		}
	}
	return b.String()
}

// What members hold that timelines have no place for.
func TestTurnViewContents(t *testing.T) {
	used := &schemas.TokenUsage{Request: schemas.TokenCounts{CacheRead: 2, CacheWrite: 3, Output: 5, Total: 20, CostUSD: 7}}
	view := schemas.NewTurnView()
	var got []schemas.TurnEvent
	for i, p := range []schemas.Payload{
		&schemas.CompactionBegin{}, used, &schemas.CompactionEnd{}, // before the first request: the next task's
		&schemas.RequestBegin{}, used, &schemas.RequestEnd{Status: schemas.StopFailed, Attempt: 1},
		&schemas.RequestBegin{Attempt: 2}, used, &schemas.RequestEnd{Status: schemas.StopCompleted, Attempt: 2},
		&schemas.BudgetExceeded{Used: 1.5, Limit: 1, Unit: "USD"},
		&schemas.LoopDetected{Repeated: "text", Repetitions: 3, Detail: "the same"},
		&schemas.TaskEnd{Status: schemas.StopCompleted, Cause: schemas.CauseBudget},
		&schemas.TaskEnd{Status: schemas.StopAuth, Cause: "provider", ErrorInfo: &schemas.ErrorInfo{
			Kind: "provider", Provider: "x", Retryable: true, StatusCode: 401, Message: "bad key",
		}},
	} {
		at := schemas.Position{Sequence: uint64(i) + 1}
		got = append(got, view.Add(schemas.Entry{Position: at, Message: schemas.New(start, p)})...)
	}
	want := []schemas.TurnEvent{
		{Type: schemas.TurnBudgetExceeded, Data: &schemas.BudgetExceededInfo{Message: "1.5 of 1 USD are used", Used: 1.5, Limit: 1, Unit: "USD"}},
		{Type: schemas.TurnLoopDetected, Data: &schemas.LoopDetectionInfo{Kind: "text", Repetitions: 3, Detail: "the same"}},
		{Type: schemas.TurnDone, Data: &schemas.TaskResult{
			Success: true, Messages: []schemas.Message{}, ToolCalls: []schemas.TaskToolCall{}, Turns: 1,
			TokenUsage:     schemas.TaskUsage{InputTokens: 45, OutputTokens: 15, CacheReadTokens: 6, CacheWriteTokens: 9, CostUSD: 21},
			BudgetExceeded: true, LoopDetected: true,
		}},
		{
			Type: schemas.TurnError, Data: &schemas.TaskFailure{Message: "bad key"},
			ErrorInfo: &schemas.TurnErrorInfo{Kind: "provider", Provider: "x", Retryable: true, StatusCode: 401, Message: "bad key"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Entries without positions, such as those of an imported trace, make the same events.
func TestTurnViewWithoutPositions(t *testing.T) {
	const text = `event request_begin
streamed text "hi"
streamed tool_call A ls "{}"
event token_usage
+ event request_end completed
+ event budget_exceeded
event approval_decision allow A
tool_call_output A "x"
event task_end completed`
	want, got := schemas.NewTurnView(), schemas.NewTurnView()
	for _, e := range schematest.MustParse(text) {
		a, b := want.Add(e), got.Add(schemas.Entry{Message: e.Message})
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s (-with +without)\n%s", e.Position, diff)
		}
	}
}
