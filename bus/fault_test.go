package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// TestWorkStorm keeps everything in use while the nodes that lead the streams are stopped one
// after another, and then looks at what the streams hold.
func TestWorkStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster takes seconds to start; left out with -short")
	}
	t.Parallel()
	b := bustest.Cluster(t)
	s := newStorm(t, b)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	over, stop := context.WithCancel(ctx)
	var work, background sync.WaitGroup
	for i := range 3 {
		conn := b.Conn(t, i)
		work.Go(func() { s.sendCommands(ctx, conn, i) })
		work.Go(func() { s.runTools(ctx, conn, i) })
		background.Go(func() { s.pullWakeUps(over, conn) })
		background.Go(func() { s.judge(over, conn, i) })
	}
	work.Go(func() { s.queueTools(ctx, s.c) })
	s.schedule(ctx)
	for _, stream := range []string{"COMMANDS", "KV_INSTANCES", "TOOLS"} {
		s.stopLeader(ctx, stream)
	}
	close(s.calm)
	work.Wait()
	s.check(ctx)
	stop()
	background.Wait()
}

const (
	stormCalls     = 40
	stormSchedules = 10
)

// storm is the state of TestWorkStorm.
type storm struct {
	t    *testing.T
	b    *bustest.Broker
	c    *bus.Conn
	calm chan struct{} // closed when no more nodes are stopped

	mu     sync.Mutex
	rung   map[uint64]bool
	sent   map[schemas.SessionRef][]string
	last   map[schemas.SessionRef]uint64
	starts map[string]int
}

func newStorm(t *testing.T, b *bustest.Broker) *storm {
	return &storm{t: t, b: b, c: b.Conn(t), calm: make(chan struct{}),
		rung: map[uint64]bool{}, sent: map[schemas.SessionRef][]string{},
		last: map[schemas.SessionRef]uint64{}, starts: map[string]int{}}
}

// sendCommands sends until the storm is over; every command is accepted, whatever goes on.
func (s *storm) sendCommands(ctx context.Context, c *bus.Conn, i int) {
	ref := schemas.SessionRef{Project: "storm", ID: fmt.Sprintf("s%d", i)}
	for n := 0; ; n++ {
		select {
		case <-s.calm:
			if n >= 50 {
				return
			}
		default:
		}
		cmd := task(ref, fmt.Sprintf("c%d", n), "x")
		if n%4 == 1 {
			cmd = abort(ref, cmd.ID)
		}
		r, err := c.SendCommand(ctx, cmd)
		if err != nil {
			s.t.Errorf("send: %v", err)
			return
		}
		s.mu.Lock()
		s.sent[ref] = append(s.sent[ref], cmd.ID)
		s.last[ref] = r.Sequence
		s.mu.Unlock()
		pause(ctx, 20*time.Millisecond) // a person's pace, so that the storm outlasts the sending
	}
}

// pullWakeUps plays the engines: each wake-up is acknowledged once it was read up to.
func (s *storm) pullWakeUps(ctx context.Context, c *bus.Conn) {
	for ctx.Err() == nil {
		for _, lane := range []bus.Lane{bus.LaneRun, bus.LaneControl} {
			got, err := c.PullWakeUps(ctx, lane, 16)
			if err != nil && ctx.Err() == nil {
				s.t.Errorf("pull: %v", err)
			}
			for _, w := range got {
				commands, err := c.ReadCommands(ctx, w.Session, w.Sequence-1, w.Sequence)
				if err != nil {
					if ctx.Err() == nil {
						s.t.Errorf("read: %v", err)
					}
					continue
				}
				if len(commands) != 1 || commands[0].Sequence != w.Sequence {
					s.t.Errorf("the wake-up of %d reads %s", w.Sequence, ids(commands))
				}
				if err := c.Ack(ctx, w); err == nil {
					s.mu.Lock()
					s.rung[w.Sequence] = true
					s.mu.Unlock()
				}
			}
		}
	}
}

// judge beats, and takes no living instance for gone.
func (s *storm) judge(ctx context.Context, c *bus.Conn, i int) {
	beat, err := c.StartBeat(ctx, bus.KindEngine, fmt.Sprintf("e%d", i), nil)
	if err != nil {
		s.t.Errorf("beat: %v", err)
		return
	}
	for ctx.Err() == nil {
		for other := range 3 {
			gone, err := beat.Gone(ctx, bus.KindEngine, fmt.Sprintf("e%d", other))
			if err != nil && ctx.Err() == nil {
				s.t.Errorf("judge: %v", err)
			}
			if gone && ctx.Err() == nil {
				s.t.Logf("e%d takes e%d for gone", i, other)
			}
		}
		pause(ctx, 100*time.Millisecond)
	}
	stop, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	if err := beat.Stop(stop); err != nil {
		s.t.Errorf("stop the beat: %v", err)
	}
}

func (s *storm) schedule(ctx context.Context) {
	ref := schemas.SessionRef{Project: "storm", ID: "scheduled"}
	for i := range stormSchedules {
		call := fmt.Sprintf("call-%d", i)
		if err := s.c.Schedule(ctx, ref, call, time.Now().Add(time.Duration(i)*500*time.Millisecond), decision(ref, "at-"+call, call)); err != nil {
			s.t.Errorf("schedule: %v", err)
		}
	}
}

func (s *storm) queueTools(ctx context.Context, c *bus.Conn) {
	ref := schemas.SessionRef{Project: "storm", ID: "tools"}
	for i := range stormCalls {
		call := fmt.Sprintf("call-%d", i)
		seq, err := c.WriteRecord(ctx, ref, call, 0, queued(1))
		if err == nil {
			_, err = c.QueueTool(ctx, "p", toolRequest(ref, call, seq))
		}
		if err != nil {
			s.t.Errorf("queue: %v", err)
		}
	}
}

// runTools plays a toolrunner until every call is done. It counts what it starts.
func (s *storm) runTools(ctx context.Context, c *bus.Conn, i int) {
	q, err := c.ToolQueue(ctx, "storm", "p", bus.ToolQueueOptions{AckWait: 2 * time.Second})
	if err != nil {
		s.t.Errorf("tool queue: %v", err)
		return
	}
	for ctx.Err() == nil {
		s.mu.Lock()
		done := len(s.starts) == stormCalls
		s.mu.Unlock()
		if done {
			return
		}
		calls, err := q.Pull(ctx, 4)
		if err != nil && ctx.Err() == nil {
			s.t.Errorf("pull calls: %v", err)
		}
		for _, call := range calls {
			s.runTool(ctx, c, q, call, fmt.Sprintf("r%d", i))
		}
	}
}

func (s *storm) runTool(ctx context.Context, c *bus.Conn, q *bus.ToolQueue, call bus.QueuedTool, runner string) {
	id := call.Request.ToolCallID
	_, err := c.WriteRecord(ctx, call.Request.Session, id, call.Request.Queued, started(runner, freshName()))
	var conflict *bus.RecordConflict
	switch {
	case err == nil:
		s.mu.Lock()
		s.starts[id]++
		s.mu.Unlock()
	case !errors.As(err, &conflict):
		if ctx.Err() == nil {
			s.t.Errorf("start %s: %v", id, err)
		}
		return
	}
	if err := q.Ack(ctx, call); err != nil && ctx.Err() == nil {
		s.t.Errorf("acknowledge %s: %v", id, err)
	}
}

// stopLeader stops the node that leads a stream, waits for the others to go on, and starts it.
func (s *storm) stopLeader(ctx context.Context, stream string) {
	node := leaderOf(ctx, s.t, s.c, stream)
	s.b.Stop(node)
	witness := schemas.SessionRef{Project: "storm", ID: "witness"}
	if _, err := s.c.SendCommand(ctx, abort(witness, "after-"+strings.ToLower(stream)+"-"+freshName())); err != nil {
		s.t.Errorf("without the leader of %s: %v", stream, err)
	}
	s.b.Start(s.t, node)
	eventually(s.t, "all replicas of "+stream+" are current", func() bool {
		info := streamInfo(ctx, s.c, stream)
		if info == nil || info.Cluster == nil || info.Cluster.Leader == "" || len(info.Cluster.Replicas) != 2 {
			return false
		}
		for _, r := range info.Cluster.Replicas {
			if !r.Current || r.Offline {
				return false
			}
		}
		return true
	})
}

func streamInfo(ctx context.Context, c *bus.Conn, stream string) *jetstream.StreamInfo {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s, err := c.JetStream().Stream(ctx, stream)
	if err != nil {
		return nil
	}
	return s.CachedInfo()
}

func leaderOf(ctx context.Context, t *testing.T, c *bus.Conn, stream string) int {
	t.Helper()
	var node int
	eventually(t, stream+" has a leader", func() bool {
		info := streamInfo(ctx, c, stream)
		if info == nil || info.Cluster == nil {
			return false
		}
		_, err := fmt.Sscanf(info.Cluster.Leader, "n%d", &node)
		return err == nil
	})
	return node
}

// check looks at the streams when all is over.
func (s *storm) check(ctx context.Context) {
	for ref, want := range s.sent {
		got, err := s.c.ReadCommands(ctx, ref, 0, 0)
		if err != nil || ids(got) != strings.Join(want, " ") {
			s.t.Errorf("%s: sent %d, stored %d, %v", ref, len(want), len(got), err)
		}
		eventually(s.t, "every command of "+ref.String()+" rang", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, cmd := range got {
				if !s.rung[cmd.Sequence] {
					return false
				}
			}
			return true
		})
	}
	if len(s.starts) != stormCalls {
		s.t.Errorf("%d calls were started, want %d", len(s.starts), stormCalls)
	}
	for call, n := range s.starts {
		if n != 1 {
			s.t.Errorf("%s was started %d times", call, n)
		}
	}
	ref := schemas.SessionRef{Project: "storm", ID: "scheduled"}
	var fired []bus.StoredCommand
	eventually(s.t, "every schedule fired", func() bool {
		var err error
		if fired, err = s.c.ReadCommands(ctx, ref, 0, 0); err != nil {
			s.t.Error(err)
		}
		return len(fired) >= stormSchedules
	})
	if len(fired) != stormSchedules {
		s.t.Errorf("%d schedules fired %d times", stormSchedules, len(fired))
	}
}

// TestCase_B25_a_command_outlasts_the_broker: the client's own retries cover too little, so the
// command's sender goes on until its own time is over, and stores it once.
func TestCase_B25_a_command_outlasts_the_broker(t *testing.T) {
	t.Parallel()
	b := bustest.Listening(t)
	c := b.Conn(t)
	ref := schemas.SessionRef{Project: "p", ID: "s"}
	b.Stop(0)
	var wg sync.WaitGroup
	defer wg.Wait()
	sent := make(chan error, 1)
	wg.Go(func() {
		_, err := c.SendCommand(testContext(t), task(ref, "c", "x"))
		sent <- err
	})
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := c.SendCommand(short, task(ref, "short", "x")); !errors.Is(err, &schemas.Error{Code: schemas.CodeUnavailable}) {
		t.Errorf("without a broker: got %v, want unavailable", err)
	}
	select {
	case err := <-sent:
		t.Errorf("given up: %v", err)
	default:
	}
	b.Start(t, 0)
	if err := <-sent; err != nil {
		t.Errorf("got %v", err)
	}
	got, err := c.ReadCommands(testContext(t), ref, 0, 0)
	if err != nil || strings.Count(ids(got), "c") != 1 {
		t.Errorf("got %q, %v, want c once", ids(got), err)
	}
}

// TestBrokerAway: life, fragments and services over a restart of the broker.
func TestBrokerAway(t *testing.T) {
	t.Parallel()
	b := bustest.Listening(t)
	c, other := b.Conn(t), b.Conn(t)
	ref := schemas.SessionRef{Project: "p", ID: "s"}
	judge := beat(t, c, bus.KindEngine, "judge")
	living := beat(t, other, bus.KindEngine, "other")
	lost := make(chan struct{}, 16)
	stop, err := c.SubscribeFragments(ref, func(schemas.ToolFragment) {}, func() { lost <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	stopDeliver, err := other.ServeDeliver("other", func(bus.WakeUp) bus.DeliverAnswer { return bus.DeliverMine })
	if err != nil {
		t.Fatal(err)
	}
	defer stopDeliver()
	eventually(t, "the judge may judge", func() bool { return gone(t, judge, bus.KindEngine, "never") })
	b.Stop(0)
	eventually(t, "no beat is healthy", func() bool { return !judge.Healthy() && !living.Healthy() })
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if dead, err := judge.Gone(short, bus.KindEngine, "other"); dead || err == nil {
		t.Errorf("without a broker: got %v, %v; nobody can be judged", dead, err)
	}
	b.Start(t, 0)
	receive(t, lost) // the tool said something meanwhile, for all we know, and may say nothing more
	eventually(t, "the beats are healthy", func() bool { return judge.Healthy() && living.Healthy() })
	if a := deliver(t, c, "other", bus.WakeUp{Session: ref, AckSubject: "$JS.ACK.COMMANDS.run.1.7.1.1.0"}); a != bus.DeliverMine {
		t.Errorf("the other one answers %s", a)
	}
	notGone(t, judge, living, bus.KindEngine, "other") // they were away together
}
