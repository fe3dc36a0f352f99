package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

var deliverTests = []workTest{
	{"deliver is answered by the instance", testDeliver},
	{"deliver to nobody", testDeliverNobody},
	{"deliver to somebody who does not answer", testDeliverSilence},
	{"a wake-up names an ack subject of commands only", testAckSubjectChecked},
}

func rawWithReply(t *testing.T, c *bus.Conn, ref schemas.SessionRef, body []byte, reply string) {
	t.Helper()
	m := nats.NewMsg("braid." + ref.Project + ".command.run." + ref.ID)
	m.Data = body
	m.Header.Set("Braid-Reply", reply)
	if _, err := c.JetStream().PublishMsg(testContext(t), m); err != nil {
		t.Fatal(err)
	}
}

func testDeliver(t *testing.T, b *bustest.Broker, project string) {
	owner, other := b.Conn(t), b.Conn(t, len(b.Nodes)-1)
	instance := "e-" + project
	ref := schemas.SessionRef{Project: project, ID: "s"}
	want := bus.WakeUp{Session: ref, Lane: bus.LaneRun, AckSubject: "$JS.ACK.COMMANDS.run.1.7.1.1.0", Deliveries: 1}
	answers := []bus.DeliverAnswer{bus.DeliverMine, bus.DeliverNotMine, bus.DeliverDraining}
	stop, err := owner.ServeDeliver(instance, func(w bus.WakeUp) bus.DeliverAnswer {
		answer := answers[w.Sequence]
		if w.Sequence = 0; w != want {
			t.Errorf("got %+v, want %+v", w, want)
		}
		return answer
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for i, answer := range answers {
		w := want
		w.Sequence = uint64(i)
		if a := deliver(t, other, instance, w); a != answer {
			t.Errorf("got %s, want %s", a, answer)
		}
	}
}

// deliver hands a wake-up to an instance that answers, as often as it takes: the subscription may be on
// its way between nodes, and on a busy machine an answer may take longer than it is waited for.
func deliver(t *testing.T, c *bus.Conn, instance string, w bus.WakeUp) (a bus.DeliverAnswer) {
	t.Helper()
	eventually(t, instance+" answers", func() bool {
		var err error
		a, err = c.Deliver(testContext(t), instance, w)
		if err != nil && !errors.Is(err, bus.ErrNoInstance) && !errors.Is(err, bus.ErrNoAnswer) {
			t.Fatal(err)
		}
		return err == nil
	})
	return a
}

func testDeliverNobody(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	w := bus.WakeUp{Session: schemas.SessionRef{Project: project, ID: "s"}}
	if _, err := c.Deliver(testContext(t), "nobody-"+project, w); !errors.Is(err, bus.ErrNoInstance) {
		t.Fatalf("got %v, want ErrNoInstance", err)
	}
}

func testDeliverSilence(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	instance := "deaf-" + project
	if _, err := c.NATS().SubscribeSync("braid.engine." + instance + ".deliver"); err != nil {
		t.Fatal(err)
	}
	w := bus.WakeUp{Session: schemas.SessionRef{Project: project, ID: "s"}}
	if _, err := c.Deliver(testContext(t), instance, w); !errors.Is(err, bus.ErrNoAnswer) {
		t.Fatalf("got %v, want ErrNoAnswer", err)
	}
}

// The ack subject comes from another process; it must not make us publish anywhere.
func testAckSubjectChecked(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	for _, subject := range []string{"", "x", "braid." + project + ".command.run.s", "$JS.ACK.TOOLS.run.1.7.1.1.0", "$JS.ACK.COMMANDS.run.1.7.1.1.*", "$JS.ACK.COMMANDS"} {
		w := bus.WakeUp{AckSubject: subject}
		if c.Ack(testContext(t), w) == nil || c.Nak(w, 0) == nil {
			t.Errorf("%q is taken for an ack subject", subject)
		}
	}
}

var wakeUpTests = []workTest{
	{"each lane gets its commands", testLanes},
	{"TestCase_B03_nothing_is_fetched_ahead", testCaseB03NoPrefetch},
	{"TestCase_B05_delayed_wake_ups_do_not_starve_an_abort", testCaseB05Starve},
	{"TestCase_B04_an_old_delivery_still_counts_so_only_the_owner_acks", testCaseB04OldAck},
	{"TestCase_B26_a_cancelled_pull_holds_nothing_back", testCaseB26CancelledPull},
	{"a deleted consumer is made again and rings for all", testConsumerDeleted},
	{"a command of no session is dropped", testStrayCommand},
	{"a forwarded wake-up is acknowledged by the owner alone", testForwardedAck},
	{"create waits for room while an abort is delivered", testControlPastRun},
}

// emptyLanes takes everything off the lanes.
func emptyLanes(t *testing.T, c *bus.Conn) {
	t.Helper()
	stream, err := c.JetStream().Stream(testContext(t), "COMMANDS")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(testContext(t)); err != nil {
		t.Fatal(err)
	}
}

// pull pulls until there is something.
func pull(t *testing.T, c *bus.Conn, lane bus.Lane, most int) []bus.WakeUp {
	t.Helper()
	var got []bus.WakeUp
	eventually(t, "a wake-up on "+string(lane), func() bool {
		var err error
		if got, err = c.PullWakeUps(testContext(t), lane, most); err != nil {
			t.Fatal(err)
		}
		return len(got) > 0
	})
	return got
}

func ack(t *testing.T, c *bus.Conn, wakeUps ...bus.WakeUp) {
	t.Helper()
	for _, w := range wakeUps {
		if err := c.Ack(testContext(t), w); err != nil {
			t.Fatal(err)
		}
	}
}

func testLanes(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "s"}
	run := send(t, c, task(ref, "lanes-task", strings.Repeat("x", 100_000)))
	ctl := send(t, c, abort(ref, "lanes-abort"))
	for _, row := range []struct {
		lane bus.Lane
		want uint64
	}{{bus.LaneRun, run}, {bus.LaneControl, ctl}} {
		got := pull(t, c, row.lane, 10)
		if len(got) != 1 || got[0].Sequence != row.want || got[0].Session != ref || got[0].Lane != row.lane || got[0].Deliveries < 1 {
			t.Errorf("%s: got %+v, want %d", row.lane, got, row.want)
		}
		ack(t, c, got...)
		emptied(t, c, row.lane, got[0])
	}
	if _, err := c.PullWakeUps(testContext(t), "at", 1); err == nil {
		t.Error("there is no lane at")
	}
}

// emptied waits until a lane whose only wake-up is acknowledged hands out nothing. Among several nodes the
// consumer may get another leader, which need not know of the acknowledgement and hands it out again: as what
// it is, a wake-up that was delivered before, and which the next acknowledgement ends.
func emptied(t *testing.T, c *bus.Conn, lane bus.Lane, acknowledged bus.WakeUp) {
	t.Helper()
	eventually(t, string(lane)+" is empty", func() bool {
		again, err := c.PullWakeUps(testContext(t), lane, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range again {
			if w.Sequence != acknowledged.Sequence || w.Deliveries < 2 {
				t.Errorf("%s, acknowledged %+v: got %+v", lane, acknowledged, w)
			}
		}
		ack(t, c, again...)
		return len(again) == 0
	})
}

// An engine that pulls 2 of 10 must leave 8 for others, however long it works on its two.
func testCaseB03NoPrefetch(t *testing.T, b *bustest.Broker, project string) {
	slow, fast := b.Conn(t), b.Conn(t)
	for i := range 10 {
		send(t, slow, task(schemas.SessionRef{Project: project, ID: fmt.Sprintf("b03-%d", i)}, "c", "x"))
	}
	held := pull(t, slow, bus.LaneRun, 2)
	if len(held) > 2 {
		t.Fatalf("got %d, asked for 2", len(held))
	}
	seen := map[uint64]bool{}
	for _, w := range held {
		seen[w.Sequence] = true
	}
	for len(seen) < 10 {
		for _, w := range pull(t, fast, bus.LaneRun, 3) {
			if !seen[w.Sequence] && w.Deliveries > 1 {
				t.Fatalf("%d was handed out before, and to nobody", w.Sequence)
			}
			if seen[w.Sequence] && w.Deliveries < 2 {
				t.Fatalf("%d was handed out twice", w.Sequence)
			}
			if slices.ContainsFunc(held, func(h bus.WakeUp) bool { return h.Sequence == w.Sequence }) {
				continue // the broker's patience with the slow one is over
			}
			seen[w.Sequence] = true
			ack(t, fast, w)
			for _, h := range held {
				if err := slow.NATS().Publish(h.AckSubject, []byte("+WPI")); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	ack(t, slow, held...)
}

// With a bound on unacknowledged messages (1,000 by default), this abort is never delivered.
func testCaseB05Starve(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	const many = 1100
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < many; i += 8 {
				if _, err := c.SendCommand(t.Context(), abort(schemas.SessionRef{Project: project, ID: fmt.Sprintf("b05-%d", i)}, "c")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	delayed := map[uint64]bool{}
	delay := func(w bus.WakeUp) {
		delayed[w.Sequence] = true
		if err := c.Nak(w, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	for len(delayed) < many {
		for _, w := range pull(t, c, bus.LaneControl, 200) {
			delay(w)
		}
	}
	want := send(t, c, abort(schemas.SessionRef{Project: project, ID: "b05-urgent"}, "c"))
	for got := pull(t, c, bus.LaneControl, 1)[0]; got.Sequence != want; got = pull(t, c, bus.LaneControl, 1)[0] {
		if !delayed[got.Sequence] || got.Deliveries < 2 { // one that was delayed too late comes once more
			t.Fatalf("got %+v, want %d", got, want)
		}
		delay(got)
	}
}

// The broker goes by the stream sequence: A's answer to its first delivery ends what C holds.
// That is why a forwarder never acknowledges, and an owner that lost its session must not.
func testCaseB04OldAck(t *testing.T, b *bustest.Broker, project string) {
	a, second := b.Conn(t), b.Conn(t)
	seq := send(t, a, task(schemas.SessionRef{Project: project, ID: "b04"}, "c", "x"))
	first := pull(t, a, bus.LaneRun, 1)[0]
	if err := a.Nak(first, 0); err != nil {
		t.Fatal(err)
	}
	again := pull(t, second, bus.LaneRun, 1)[0]
	if again.Sequence != seq || again.Deliveries <= first.Deliveries || again.AckSubject == first.AckSubject {
		t.Fatalf("got %+v after %+v", again, first)
	}
	ack(t, a, first)
	if err := second.Nak(again, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := second.PullWakeUps(testContext(t), bus.LaneRun, 1); err != nil || len(got) != 0 {
		t.Fatalf("got %+v, %v: the broker now tells deliveries apart, so the rule that only owners acknowledge may be relaxed", got, err)
	}
}

func testCaseB26CancelledPull(t *testing.T, b *bustest.Broker, project string) {
	leaving, staying := b.Conn(t), b.Conn(t)
	for round := range 6 {
		ctx, cancel := context.WithCancel(testContext(t))
		var wg sync.WaitGroup
		var kept []bus.WakeUp
		wg.Go(func() {
			got, err := leaving.PullWakeUps(ctx, bus.LaneRun, 5)
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			kept = got
		})
		seq := send(t, staying, task(schemas.SessionRef{Project: project, ID: "b26"}, fmt.Sprintf("c%d", round), "x"))
		cancel()
		wg.Wait()
		if len(kept) > 0 { // it came before the end: the caller has it
			ack(t, leaving, kept...)
			continue
		}
		got := pull(t, staying, bus.LaneRun, 1)
		if got[0].Sequence != seq {
			t.Fatalf("round %d: got %+v, want %d", round, got, seq)
		}
		ack(t, staying, got...)
	}
	eventually(t, "no pull waits at the broker", func() bool {
		info, err := staying.JetStream().Consumer(testContext(t), "COMMANDS", "run")
		if err != nil {
			t.Fatal(err)
		}
		return info.CachedInfo().NumWaiting == 0
	})
}

// With a new consumer that starts at what is new, the held wake-up is lost.
func testConsumerDeleted(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	seq := send(t, c, task(schemas.SessionRef{Project: project, ID: "deleted"}, "c", "x"))
	pull(t, c, bus.LaneRun, 1)
	if err := c.JetStream().DeleteConsumer(testContext(t), "COMMANDS", "run"); err != nil {
		t.Fatal(err)
	}
	got := pull(t, c, bus.LaneRun, 1)[0]
	if got.Sequence != seq {
		t.Fatalf("got %+v, want %d", got, seq)
	}
	ack(t, c, got)
}

// The server stores publishes to literal wildcards: such a message must not ring as a session,
// nor come back for ever.
func testStrayCommand(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	if err := c.NATS().Publish("braid."+project+".command.run.*", []byte("x")); err != nil {
		t.Fatal(err)
	}
	seq := send(t, c, task(schemas.SessionRef{Project: project, ID: "good"}, "c", "x"))
	got := pull(t, c, bus.LaneRun, 10)
	if len(got) != 1 || got[0].Sequence != seq {
		t.Fatalf("got %+v, want %d alone", got, seq)
	}
	ack(t, c, got...)
	eventually(t, "nothing is left unacknowledged", func() bool {
		consumer, err := c.JetStream().Consumer(testContext(t), "COMMANDS", "run")
		if err != nil {
			t.Fatal(err)
		}
		info := consumer.CachedInfo()
		return info.NumAckPending == 0 && info.NumPending == 0
	})
}

// Engine B pulls a wake-up for a session of A and hands it over. A answers, and dies before the
// outcome is stored. B has acknowledged nothing, so somebody gets it again.
func testForwardedAck(t *testing.T, b *bustest.Broker, project string) {
	a, forwarder := b.Conn(t), b.Conn(t)
	instance := "owner-" + project
	stop, err := a.ServeDeliver(instance, func(bus.WakeUp) bus.DeliverAnswer { return bus.DeliverMine })
	if err != nil {
		t.Fatal(err)
	}
	seq := send(t, forwarder, task(schemas.SessionRef{Project: project, ID: "forwarded"}, "c", "x"))
	w := pull(t, forwarder, bus.LaneRun, 1)[0]
	if answer := deliver(t, forwarder, instance, w); answer != bus.DeliverMine {
		t.Fatalf("got %s", answer)
	}
	stop() // A dies here
	again := pull(t, forwarder, bus.LaneRun, 1)[0]
	if again.Sequence != seq || again.Deliveries < 2 {
		t.Fatalf("got %+v, want %d again", again, seq)
	}
	ack(t, forwarder, again)
}

func testControlPastRun(t *testing.T, b *bustest.Broker, project string) {
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: project, ID: "waiting"}
	create := schemas.Command{ID: "create", Type: schemas.CommandCreate, Session: ref, Create: &schemas.CreateBody{Model: "scripted/demo"}}
	first := send(t, c, create)
	second := send(t, c, abort(ref, "abort"))
	got := pull(t, c, bus.LaneControl, 1)[0]
	if got.Sequence != second {
		t.Fatalf("got %+v, want %d", got, second)
	}
	// Whoever owns the session then reads both, in order, although only one rang.
	commands, err := c.ReadCommands(testContext(t), ref, 0, got.Sequence)
	if err != nil || ids(commands) != "create abort" {
		t.Fatalf("got %s, %v", ids(commands), err)
	}
	ack(t, c, got)
	if run := pull(t, c, bus.LaneRun, 1)[0]; run.Sequence != first {
		t.Fatalf("got %+v, want %d", run, first)
	} else {
		ack(t, c, run)
	}
}
