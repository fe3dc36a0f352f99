package bus_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"braid/bus/bustest"
)

// Who is refused asks what stands in the place of its record. That the answer is lost leaves it
// without a result, and a toolrunner with a call that it has started and does not run: it asks again.
func TestRefusedWriterAsksUntilItIsAnswered(t *testing.T) {
	t.Parallel()
	b := bustest.Single(t)
	c := b.Conn(t)
	ref := newSession()
	queue := write(t, c, ref, "call", 0, queued(1))
	start := write(t, c, ref, "call", queue, started("r", "n"))
	asked := make(chan *nats.Msg, 16)
	if _, err := c.NATS().ChanSubscribe("nobody", asked); err != nil {
		t.Fatal(err)
	}
	settle(t, c)
	restore, err := b.Nodes[0].Divert(fmt.Sprintf("$JS.API.STREAM.MSG.GET.OUTPUTS-%d", c.Shard(ref)), "nobody", 100)
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		sequence uint64
		err      error
	}
	done := make(chan result, 1)
	go func() {
		sequence, err := c.WriteRecord(testContext(t), ref, "call", queue, started("r", "n"))
		done <- result{sequence, err}
	}()
	receive(t, asked)
	restore()
	if got := receive(t, done); got.err != nil || got.sequence != start {
		t.Errorf("got %d, %v, want %d", got.sequence, got.err, start)
	}
}
