package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/schemas"
	"braid/trace"
)

// Whoever asks for a session is told of a waiting call what its stream says, the rule that asks among it.
func TestPendingCallsAreToldWhole(t *testing.T) {
	t.Parallel()
	r := &schemas.ApprovalRequest{ToolCallID: "c", Name: "n", Arguments: "{}", Hash: "h", Deadline: "d", Rule: "r"}
	got := (&Reader{}).info(trace.SessionInfo{Pending: []trace.PendingApproval{{Request: r}}}).Pending
	if diff := cmp.Diff([]bus.PendingApproval{bus.PendingFor(r)}, got); diff != "" {
		t.Error(diff)
	}
}
