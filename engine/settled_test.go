package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"braid/engine/internal/session"
	"braid/schemas"
)

// An engine tells of the calls that no toolrunner tells of, and of no others.
func TestSettledCalls(t *testing.T) {
	of := TaskOf{Session: ref, Task: "t1"}
	call := toolCall{task: of, since: moment(1), start: session.StartTool{
		Call: schemas.ToolCall{ToolCallID: "c1"}, Definition: schemas.ToolDefinition{Name: "look"},
	}}
	told := func(attempt int, started bool, status schemas.StopReason) *SettledCall {
		return &SettledCall{TaskOf: of, ToolCallID: "c1", Tool: "look", Attempt: attempt, Started: started, Begun: moment(1), Ended: moment(2), Status: status}
	}
	record := func(state schemas.RecordState, attempt int) schemas.ToolRecord {
		return schemas.ToolRecord{State: state, Attempt: attempt, Stored: moment(2)}
	}
	owner := func(reason schemas.StopReason) *schemas.ToolResult {
		return &schemas.ToolResult{StopReason: reason, Appends: true}
	}
	toolrunner := func(reason schemas.StopReason) *schemas.ToolResult { return &schemas.ToolResult{StopReason: reason} }
	for _, row := range []struct {
		why    string
		record schemas.ToolRecord
		result *schemas.ToolResult
		want   *SettledCall
	}{
		{"it ran", record(schemas.RecordDone, 1), toolrunner(schemas.StopCompleted), nil},
		{"it failed by itself", record(schemas.RecordDone, 1), toolrunner(schemas.StopFailed), nil},
		{"its toolrunner ends it after the cancel was overdue", record(schemas.RecordDone, 1), owner(schemas.StopAborted), nil},
		{"its toolrunner ends it after its time", record(schemas.RecordDone, 1), owner(schemas.StopTimeout), nil},
		{"its toolrunner was lost", record(schemas.RecordDone, 3), owner(schemas.StopFailed), told(3, true, schemas.StopFailed)},
		{"nobody took it", record(schemas.RecordWithdrawn, 1), owner(schemas.StopFailed), told(1, false, schemas.StopFailed)},
		{"it was aborted before it started", record(schemas.RecordWithdrawn, 1), owner(schemas.StopAborted), told(1, false, schemas.StopAborted)},
		{"its records are lost", record("", 0), lostRecords(), told(1, true, schemas.StopFailed)},
	} {
		got, ok := call.settled(row.record, row.result)
		if ok != (row.want != nil) || ok && !cmp.Equal(*row.want, got) {
			t.Errorf("%s: %v, %+v", row.why, ok, got)
		}
	}
	call = toolCall{task: of, start: call.start}
	if got, _ := call.settled(record(schemas.RecordWithdrawn, 1), owner(schemas.StopAborted)); !got.Begun.Equal(moment(2)) || !got.Ended.Equal(moment(2)) {
		t.Errorf("an owner before settled it: from %s to %s", got.Begun, got.Ended)
	}
}

// What a call came to is told when its output is in the log, once, and by whoever stored it.
func TestLedgerOfSettledCalls(t *testing.T) {
	var got told
	events := got.events()
	events.CallSettled = func(c SettledCall) { got = append(got, c.ToolCallID) }
	l := newLedger(ref)
	l.settled["c1"], l.settled["c2"] = SettledCall{ToolCallID: "c1"}, SettledCall{ToolCallID: "c2"}
	for _, id := range []string{"c1", "c1", "c9"} {
		l.read(schemas.New(moment(1), schemas.NewToolCallOutput(id, "", schemas.StopFailed)), events)
	}
	l.read(schemas.New(moment(2), &schemas.TaskEnd{}), events)
	if diff := cmp.Diff(told{"c1"}, got); diff != "" || len(l.settled) > 0 {
		t.Errorf("left %v (-want +got)\n%s", l.settled, diff)
	}
}
