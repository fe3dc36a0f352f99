package engine

import (
	"time"

	"braid/schemas"
)

// This file says what calls came to that no toolrunner tells of.

// settled is what there is to tell of a call that no toolrunner tells of: it was withdrawn, or has failed by
// an owner's word. One that an owner has aborted, or given up as too late, its toolrunner still ends.
func (c *toolCall) settled(rec schemas.ToolRecord, result *schemas.ToolResult) (_ SettledCall, ok bool) {
	started := rec.State != schemas.RecordWithdrawn
	if started && (!result.Appends || result.StopReason != schemas.StopFailed) {
		return SettledCall{}, false
	}
	return c.attempt(rec.Attempt, started, result.StopReason, storedOr(rec, time.Now())), true
}

// attempt describes an attempt of the call that is over.
func (c *toolCall) attempt(n int, started bool, status schemas.StopReason, ended time.Time) SettledCall {
	call := SettledCall{
		TaskOf: c.task, ToolCallID: c.id(), Tool: c.start.Definition.Name, Attempt: max(n, 1),
		Started: started, Begun: c.since, Ended: ended, Status: status,
	}
	if call.Begun.IsZero() { // an owner before had settled it
		call.Begun = ended
	}
	return call
}

// storedOr is when the broker stored the record; now if it was this owner that wrote it.
func storedOr(rec schemas.ToolRecord, now time.Time) time.Time {
	if rec.Stored.IsZero() {
		return now
	}
	return rec.Stored
}
