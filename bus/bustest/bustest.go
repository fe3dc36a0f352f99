// Package bustest starts real brokers for tests: one node in process, or a cluster of three on
// loopback.
//
//	bustest.Each(t, func(t *testing.T, b *bustest.Broker) {
//		conn := b.Conn(t)
//		...
//	})
//
// The broker answers differently on one replica and on three, so every test of package bus runs
// on both. Everything started is stopped at the end of the test.
package bustest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"braid/bus"
)

// Broker is a running broker of one node or three.
type Broker struct {
	Nodes []*bus.Server

	dir      string
	options  []bus.ServerOptions
	topology bus.Topology
	mu       sync.Mutex
}

// Single starts one node without a listener.
func Single(t testing.TB) *Broker {
	t.Helper()
	return start(t, singleOptions(), bus.Topology{Shards: 2, Replicas: 1})
}

// Listening starts one node with a listener on a free loopback port, for tests that need other
// processes or several independent connections.
func Listening(t testing.TB) *Broker {
	t.Helper()
	return Custom(t, bus.ServerOptions{}, bus.Topology{})
}

// Custom starts one node with a listener on a free port that it keeps over restarts. Name,
// StoreDir and, if 0, Port are filled in, and a topology of two shards and one replica.
func Custom(t testing.TB, o bus.ServerOptions, topology bus.Topology) *Broker {
	t.Helper()
	o.Name = "n0"
	if o.Port == 0 {
		o.Port = freePorts(t, 1)[0]
	}
	topology.Shards, topology.Replicas = 2, 1
	return start(t, []bus.ServerOptions{o}, topology)
}

// Cluster starts three nodes on loopback; streams have three replicas.
func Cluster(t testing.TB) *Broker {
	t.Helper()
	return start(t, clusterOptions(t), bus.Topology{Shards: 2, Replicas: 3})
}

func singleOptions() []bus.ServerOptions { return []bus.ServerOptions{{Name: "n0"}} }

func clusterOptions(t testing.TB) []bus.ServerOptions {
	t.Helper()
	ports := freePorts(t, 6)
	options := make([]bus.ServerOptions, 3)
	for i := range options {
		var routes []string
		for j := range options {
			if j != i {
				routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", ports[3+j]))
			}
		}
		options[i] = bus.ServerOptions{
			Name: fmt.Sprintf("n%d", i), Port: ports[i],
			Cluster: &bus.ClusterOptions{Name: "braid", Host: "127.0.0.1", Port: ports[3+i], Routes: routes},
		}
	}
	return options
}

// Each runs the test on one node and on three.
func Each(t *testing.T, test func(t *testing.T, b *Broker)) {
	t.Run("one node", func(t *testing.T) { test(t, Single(t)) })
	t.Run("three nodes", func(t *testing.T) {
		if testing.Short() {
			t.Skip("a cluster takes seconds to start; left out with -short")
		}
		test(t, Cluster(t))
	})
}

// Pool keeps a broker of each kind for tests that only use it, and neither stop nodes nor mind
// what other tests have stored: a cluster takes seconds to start. The zero Pool is ready; Stop it
// after the last test, in TestMain.
type Pool struct {
	mu struct {
		sync.Mutex
		single, cluster *Broker
	}
}

// Each runs the test on one node and on three.
func (p *Pool) Each(t *testing.T, test func(t *testing.T, b *Broker)) {
	t.Helper()
	t.Run("one node", func(t *testing.T) { test(t, p.Single(t)) })
	t.Run("three nodes", func(t *testing.T) { test(t, p.Cluster(t)) })
}

// Single is the pool's broker of one node, without a listener.
func (p *Pool) Single(t testing.TB) *Broker {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.single == nil {
		p.mu.single = p.start(t, singleOptions(), bus.Topology{Shards: 2, Replicas: 1})
	}
	return p.mu.single
}

// Cluster is the pool's broker of three nodes. The test is skipped with -short.
func (p *Pool) Cluster(t testing.TB) *Broker {
	t.Helper()
	if testing.Short() {
		t.Skip("a cluster takes seconds to start; left out with -short")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.cluster == nil {
		p.mu.cluster = p.start(t, clusterOptions(t), bus.Topology{Shards: 2, Replicas: 3})
	}
	return p.mu.cluster
}

func (p *Pool) start(t testing.TB, options []bus.ServerOptions, topology bus.Topology) *Broker {
	t.Helper()
	dir, err := os.MkdirTemp("", "bustest") // outlives the test
	if err != nil {
		t.Fatal(err)
	}
	b := &Broker{Nodes: make([]*bus.Server, len(options)), dir: dir, options: options, topology: topology}
	b.startAll(t)
	return b
}

// Stop stops the pool's brokers and removes what they have stored.
func (p *Pool) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range []*Broker{p.mu.single, p.mu.cluster} {
		if b != nil {
			b.stop()
			if err := os.RemoveAll(b.dir); err != nil {
				fmt.Fprintln(os.Stderr, "bustest:", err)
			}
		}
	}
	p.mu.single, p.mu.cluster = nil, nil
}

func start(t testing.TB, options []bus.ServerOptions, topology bus.Topology) *Broker {
	t.Helper()
	b := &Broker{Nodes: make([]*bus.Server, len(options)), dir: t.TempDir(), options: options, topology: topology}
	t.Cleanup(b.stop)
	b.startAll(t)
	return b
}

func (b *Broker) startAll(t testing.TB) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range b.options {
		b.options[i].StoreDir = filepath.Join(b.dir, b.options[i].Name)
		wg.Go(func() { b.Start(t, i) })
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// StoreDir is where node i keeps its streams.
func (b *Broker) StoreDir(i int) string { return b.options[i].StoreDir }

// Start starts node i, which must not run. Its store is kept from before.
func (b *Broker) Start(t testing.TB, i int) {
	t.Helper()
	s, err := bus.StartEmbedded(b.options[i])
	if err != nil {
		t.Errorf("start node %d: %v", i, err)
		return
	}
	b.mu.Lock()
	b.Nodes[i] = s
	b.mu.Unlock()
}

// Stop stops node i and waits until it has.
func (b *Broker) Stop(i int) {
	b.mu.Lock()
	s := b.Nodes[i]
	b.Nodes[i] = nil
	b.mu.Unlock()
	if s != nil {
		s.Shutdown()
	}
}

func (b *Broker) stop() {
	var wg sync.WaitGroup
	for i := range b.options {
		wg.Go(func() { b.Stop(i) })
	}
	wg.Wait()
}

// Conn returns a connection of its own, closed at the end of the test. In a cluster node says
// which node it prefers; by default the first.
func (b *Broker) Conn(t testing.TB, node ...int) *bus.Conn {
	t.Helper()
	return b.Connect(t, bus.Options{}, node...)
}

// Connect is Conn with options; the broker's address and topology are filled in.
func (b *Broker) Connect(t testing.TB, o bus.Options, node ...int) *bus.Conn {
	t.Helper()
	i := 0
	if len(node) > 0 {
		i = node[0]
	}
	if url := b.Nodes[i].URL(); url != "" {
		o.URL = url
	} else {
		o.Server = b.Nodes[i]
	}
	if o.Topology == (bus.Topology{}) {
		o.Topology = b.topology
	}
	if o.ConnectWait == 0 {
		o.ConnectWait = 5 * time.Minute
	}
	o.Log = zerolog.Nop()
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	c, err := bus.Connect(ctx, o)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// FreePort finds a free loopback port for a server that tests stop and start again.
func FreePort(t testing.TB) int {
	t.Helper()
	return freePorts(t, 1)[0]
}

// freePorts finds free loopback ports. They are none of those that systems give to outgoing
// connections: one of them could be taken while the node that owns it is stopped. Nor does another test
// find them, in this process or another, before this one has ended: whoever finds one has the UDP port of
// the same number as well, and keeps it.
func freePorts(t testing.TB, n int) []int {
	t.Helper()
	const lowest, highest, tries = 16_000, 32_000, 1000
	var listen net.ListenConfig
	var ports []int
	for range tries {
		port := lowest + rand.IntN(highest-lowest)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		mark, err := listen.ListenPacket(t.Context(), "udp", address)
		if err != nil {
			continue
		}
		l, err := listen.Listen(t.Context(), "tcp", address)
		if err != nil {
			_ = mark.Close()
			continue
		}
		_ = l.Close()
		t.Cleanup(func() { _ = mark.Close() })
		if ports = append(ports, port); len(ports) == n {
			return ports
		}
	}
	t.Fatalf("no %d free ports in %d tries", n, tries)
	return nil
}
