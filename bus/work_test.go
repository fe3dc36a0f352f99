package bus_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// workTest is a test of commands, wake-ups, liveness, tools or queries. It shares its broker with
// the others and runs beside them, so it uses a project of its own.
type workTest struct {
	name string
	run  func(t *testing.T, b *bustest.Broker, project string)
}

// TestWork runs them on one node and on three, beside one another.
func TestWork(t *testing.T) {
	t.Parallel() // after TestWorkAlone
	tests := slices.Concat(commandTests, deliverTests, livenessTests, runningTests, scheduleTests,
		recordTests, toolTests, fragmentTests, registryTests, queryTests)
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				test.run(t, b, newProject())
			})
		}
	})
}

// TestWorkAlone runs, one after another, the tests that take all wake-ups or that disturb reads.
func TestWorkAlone(t *testing.T) {
	tests := slices.Concat(wakeUpTests, staleTests)
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				emptyLanes(t, b.Conn(t))
				test.run(t, b, newProject())
			})
		}
	})
}

// receive waits for a value.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(testTime):
		t.Fatal("waited in vain for a value")
		panic("not reached")
	}
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(testTime)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		case <-tick.C:
		}
	}
}

// settle gives something that must not happen the time of a few round trips to happen.
func settle(t *testing.T, conns ...*bus.Conn) {
	t.Helper()
	for range 3 {
		for _, c := range conns {
			if err := c.NATS().Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func task(ref schemas.SessionRef, id, prompt string) schemas.Command {
	return schemas.Command{ID: id, Type: schemas.CommandTask, Session: ref, Task: &schemas.TaskBody{Prompt: prompt}}
}

func abort(ref schemas.SessionRef, id string) schemas.Command {
	return schemas.Command{ID: id, Type: schemas.CommandAbort, Session: ref, Abort: &schemas.AbortBody{}}
}

// send sends a command and returns where it is stored.
func send(t *testing.T, c *bus.Conn, cmd schemas.Command) uint64 {
	t.Helper()
	r, err := c.SendCommand(testContext(t), cmd)
	if err != nil {
		t.Fatalf("send %s: %v", cmd.ID, err)
	}
	return r.Sequence
}

func ids(commands []bus.StoredCommand) string {
	var out []string
	for _, c := range commands {
		out = append(out, c.ID)
	}
	return strings.Join(out, " ")
}

// raw stores bytes past everything this package checks.
func raw(t *testing.T, c *bus.Conn, subject string, body []byte) uint64 {
	t.Helper()
	m := nats.NewMsg(subject)
	m.Data = body
	// No stream answers while it elects a leader; then it has stored nothing either.
	ack, err := c.JetStream().PublishMsg(testContext(t), m, jetstream.WithRetryAttempts(100))
	if err != nil {
		t.Fatalf("publish to %s: %v", subject, err)
	}
	return ack.Sequence
}

// hostileNames are what must never reach a subject.
var hostileNames = []string{"", "*", ">", "a.b", "a b", "é", "a\r\nPUB y 0", strings.Repeat("x", 65)}
