package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"braid/schemas"
)

// Options says how to reach the broker.
type Options struct {
	// URL is the broker, or several separated by commas. Ignored when Server is set.
	URL string
	// Server connects in process, without a socket.
	Server *Server
	// Name identifies the client to people who look at the broker.
	Name string
	// Token, User and Password, or CredsFile authenticate; all optional.
	Token          string
	User, Password string
	CredsFile      string
	// ConnectWait is how long Connect waits for a broker that can't be reached; default 30 s.
	ConnectWait time.Duration
	// PullWait is how long one pull waits for a message, and so how long whoever stops may have to wait for
	// its end; default 500 ms. Each pull is a request, so short ones are for processes that live shortly.
	PullWait time.Duration
	// Topology is what the streams must look like.
	Topology Topology
	// Log gets connection events. No message content is ever logged.
	Log zerolog.Logger
}

// ErrUnreachable says that no broker answered in time.
var ErrUnreachable = errors.New("the broker can't be reached")

// Conn is a connection to the broker with the topology in place. It is safe for concurrent use.
// It reconnects by itself, for ever; calls made meanwhile wait for their own deadline.
type Conn struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	log      zerolog.Logger
	topology Topology

	blobs jetstream.ObjectStore

	gaps     feedGaps
	pullWait time.Duration

	mu struct {
		sync.Mutex
		epochs     []string // of each session stream, as last read
		nextHook   int
		reconnects map[int]func()
	}
}

// Connect dials the broker, waiting for it if need be, and ensures the topology. It fails with
// an error wrapping [ErrUnreachable] or [ErrTopology].
func Connect(ctx context.Context, o Options) (*Conn, error) {
	if o.ConnectWait <= 0 {
		o.ConnectWait = 30 * time.Second
	}
	c := &Conn{log: o.Log, pullWait: cmp.Or(o.PullWait, defaultPullWait)}
	c.mu.reconnects = map[int]func(){}
	deadline := time.Now().Add(o.ConnectWait)
	if err := c.dial(ctx, o, deadline); err != nil {
		return nil, err
	}
	var err error
	if c.js, err = jetstream.New(c.nc); err != nil {
		c.nc.Close()
		return nil, fmt.Errorf("connect to broker: %w", err)
	}
	if err := c.awaitTopology(ctx, o, deadline); err != nil {
		c.nc.Close()
		return nil, err
	}
	return c, nil
}

// retryEvery is the pause between tries while the broker is away.
const retryEvery = 250 * time.Millisecond

// dial connects, trying again until the deadline.
func (c *Conn) dial(ctx context.Context, o Options, deadline time.Time) error {
	target := "the embedded broker"
	if o.Server == nil {
		if err := checkAddresses(o.URL); err != nil {
			return err
		}
		target = redact(o.URL)
	}
	for try := 0; ; try++ {
		nc, err := nats.Connect(o.URL, c.natsOptions(o)...)
		if err == nil {
			c.nc = nc
			return nil
		}
		// A refused login does not get better by waiting.
		if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) {
			return fmt.Errorf("connect to broker at %s: %w", target, err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w at %s, tried for %s: %w", ErrUnreachable, target, o.ConnectWait, err)
		}
		if try%20 == 0 {
			c.log.Warn().Str("broker", target).Err(err).Dur("give_up_in", time.Until(deadline).Round(time.Second)).
				Msg("waiting for the broker")
		}
		if err := sleep(ctx, retryEvery); err != nil {
			return err
		}
	}
}

// awaitTopology ensures the topology; a clustered broker may still be electing its leaders.
func (c *Conn) awaitTopology(ctx context.Context, o Options, deadline time.Time) error {
	for wait := leastProbe; ; wait = min(wait+leastProbe/2, mostProbe) {
		err := c.probe(ctx, wait)
		if err == nil {
			attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
			err = c.ensureTopology(attempt, o.Topology)
			cancel()
		}
		if err == nil || errors.Is(err, ErrTopology) || ctx.Err() != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: JetStream is not ready after %s: %w", ErrUnreachable, o.ConnectWait, err)
		}
		c.log.Warn().Err(err).Msg("waiting for JetStream")
		if err := sleep(ctx, retryEvery); err != nil {
			return err
		}
	}
}

// How long JetStream has to answer a probe: longer each time, since it may be slow rather than away.
const (
	leastProbe = 500 * time.Millisecond
	mostProbe  = 5 * time.Second
)

// probe asks JetStream for a sign of life. A cluster without a leader answers no request at all,
// and a long wait for each would sleep through the election.
func (c *Conn) probe(ctx context.Context, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_, err := c.js.AccountInfo(ctx)
	return err
}

// syncQueue is how many messages wait for a reader of one subscription, at most. The room is taken
// when a subscription is made, and many are made for one answer, so the library's 65,536 would
// cost half a megabyte each. It holds the largest answer in parts that the broker gives, 1,024
// messages and an end.
const syncQueue = 4096

// natsOptions are the options of the client library that o amounts to.
func (c *Conn) natsOptions(o Options) []nats.Option {
	opts := []nats.Option{
		nats.Name(o.Name),
		nats.MaxReconnects(-1),
		nats.SyncQueueLen(syncQueue),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.Timeout(2 * time.Second),
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(2),
		// Nothing is buffered while the broker is away: a frame must not be sent on a new
		// connection before its owner has looked whether it still is the owner.
		nats.ReconnectBufSize(-1),
		nats.ReconnectHandler(func(*nats.Conn) { c.reconnected() }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				c.log.Warn().Err(err).Msg("lost the broker")
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			// A slow consumer is found and mended by whoever reads that subscription.
			event := c.log.Debug().Err(err)
			if sub != nil {
				event = event.Str("subject", sub.Subject)
			}
			event.Msg("broker connection")
		}),
	}
	if o.Server != nil {
		opts = append(opts, o.Server.inProcess()...)
	}
	if o.Token != "" {
		opts = append(opts, nats.Token(o.Token))
	}
	if o.User != "" {
		opts = append(opts, nats.UserInfo(o.User, o.Password))
	}
	if o.CredsFile != "" {
		opts = append(opts, nats.UserCredentials(o.CredsFile))
	}
	return opts
}

// Close ends the connection. Everything made from it must be stopped before.
func (c *Conn) Close() { c.nc.Close() }

// Connected reports whether the broker can be reached now.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// Shards is the number of shards sessions are spread over.
func (c *Conn) Shards() int { return c.topology.Shards }

// Epoch is the incarnation of the stream a session lives in.
func (c *Conn) Epoch(ref schemas.SessionRef) string { return c.ShardEpoch(c.Shard(ref)) }

// ShardEpoch is the incarnation of a shard's stream.
func (c *Conn) ShardEpoch(shard int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.epochs[shard]
}

// readEpoch reads the incarnation of a shard's stream again. It changes when the stream was
// restored, or made anew, while this process ran.
func (c *Conn) readEpoch(ctx context.Context, shard int) (string, error) {
	var epoch string
	err := retryRead(ctx, func(ctx context.Context) error {
		s, err := c.js.Stream(ctx, sessionsStream(shard))
		if err == nil {
			epoch = s.CachedInfo().Config.Metadata[metaEpoch]
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read the epoch of %s: %w", sessionsStream(shard), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.epochs[shard] = epoch
	return epoch, nil
}

// Topology is what is in force, defaults and adopted values filled in.
func (c *Conn) Topology() Topology { return c.topology }

// Shard is the shard a session lives in.
func (c *Conn) Shard(ref schemas.SessionRef) int { return shardOf(ref, c.topology.Shards) }

// onReconnect has f called, on a goroutine of the connection, each time the broker is reached
// again. The returned function ends that.
func (c *Conn) onReconnect(f func()) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.mu.nextHook
	c.mu.nextHook++
	c.mu.reconnects[id] = f
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.mu.reconnects, id)
	}
}

// reconnected calls the hooks of [Conn.onReconnect].
func (c *Conn) reconnected() {
	c.log.Info().Msg("reached the broker again")
	c.mu.Lock()
	hooks := make([]func(), 0, len(c.mu.reconnects))
	for _, f := range c.mu.reconnects {
		hooks = append(hooks, f)
	}
	c.mu.Unlock()
	for _, f := range hooks {
		f()
	}
}

// reconnectCount counts how often the broker was reached again. While it stays the same, what
// was published went out on one connection.
func (c *Conn) reconnectCount() uint64 { return c.nc.Stats().Reconnects }

// MaxFrame is how many bytes of encoded messages a frame may hold. It may change with a reconnect.
func (c *Conn) MaxFrame() int { return c.maxBody() }

// maxBody is how many bytes the body of one broker message may have: its max payload, less room for
// headers.
func (c *Conn) maxBody() int { return int(c.nc.MaxPayload()) - headerRoom }

// headerRoom is what is kept free for the headers of a message, in bytes. Those of a frame take about
// 700, and the broker adds about 300 when it answers a read.
const headerRoom = 4 << 10

// sleep waits for d or the context's end.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
