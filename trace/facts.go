package trace

import (
	"braid/schemas"
)

// FailureKind says what failed.
type FailureKind string

// The kinds of failures.
const (
	FailedRequest    FailureKind = "request"
	FailedTask       FailureKind = "task"
	FailedTool       FailureKind = "tool"
	FailedCompaction FailureKind = "compaction"
)

// failureTextLength bounds the message of a failure, in characters.
const failureTextLength = 500

// failure is what the index of failures keeps; its key says where and when.
type failure struct {
	Kind       FailureKind        `json:"kind"`
	Status     schemas.StopReason `json:"status"`
	Message    string             `json:"message,omitzero"`
	Model      string             `json:"model,omitzero"`
	ToolCallID string             `json:"tool_call_id,omitzero"`
}

// failureOf tells whether the message reports a failure. What a person ended is none.
func failureOf(m schemas.Message) (failure, bool) {
	if m.Given() { // it failed elsewhere
		return failure{}, false
	}
	var f failure
	switch p := m.Payload.(type) {
	case *schemas.RequestEnd:
		f = failure{Kind: FailedRequest, Status: p.Status, Message: p.ErrorMessage}
	case *schemas.TaskEnd:
		f = failure{Kind: FailedTask, Status: p.Status, Message: p.Cause}
		if p.ErrorInfo != nil {
			f.Message = p.ErrorInfo.Message
		}
	case *schemas.CompactionEnd:
		f = failure{Kind: FailedCompaction, Status: p.Status, Message: p.ErrorMessage}
	case *schemas.ToolCallOutput:
		f = failure{Kind: FailedTool, Status: p.StopReason, Message: p.Output, ToolCallID: p.ToolCallID}
	}
	switch f.Status {
	case "", schemas.StopCompleted, schemas.StopAborted:
		return failure{}, false
	}
	f.Message = firstRunes(f.Message, failureTextLength)
	return f, true
}
