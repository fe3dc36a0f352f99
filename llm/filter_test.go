package llm

import (
	"context"
	"testing"
	"time"

	"braid/schemas"
)

// A model that returns at the moment its request is cancelled has not completed it, even if the
// guard notices the return first. No test from outside can force that order.
func TestCase_D28_ReturnedAsItWasCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := &filter{ctx: ctx, now: time.Now, emit: func(schemas.Message) error {
		t.Error("something was emitted")
		return nil
	}}
	if o := f.finish(Completed(&schemas.TokenCounts{Total: 1})); o.Status != schemas.StopAborted || o.Usage == nil {
		t.Errorf("%s, usage %v; want aborted with the usage", o.Status, o.Usage)
	}
}
