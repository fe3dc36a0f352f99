package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"braid/schemas"
)

// Life is proven through the broker, since the broker is what an instance needs to work. Each
// instance puts its key every second into one bucket, whose stream orders all puts. An instance that
// has put three times since another's last put has seen the broker work for three seconds without a
// sign of that one. No clocks are compared, and two processes that can't reach each other, while both
// reach the broker, see each other alive.

// InstanceKind is what a process is.
type InstanceKind string

// The kinds of instances.
const (
	KindEngine     InstanceKind = "engine"
	KindToolrunner InstanceKind = "toolrunner"
)

const (
	// beatEvery is the pause between an instance's puts.
	beatEvery = time.Second
	// beatsGone is how many puts of the judge's own make a silence a death.
	beatsGone = 3
	// healthyFor is how old an instance's own last acknowledged put may be, on its own monotonic
	// clock, before it must doubt that others see it alive.
	healthyFor = 3 * time.Second
	// instanceTTL removes the key of an instance that was killed, long after it was judged.
	instanceTTL = time.Hour
)

// Beat is the proof of life of this process. Make it with [Conn.StartBeat].
type Beat struct {
	c    *Conn
	key  string
	info []byte

	cancel context.CancelFunc
	done   sync.WaitGroup

	mu struct {
		sync.Mutex
		puts []uint64 // revisions of the last beatsGone acknowledged puts, oldest first
		sent time.Time
	}
}

// StartBeat announces an instance and keeps it alive: the first put is acknowledged when
// StartBeat returns, then one follows every second. info is shown to whoever lists instances. The
// beat owns its goroutine, which works for nobody else, so no amount of work delays it.
func (c *Conn) StartBeat(ctx context.Context, kind InstanceKind, instance string, info []byte) (*Beat, error) {
	key, err := instanceKey(kind, instance)
	if err != nil {
		return nil, err
	}
	b := &Beat{c: c, key: key, info: info}
	err = retryRead(ctx, b.put)
	if err != nil {
		return nil, fmt.Errorf("announce %s: %w", key, err)
	}
	ctx, b.cancel = context.WithCancel(context.Background())
	b.done.Go(func() { b.run(ctx) })
	return b, nil
}

func instanceKey(kind InstanceKind, instance string) (string, error) {
	if kind != KindEngine && kind != KindToolrunner {
		return "", schemas.Errorf(schemas.CodeInvalid, "no kind of instance is called %.40q", string(kind))
	}
	if err := schemas.ValidateName("instance", instance); err != nil {
		return "", err
	}
	return string(kind) + "." + instance, nil
}

// run puts the key until ctx ends. The pause begins when a put is over: puts that were held up
// never follow in a burst, which would make seconds of silence of what was none.
func (b *Beat) run(ctx context.Context) {
	for sleep(ctx, beatEvery) == nil {
		attempt, cancel := context.WithTimeout(ctx, tryTimeout)
		err := b.put(attempt)
		cancel()
		if err != nil && ctx.Err() == nil {
			b.c.log.Warn().Err(err).Str("instance", b.key).Msg("proof of life failed")
		}
	}
}

// put is one proof of life.
func (b *Beat) put(ctx context.Context) error {
	sent := time.Now()
	ack, err := b.c.publish(ctx, kvMessage(bucketInstances, b.key, b.info, instanceTTL))
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.sent = sent
	b.mu.puts = append(b.mu.puts, ack.Sequence)
	if extra := len(b.mu.puts) - beatsGone; extra > 0 {
		b.mu.puts = append(b.mu.puts[:0], b.mu.puts[extra:]...)
	}
	return nil
}

// Stop ends the beat and removes the key, so that nobody needs to wait for silence. It waits for
// the goroutine; ctx bounds the removal.
func (b *Beat) Stop(ctx context.Context) error {
	b.cancel()
	b.done.Wait()
	if _, err := b.c.publishRetry(ctx, kvPurgeMessage(bucketInstances, b.key), nil); err != nil {
		return fmt.Errorf("remove %s: %w", b.key, err)
	}
	return nil
}

// Healthy reports whether this instance's own last acknowledged put was sent in the last 3 s. If
// not, others may take it for gone.
func (b *Beat) Healthy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.mu.sent) < healthyFor
}

// judged returns the oldest and the newest of the last three acknowledged puts; false while there
// are fewer.
func (b *Beat) judged() (oldest, newest uint64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.puts) < beatsGone {
		return 0, 0, false
	}
	return b.mu.puts[0], b.mu.puts[len(b.mu.puts)-1], true
}

// Gone reports whether an instance shows no life: its key does not exist, or three acknowledged
// puts of this beat follow its last one. Before it acts on that, an engine also asks the
// instance itself (see [Conn.Deliver]). Until this beat has put three times nobody is gone.
func (b *Beat) Gone(ctx context.Context, kind InstanceKind, instance string) (bool, error) {
	key, err := instanceKey(kind, instance)
	if err != nil || key == b.key {
		return false, err
	}
	oldest, newest, ok := b.judged()
	if !ok {
		return false, nil
	}
	// A replica that lags shows an old put of a live instance. Only one that has this beat's own
	// newest put is asked for a verdict, since its puts are in one order with all others.
	entries, err := b.c.kvReadSince(ctx, bucketInstances, b.key, newest, key)
	if err != nil {
		return false, fmt.Errorf("judge %s: %w", key, err)
	}
	if last, ok := find(entries, key); ok {
		return last.Revision < oldest, nil
	}
	// Absent: for good, or for the instant in which one put replaces another.
	last, err := b.c.leaderRead(ctx, kvStream(bucketInstances), directRequest{LastFor: kvSubject(bucketInstances, key)})
	switch {
	case errors.Is(err, errNotFound):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("judge %s: %w", key, err)
	}
	return kvDeleted(last) || last.Sequence < oldest, nil
}

func find(entries []kvEntry, key string) (kvEntry, bool) {
	for _, e := range entries {
		if e.Key == key {
			return e, true
		}
	}
	return kvEntry{}, false
}

// Instance is a process that announced itself and was not removed yet; it may be gone.
type Instance struct {
	Kind InstanceKind
	Name string
	Info []byte
	// Revision is the broker's sequence of its last proof of life.
	Revision uint64
}

// Instances lists the instances of a kind.
func (c *Conn) Instances(ctx context.Context, kind InstanceKind) ([]Instance, error) {
	if _, err := instanceKey(kind, "x"); err != nil {
		return nil, err
	}
	entries, err := c.kvList(ctx, bucketInstances, string(kind)+".*")
	if err != nil {
		return nil, err
	}
	out := make([]Instance, 0, len(entries))
	for _, e := range entries {
		name := strings.TrimPrefix(e.Key, string(kind)+".")
		out = append(out, Instance{Kind: kind, Name: name, Info: e.Value, Revision: e.Revision})
	}
	return out, nil
}
