package bus_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

var soakTime = flag.Duration("soak", 5*time.Second, "how long TestSoak runs")

// TestSoak lets two engines fight for sessions, each through its own node of three, while the
// leaders of the streams step down and nodes restart. Every takeover must read every frame that was acknowledged
// before its claim; no frame may stand behind a newer claim, twice or out of order; and a watcher
// on the third node must see exactly what is stored. Give it longer with
//
//	go test ./bus -run Soak -soak 5m -timeout 10m
func TestSoak(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a soak; left out with -short")
	}
	b := bustest.Cluster(t)
	s := &soak{t: t, broker: b, conns: []*bus.Conn{b.Conn(t, 0), b.Conn(t, 1)}, watcher: b.Conn(t, 2)}
	const sessions = 6
	for range sessions {
		s.sessions = append(s.sessions, &contested{ref: newSession(), acked: map[uint64]string{}})
	}
	ctx, stop := context.WithTimeout(context.Background(), *soakTime)
	defer stop()
	var fight, watch sync.WaitGroup
	for _, session := range s.sessions {
		f := follow(t, s.watcher, session.ref, bus.FollowOptions{Beginning: true, CheckEvery: time.Second})
		watch.Go(func() { s.watch(f, session) })
		for engine := range s.conns {
			fight.Go(func() { s.fight(ctx, session, engine) })
		}
	}
	fight.Go(func() { s.unsettle(ctx) })
	fight.Wait()
	for _, session := range s.sessions {
		s.audit(session)
	}
	watch.Wait()
	for _, session := range s.sessions {
		if !slices.Equal(session.seen, session.stored) {
			t.Errorf("%s: the watcher saw %d frames, %d are stored, or others", session.ref, len(session.seen), len(session.stored))
		}
	}
	t.Logf("%d frames, %d claims, %d lost claims, %d fenced, %d stepdowns, %d restarts", s.frames.Load(), s.claims.Load(), s.lost.Load(), s.fenced.Load(), s.stepdowns.Load(), s.restarts.Load())
}

type soak struct {
	t        *testing.T
	broker   *bustest.Broker
	conns    []*bus.Conn
	watcher  *bus.Conn
	sessions []*contested

	frames, claims, lost, fenced, stepdowns, restarts atomic.Int64
}

// contested is a session that engines fight for, and what is known for certain about it.
type contested struct {
	ref schemas.SessionRef

	mu     sync.Mutex
	acked  map[uint64]string // what was acknowledged, by sequence
	claims []uint64
	counts atomic.Int64

	end    atomic.Uint64 // behind the last frame, once the fight is over: in its time nobody may get to append
	seen   []string      // by the watcher
	stored []string
}

// ackedBefore lists the frames that were acknowledged by now and stand before a claim.
func (s *contested) ackedBefore(after, claim uint64) map[uint64]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := map[uint64]string{}
	for sequence, text := range s.acked {
		if after < sequence && sequence < claim {
			before[sequence] = text
		}
	}
	return before
}

// fight takes the session away from the other engine again and again.
func (s *soak) fight(ctx context.Context, session *contested, engine int) {
	c := s.conns[engine]
	read := bus.Point{}
	for ctx.Err() == nil {
		last, _, err := c.LastClaim(ctx, session.ref)
		if err != nil {
			continue
		}
		o, err := c.Claim(ctx, session.ref, bus.ClaimRequest{Instance: fmt.Sprintf("e%d", engine), After: last})
		if errors.Is(err, bus.ErrClaimLost) {
			s.lost.Add(1)
			continue
		}
		if err != nil {
			continue
		}
		s.claims.Add(1)
		session.mu.Lock()
		session.claims = append(session.claims, o.Fence())
		session.mu.Unlock()
		if read, err = s.takeOver(ctx, session, o, read); err != nil {
			continue
		}
		s.own(ctx, session, o)
		select { // let the other one have it
		case <-ctx.Done():
		case <-time.After(time.Duration(rand.IntN(30)) * time.Millisecond):
		}
	}
}

// takeOver reads what the owners before have stored and checks that nothing is missing.
func (s *soak) takeOver(ctx context.Context, session *contested, o *bus.Owner, read bus.Point) (bus.Point, error) {
	expected := session.ackedBefore(read.Sequence, o.Fence())
	for f, err := range o.Replay(ctx, read, bus.LogAndLive) {
		if err != nil {
			return read, err
		}
		if f.AfterGap {
			s.t.Errorf("%s: a gap before %d", session.ref, f.Sequence)
		}
		if text, ok := expected[f.Sequence]; ok && text != words(f.Messages...) {
			s.t.Errorf("%s: frame %d holds %q, stored was %q", session.ref, f.Sequence, words(f.Messages...), text)
		}
		delete(expected, f.Sequence)
		read = f.Point()
	}
	for sequence, text := range expected {
		s.t.Errorf("%s: claim %d did not read frame %d, %q", session.ref, o.Fence(), sequence, text)
	}
	return read, nil
}

// own appends until it is fenced or has had enough.
func (s *soak) own(ctx context.Context, session *contested, o *bus.Owner) {
	for range 20 + rand.IntN(60) {
		m := said("%d", session.counts.Add(1))
		if rand.IntN(2) == 0 {
			m = schemas.New(testNow, schemas.TextFragment(schemas.PhaseStart, fmt.Sprint(session.counts.Add(1))))
		}
		ack, err := o.Append(ctx, []schemas.Message{m}, 0)
		if errors.Is(err, bus.ErrFenced) {
			s.fenced.Add(1)
		} else if err != nil && ctx.Err() == nil {
			s.t.Errorf("%s: append: %v", session.ref, err)
		}
		if err != nil {
			return
		}
		s.frames.Add(1)
		session.mu.Lock()
		session.acked[ack.Sequence] = words(m)
		session.mu.Unlock()
	}
}

// unsettle makes the streams' leaders step down, and now and then restarts a node.
func (s *soak) unsettle(ctx context.Context) {
	for step := 1; ; step++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(400 * time.Millisecond):
		}
		if step%6 == 0 {
			node := step / 6 % len(s.broker.Nodes)
			s.broker.Stop(node)
			s.broker.Start(s.t, node)
			s.restarts.Add(1)
			continue
		}
		request, cancel := context.WithTimeout(ctx, time.Second)
		_, err := s.watcher.NATS().RequestWithContext(request, fmt.Sprintf("$JS.API.STREAM.LEADER.STEPDOWN.SESSIONS-%d", step%2), nil)
		cancel()
		if err == nil {
			s.stepdowns.Add(1)
		}
	}
}

// lastClaim claims the session for good: what was on its way is refused from then on, or stored before.
// A claim may be among it, of an engine that was told to stop before it knew.
func (s *soak) lastClaim(session *contested) {
	for {
		last, _, err := s.watcher.LastClaim(testContext(s.t), session.ref)
		if err != nil {
			s.t.Fatal(err)
		}
		_, err = s.watcher.Claim(testContext(s.t), session.ref, bus.ClaimRequest{Instance: "auditor", After: last})
		if err == nil {
			return
		}
		if !errors.Is(err, bus.ErrClaimLost) {
			s.t.Fatal(err)
		}
	}
}

// audit reads the session's whole stream and compares it with what is known.
func (s *soak) audit(session *contested) {
	fail := func(format string, args ...any) {
		s.t.Errorf("%s: %s", session.ref, fmt.Sprintf(format, args...))
	}
	s.lastClaim(session)
	slices.Sort(session.claims)
	number := map[uint64]uint64{}
	prev := uint64(0)
	for _, f := range readFrames(s.t, s.watcher, session.ref, bus.LogAndLive) {
		h := f.Header
		if i, _ := slices.BinarySearch(session.claims, h.Fence+1); i < len(session.claims) && session.claims[i] < f.Sequence {
			fail("frame %d of fence %d stands behind claim %d", f.Sequence, h.Fence, session.claims[i])
		}
		if h.N != number[h.Fence]+1 {
			fail("frame %d is number %d of fence %d, after %d", f.Sequence, h.N, h.Fence, number[h.Fence])
		}
		if h.Prev != prev {
			fail("frame %d names %d as the one before, that is %d", f.Sequence, h.Prev, prev)
		}
		number[h.Fence], prev = h.N, f.Sequence
		if text, ok := session.acked[f.Sequence]; ok && text != words(f.Messages...) {
			fail("frame %d holds %q, acknowledged was %q", f.Sequence, words(f.Messages...), text)
		}
		delete(session.acked, f.Sequence)
		session.stored = append(session.stored, fmt.Sprintf("%d %s", f.Sequence, words(f.Messages...)))
	}
	for sequence, text := range session.acked {
		fail("frame %d, %q, was acknowledged and is gone", sequence, text)
	}
	session.end.Store(prev + 1)
}

// watch follows the session until it has seen the last frame.
func (s *soak) watch(f *bus.Follower, session *contested) {
	last := uint64(0)
	for end := session.end.Load(); end == 0 || last+1 < end; end = session.end.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		e, err := f.Next(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			if s.t.Failed() {
				return
			}
			continue
		}
		switch e := e.(type) {
		case bus.Frame:
			if e.Sequence <= last {
				s.t.Errorf("%s: the watcher got %d after %d", session.ref, e.Sequence, last)
			}
			last = e.Sequence
			session.seen = append(session.seen, fmt.Sprintf("%d %s", e.Sequence, words(e.Messages...)))
		case bus.CaughtUpEvent:
		default:
			s.t.Errorf("%s: the watcher got %T %+v, %v", session.ref, e, e, err)
			return
		}
	}
}
