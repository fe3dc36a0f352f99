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
	"net"
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
	return start(t, []bus.ServerOptions{{Name: "n0"}}, bus.Topology{Shards: 2, Replicas: 1})
}

// Listening starts one node with a listener on a free loopback port, for tests that need other
// processes or several independent connections.
func Listening(t testing.TB) *Broker {
	t.Helper()
	return start(t, []bus.ServerOptions{{Name: "n0", Port: -1}}, bus.Topology{Shards: 2, Replicas: 1})
}

// Cluster starts three nodes on loopback; streams have three replicas.
func Cluster(t testing.TB) *Broker {
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
	return start(t, options, bus.Topology{Shards: 2, Replicas: 3})
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

func start(t testing.TB, options []bus.ServerOptions, topology bus.Topology) *Broker {
	t.Helper()
	b := &Broker{Nodes: make([]*bus.Server, len(options)), dir: t.TempDir(), options: options, topology: topology}
	t.Cleanup(b.stop)
	var wg sync.WaitGroup
	for i := range options {
		b.options[i].StoreDir = filepath.Join(b.dir, options[i].Name)
		wg.Go(func() { b.Start(t, i) })
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return b
}

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
		o.ConnectWait = 30 * time.Second
	}
	o.Log = zerolog.Nop()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	c, err := bus.Connect(ctx, o)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// freePorts finds free loopback ports by opening them all at once.
func freePorts(t testing.TB, n int) []int {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports
}
