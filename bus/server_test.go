package bus

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// Older servers lose writes that wait for a flush when the process is paused, and lack message
// schedules: the version that is linked in must not fall below the one all this was tried on.
func TestCase_B27_ServerFloor(t *testing.T) {
	floor := []int{2, 15, 3}
	parts := strings.SplitN(strings.SplitN(natsserver.VERSION, "-", 2)[0], ".", 3)
	for i, f := range floor {
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			t.Fatalf("version %q: %v", natsserver.VERSION, err)
		}
		if n > f {
			return
		}
		if n < f {
			t.Fatalf("nats-server %s is older than 2.15.3", natsserver.VERSION)
		}
	}
}

// The bound on disk use is stated, not guessed by the server from what happens to be free, and
// counts what the store already holds: a restart on a fuller disk must not find its own streams
// too large.
func TestCase_B19_StoreBound(t *testing.T) {
	dir := t.TempDir()
	const held = 64 << 20
	if err := os.WriteFile(filepath.Join(dir, "1.blk"), make([]byte, held), 0o600); err != nil {
		t.Fatal(err)
	}
	// Others use the disk as well, so of what is free only that it is something is certain.
	if got, err := storeHolds(dir); err != nil || got != held {
		t.Errorf("the store holds %d, %v, want %d", got, err, held)
	}
	if room, err := storeRoom(dir); err != nil || room <= held {
		t.Errorf("room %d, %v, with %d held", room, err, held)
	}
	o, err := ServerOptions{StoreDir: dir}.serverOptions()
	if err != nil {
		t.Fatal(err)
	}
	if o.JetStreamMaxStore < held {
		t.Errorf("the server is given %d", o.JetStreamMaxStore)
	}
	o, err = ServerOptions{StoreDir: dir, MaxStore: 5, SyncAlways: true}.serverOptions()
	if err != nil {
		t.Fatal(err)
	}
	if o.JetStreamMaxStore != 5 || !o.SyncAlways {
		t.Errorf("what was asked for is not what the server is given: %d, sync always %v", o.JetStreamMaxStore, o.SyncAlways)
	}
}
