package bus_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

func TestTopologyIsIdempotent(t *testing.T) {
	bustest.Each(t, func(t *testing.T, b *bustest.Broker) {
		first := b.Conn(t)
		second := b.Conn(t)
		for shard := range first.Shards() {
			if first.ShardEpoch(shard) == "" || first.ShardEpoch(shard) != second.ShardEpoch(shard) {
				t.Errorf("shard %d: epochs %q and %q, want one", shard, first.ShardEpoch(shard), second.ShardEpoch(shard))
			}
		}
	})
}

// The shard count decides where a session is found: another one must not be taken silently.
func TestTopologyRefusesAnotherShardCount(t *testing.T) {
	b := bustest.Single(t)
	b.Conn(t)
	_, err := bus.Connect(context.Background(), bus.Options{Server: b.Nodes[0], Topology: bus.Topology{Shards: 3}})
	if !errors.Is(err, bus.ErrTopology) {
		t.Fatalf("got %v, want ErrTopology", err)
	}
	t.Log(err)
}

func TestTopologyRefusesAnotherAge(t *testing.T) {
	b := bustest.Single(t)
	b.Conn(t)
	_, err := bus.Connect(context.Background(), bus.Options{Server: b.Nodes[0], Topology: bus.Topology{OutputAge: time.Hour}})
	if !errors.Is(err, bus.ErrTopology) {
		t.Fatalf("got %v, want ErrTopology", err)
	}
	t.Log(err)
}

// How long fragments live is the cluster's, not a process's: who says nothing takes it over, and who
// says something else is refused.
func TestTopologyKeepsItsLiveTTL(t *testing.T) {
	b := bustest.Custom(t, bus.ServerOptions{}, bus.Topology{LiveTTL: 90 * time.Second})
	b.Conn(t)
	for _, row := range []struct {
		why   string
		asked time.Duration
		fails bool
	}{{"nothing is asked for", 0, false}, {"the same", 90 * time.Second, false}, {"the default, said aloud", time.Hour, true}} {
		c, err := bus.Connect(context.Background(), bus.Options{Server: b.Nodes[0], Topology: bus.Topology{LiveTTL: row.asked}})
		if row.fails != errors.Is(err, bus.ErrTopology) {
			t.Errorf("%s: %v", row.why, err)
		}
		if err == nil {
			if got := c.Topology().LiveTTL; got != 90*time.Second {
				t.Errorf("%s: %s is in force", row.why, got)
			}
			c.Close()
		}
	}
}

func TestConnectGivesUp(t *testing.T) {
	_, err := bus.Connect(context.Background(), bus.Options{URL: "nats://127.0.0.1:1", ConnectWait: 300 * time.Millisecond})
	if !errors.Is(err, bus.ErrUnreachable) {
		t.Fatalf("got %v, want ErrUnreachable", err)
	}
	t.Log(err)
}

func TestStoreInUse(t *testing.T) {
	dir := t.TempDir()
	s, err := bus.StartEmbedded(bus.ServerOptions{StoreDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	if _, err := bus.StartEmbedded(bus.ServerOptions{StoreDir: dir}); !errors.Is(err, bus.ErrStoreInUse) {
		t.Fatalf("got %v, want ErrStoreInUse", err)
	}
}

// A store as a kill leaves it is no reason to warn people: it happens, and nothing is to be done.
func TestStoreOfAKilledServer(t *testing.T) {
	killed, left := t.TempDir(), filepath.Join(t.TempDir(), "left")
	s, err := bus.StartEmbedded(bus.ServerOptions{StoreDir: killed})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	c, err := bus.Connect(testContext(t), bus.Options{Server: s})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.SendCommand(testContext(t), schemas.Command{ID: "c", Type: schemas.CommandTask, Session: schemas.SessionRef{Project: "p", ID: "s"}, Task: &schemas.TaskBody{Prompt: "hello"}}); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(left, os.DirFS(killed)); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	again, err := bus.StartEmbedded(bus.ServerOptions{StoreDir: left, Log: zerolog.New(&log)})
	if err != nil {
		t.Fatal(err)
	}
	again.Shutdown()
	if !strings.Contains(log.String(), "outdated") {
		t.Fatalf("nothing was made anew: %s", log.String())
	}
	for line := range strings.Lines(log.String()) {
		if !strings.HasPrefix(line, `{"level":"info"`) {
			t.Error(line)
		}
	}
}

// Processes that start together make the streams together: each finds what another made first.
func TestTopologyMadeByManyAtOnce(t *testing.T) {
	t.Parallel()
	b := bustest.Listening(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			c, err := bus.Connect(testContext(t), bus.Options{URL: b.Nodes[0].URL(), Topology: bus.Topology{Shards: 2}})
			if err != nil {
				t.Errorf("connect: %v", err)
				return
			}
			c.Close()
		})
	}
	wg.Wait()
}

// A port that another process has is said so, at once.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = bus.StartEmbedded(bus.ServerOptions{StoreDir: t.TempDir(), Port: l.Addr().(*net.TCPAddr).Port})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("got %v, want that the address is in use", err)
	}
}
