package bus_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/schemas"
	"braid/schemas/schematest"
)

// What a session is doing is carried on message by message.
func TestActivity(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why, timeline string
		state         bus.SessionState
		calls         []string
	}{
		{"nothing has happened", "", bus.StateIdle, nil},
		{"a prompt opens a task", `user "a"`, bus.StateRunning, nil},
		{"a call waits for a person", "user \"a\"\nevent approval_request A", bus.StateWaiting, []string{"A"}},
		{"two do", "user \"a\"\nevent approval_request A\nevent approval_request B", bus.StateWaiting, []string{"A", "B"}},
		{"one is decided", "user \"a\"\nevent approval_request A\nevent approval_request B\nevent approval_decision allow A", bus.StateWaiting, []string{"B"}},
		{"a child's call is the child's", "user \"a\"\nkid: event approval_request A", bus.StateRunning, nil},
		{"the request failed", "user \"a\"\nevent approval_request A\nevent request_end failed", bus.StateRunning, nil},
		{"somebody aborts", "user \"a\"\nevent approval_request A\nevent abort", bus.StateRunning, nil},
		{"the task is over", "user \"a\"\nevent approval_request A\nevent task_end failed", bus.StateIdle, nil},
		{"a compaction is no task", "event compaction_begin", bus.StateRunning, nil},
		{"and ends", "event compaction_begin\nevent request_begin\nevent compaction_end completed", bus.StateIdle, nil},
	} {
		activity := bus.SessionInfo{State: bus.StateIdle}.Activity()
		for _, e := range schematest.MustParse(row.timeline) {
			activity = activity.Apply(e.Message)
		}
		var calls []string
		for _, p := range activity.Pending() {
			calls = append(calls, p.ToolCallID)
		}
		if diff := cmp.Diff(row.calls, calls); activity.State() != row.state || diff != "" {
			t.Errorf("%s: %s, want %s %s", row.why, activity.State(), row.state, diff)
		}
	}
}

// A person who is asked is told all that the request says.
func TestPendingFor(t *testing.T) {
	t.Parallel()
	r := &schemas.ApprovalRequest{ToolCallID: "c", Name: "n", Arguments: "{}", Hash: "h", Deadline: "d", Rule: "r"}
	want := bus.PendingApproval{ToolCallID: "c", Name: "n", Arguments: "{}", Hash: "h", Deadline: "d", Rule: "r"}
	if diff := cmp.Diff(want, bus.PendingFor(r)); diff != "" {
		t.Error(diff)
	}
}
