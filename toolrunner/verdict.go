package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"braid/schemas"
)

// verdict is how a call ended once everything is weighed.
type verdict struct {
	StopReason schemas.StopReason
	// Own is the tool's own note, Note the one about the end that was put upon it.
	Own, Note string
	Images    []string
}

// Notes are the verdict's lines at the end of the output.
func (v verdict) Notes() []string { return []string{v.Own, v.Note} }

// judge decides how the call ended: an abort outranks a timeout, that a crash or error, and that
// the tool's own word. A bound that had passed when the tool returned counts, since nobody can
// tell whether the tool was cut short by it.
func (e *Execution) judge(ctx, bounded context.Context, own Result, stray bool) verdict {
	v := verdict{Own: own.Note, Images: slices.Clone(own.Images)}
	still := ""
	if stray {
		still = fmt.Sprintf("; it did not stop within %v and may still be running", e.limits.Grace)
	}
	switch {
	case ctx.Err() != nil:
		v.StopReason, v.Note = schemas.StopAborted, abortNote(ctx, still)
	case bounded.Err() != nil:
		v.StopReason, v.Note = schemas.StopTimeout, fmt.Sprintf("[timed out after %v%s]", e.limits.Timeout, still)
	case own.Err != nil:
		v.StopReason, v.Note = schemas.StopFailed, fmt.Sprintf("[failed: %v]", own.Err)
	case own.StopReason != "":
		v.StopReason = own.StopReason
	default:
		v.StopReason = schemas.StopCompleted
	}
	return v
}

// abortNote says that and why the call was aborted.
func abortNote(ctx context.Context, detail string) string {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Sprintf("[aborted%s: %v]", detail, cause)
	}
	return fmt.Sprintf("[aborted%s]", detail)
}
