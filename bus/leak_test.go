package bus_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"braid/bus/bustest"
)

// pool holds the brokers of tests that leave them as they are.
var pool bustest.Pool

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(pooled{m},
		// A node that is stopped while it catches up leaves these of its streams behind.
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"),
	)
}

// pooled stops the pool before leaks are looked for.
type pooled struct{ m *testing.M }

func (p pooled) Run() int {
	defer pool.Stop()
	// Tests that run beside one another mostly wait for the broker's clocks, not for a processor.
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	return p.m.Run()
}
