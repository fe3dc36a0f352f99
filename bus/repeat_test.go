package bus_test

import (
	"errors"
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// An id means one command for as long as that is kept, and not only for as long as the broker remembers ids:
// a repeat gets the first one's outcome, another command is told that it is one.
func TestAnIDOutlivesTheBrokersMemoryOfIt(t *testing.T) {
	t.Parallel()
	b := bustest.Single(t)
	sender, engine := b.Conn(t), b.Conn(t)
	ref := schemas.SessionRef{Project: "p", ID: "s"}
	stream, err := sender.JetStream().Stream(testContext(t), "COMMANDS")
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.Duplicates = 100 * time.Millisecond // the least there is
	if _, err := sender.JetStream().UpdateStream(testContext(t), config); err != nil {
		t.Fatal(err)
	}
	first := send(t, sender, task(ref, "c", "x"))
	serveOutcomes(t, engine, ref, func(id string) (schemas.Outcome, bool) {
		return schemas.Outcome{CommandID: id, Sequence: first, Code: schemas.CodeApplied}, true
	})
	forgotten := func(prompt string, check func(error)) {
		eventually(t, "the broker has forgotten the id", func() bool {
			_, receipt, err := sender.SendAndWait(testContext(t), task(ref, "c", prompt), testTime)
			check(err)
			return !receipt.Duplicate && receipt.Sequence > first
		})
	}
	forgotten("x", func(err error) {
		if err != nil {
			t.Fatalf("a repeat: %v", err)
		}
	})
	forgotten("y", func(err error) {
		if !errors.Is(err, &schemas.Error{Code: schemas.CodeConflict}) {
			t.Fatalf("another command: %v", err)
		}
	})
	// What stands there in a stream that was made anew is none of the sender's.
	other := send(t, sender, task(schemas.SessionRef{Project: "p", ID: "other"}, "d", "z"))
	first = other
	var receipt bus.Receipt
	if _, receipt, err = sender.SendAndWait(testContext(t), task(ref, "e", "z"), testTime); err != nil || receipt.Sequence == other {
		t.Errorf("the outcome of a stream that is no more: %+v, %v", receipt, err)
	}
}
