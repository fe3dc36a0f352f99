package bus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// collector runs ConsumeLog and keeps what it hands over.
type collector struct {
	mu      sync.Mutex
	records []bus.LogRecord
	batches int
	changed chan struct{} // closed and replaced at each batch
	err     chan error
	stop    context.CancelFunc
}

func collect(t testing.TB, c *bus.Conn, shard int, from uint64) *collector {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	k := &collector{changed: make(chan struct{}), err: make(chan error, 1), stop: cancel}
	var wg sync.WaitGroup
	wg.Go(func() {
		k.err <- c.ConsumeLog(ctx, shard, from, func(records []bus.LogRecord) error {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.records = append(k.records, records...)
			k.batches++
			close(k.changed)
			k.changed = make(chan struct{})
			return nil
		})
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return k
}

// await waits until what was handed over of the session satisfies done.
func (k *collector) await(t testing.TB, ref schemas.SessionRef, done func([]bus.LogRecord) bool) []bus.LogRecord {
	t.Helper()
	ctx := testContext(t)
	for {
		k.mu.Lock()
		var of []bus.LogRecord
		for _, r := range k.records {
			if r.Frame.Session == ref || r.Deleted != nil && *r.Deleted == ref {
				of = append(of, r)
			}
		}
		changed := k.changed
		k.mu.Unlock()
		if done(of) {
			return of
		}
		select {
		case <-changed:
		case err := <-k.err:
			t.Fatalf("consume log ended: %v", err)
		case <-ctx.Done():
			t.Fatalf("%d records of %s were handed over", len(of), ref)
		}
	}
}

// audit checks the order of everything handed over.
func (k *collector) audit(t testing.TB) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	last := uint64(0)
	for _, r := range k.records {
		if r.Sequence <= last {
			t.Fatalf("record %d follows %d", r.Sequence, last)
		}
		last = r.Sequence
		if r.Deleted == nil && !r.Passed && (!r.Frame.Header.Recorded || r.Frame.Sequence != r.Sequence) {
			t.Fatalf("record %d holds %+v", r.Sequence, r.Frame)
		}
	}
}

func count(n int) func([]bus.LogRecord) bool {
	return func(records []bus.LogRecord) bool { return len(records) >= n }
}

func recordWords(records []bus.LogRecord) string {
	var frames []bus.Frame
	for _, r := range records {
		frames = append(frames, r.Frame)
	}
	return frameWords(frames)
}

func TestConsumeLog(t *testing.T) {
	pool.Each(t, func(t *testing.T, b *bustest.Broker) {
		c := b.Conn(t)
		ref := newSession()
		o := claim(t, c, ref, "a", bus.Claim{})
		appendMessages(t, o, said("one"))
		appendMessages(t, o, delta("live"))
		k := collect(t, c, c.Shard(ref), 1)
		k.await(t, ref, count(1))
		appendMessages(t, o, said("two"))
		k.await(t, ref, count(2))
		o = claim(t, c, ref, "b", o.Claim()) // a claim is no record
		third := appendMessages(t, o, said("three"))
		k.await(t, ref, count(3))
		if err := c.DeleteSession(testContext(t), ref, "gateway"); err != nil {
			t.Fatal(err)
		}
		records := k.await(t, ref, func(r []bus.LogRecord) bool { return len(r) > 0 && r[len(r)-1].Deleted != nil })
		if got := recordWords(records[:3]); got != "one | two | three" || len(records) != 4 {
			t.Errorf("handed over %q and %d more", got, len(records)-3)
		}
		k.audit(t)
		if holds, err := c.ShardHolds(testContext(t), c.Shard(ref), third.Sequence, ""); err != nil || !holds {
			t.Errorf("the shard holds %d: %v, %v", third.Sequence, holds, err)
		}

		late := collect(t, c, c.Shard(ref), third.Sequence+1) // from a place in the stream on
		if got := late.await(t, ref, count(1)); got[0].Deleted == nil {
			t.Errorf("handed over %+v", got)
		}
	})
}

func TestConsumeLogBatches(t *testing.T) {
	b := pool.Single(t)
	c := b.Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	const frames = 1500
	for i := range frames {
		appendMessages(t, o, said("%d", i))
	}
	k := collect(t, c, c.Shard(ref), 1)
	got := k.await(t, ref, count(frames))
	for i, r := range got {
		if words(r.Frame.Messages...) != fmt.Sprint(i) {
			t.Fatalf("record %d holds %s", i, words(r.Frame.Messages...))
		}
	}
	k.audit(t)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.batches > frames/10 {
		t.Errorf("%d frames came in %d batches", frames, k.batches)
	}
}

func TestConsumeLogEnds(t *testing.T) {
	t.Parallel()
	b := pool.Single(t)
	c := b.Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	appendMessages(t, o, said("one"))
	refused := errors.New("the store is full")
	err := c.ConsumeLog(testContext(t), c.Shard(ref), 1, func([]bus.LogRecord) error { return refused })
	if !errors.Is(err, refused) {
		t.Errorf("batch failed: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.ConsumeLog(ctx, 0, 1, func([]bus.LogRecord) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := c.ConsumeLog(context.Background(), 99, 1, nil); err == nil {
		t.Error("there is a shard 99")
	}
	if err := c.ConsumeLog(testContext(t), c.Shard(ref), 1<<40, func([]bus.LogRecord) error { return nil }); !errors.Is(err, bus.ErrTailLost) {
		t.Errorf("from beyond the end: %v", err)
	}
}

// Who begins to consume is told when it has all that was stored before, also when that is
// nothing.
func TestConsumeLogTellsWhenAllIsThere(t *testing.T) {
	c := pool.Single(t).Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	var last uint64
	for range 3 {
		last = appendMessages(t, o, said("kept")).Sequence
	}
	for _, test := range []struct {
		why  string
		from uint64
		want bool // that something is handed over first
	}{
		{"all of it is new", 1, true},
		{"the last is new", last, true},
		{"nothing is new", last + 1, false},
	} {
		var before []bus.LogRecord
		told := errors.New("told")
		err := c.ConsumeLog(testContext(t), c.Shard(ref), test.from, func(records []bus.LogRecord) error {
			if len(records) == 0 {
				return told
			}
			before = append(before, records...)
			return nil
		})
		if !errors.Is(err, told) {
			t.Fatalf("%s: %v", test.why, err)
		}
		if n := len(before); (n > 0) != test.want || n > 0 && before[n-1].Sequence != last {
			t.Errorf("%s: %d records before that", test.why, n)
		}
	}
}
