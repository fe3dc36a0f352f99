package systemtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

const (
	project = "default"
	token   = "system-test-token"
)

// layout says what a world is made of.
type layout struct {
	engines, toolrunners int
	cluster              bool     // a broker of three nodes
	scripts              string   // directory of the models' scripts; default testdata/scripts
	store, traces        string   // sizes of disks of their own for the broker, and for each engine
	flags                []string // of each process, besides its own
	held                 bool     // there are the models of heldModel
	prepare              func(*rand.Rand)
}

// world is a broker in this process and everything else in processes of its own.
type world struct {
	t       *testing.T
	dir     string
	broker  *bustest.Broker
	conn    *bus.Conn // the test's own
	scripts string
	url     string // all nodes of the broker; their ports stay

	engines, toolrunners []*process
	gateway              *process
	held                 *heldModel // nil without one
	api                  *api
	random               *rand.Rand
	sessions             int
	dials                atomic.Int64
}

func newWorld(t *testing.T, l layout) *world {
	t.Helper()
	scripts, err := filepath.Abs("testdata/scripts")
	if err != nil {
		t.Fatal(err)
	}
	if l.scripts != "" {
		scripts = l.scripts
	}
	w := &world{t: t, dir: t.TempDir(), scripts: scripts, random: newRandom(t)}
	if l.prepare != nil {
		l.prepare(w.random)
	}
	if l.cluster {
		w.broker = bustest.Cluster(t)
	} else {
		w.broker = bustest.Listening(t)
	}
	var urls []string
	for _, n := range w.broker.Nodes {
		urls = append(urls, n.URL())
	}
	w.url = strings.Join(urls, ",")
	if l.store != "" {
		w.broker.Stop(0)
		disk(t, w.broker.StoreDir(0), l.store)
		w.broker.Start(t, 0)
	}
	w.conn = w.broker.Conn(t) // makes the streams
	if l.held {
		w.held = newHeldModel(t)
	}
	for range l.engines {
		e := w.addEngine()
		if l.traces != "" {
			disk(t, w.dataDir(e.name), l.traces)
		}
	}
	for range l.toolrunners {
		w.addToolrunner()
	}
	w.gateway = newProcess(t, "gateway", "gateway", "--nats", w.url, "--listen", "127.0.0.1:0", "--log-level", "debug")
	w.gateway.env = []string{"BRAID_TOKEN=" + token}
	for _, p := range append(append([]*process{w.gateway}, w.engines...), w.toolrunners...) {
		p.args = append(p.args, l.flags...)
		p.start()
	}
	w.api = newAPI(t, w.awaitGateway(), token)
	// From now on it comes back to the same address.
	w.gateway.args = append(w.gateway.args, "--listen", strings.TrimPrefix(w.api.base, "http://"))
	for _, e := range w.engines {
		w.awaitEngine(e)
	}
	for _, r := range w.toolrunners {
		w.awaitToolrunner(r)
	}
	return w
}

func (w *world) addEngine() *process {
	w.t.Helper()
	name := fmt.Sprintf("engine-%d", len(w.engines))
	p := newProcess(w.t, name, "engine", "--nats", w.url, "--scripts", w.scripts,
		"--data", w.dataDir(name), "--log-level", "debug", "--log-format", "json")
	if w.held != nil {
		p.args = append(p.args, "--openai", "held="+w.held.URL)
	}
	w.engines = append(w.engines, p)
	return p
}

// dataDir is where an engine keeps its trace.
func (w *world) dataDir(engine string) string { return filepath.Join(w.dir, engine) }

func (w *world) addToolrunner() *process {
	w.t.Helper()
	name := fmt.Sprintf("toolrunner-%d", len(w.toolrunners))
	p := newProcess(w.t, name, "toolrunner", "--nats", w.url, "--dir", w.dir, "--shared-volume", "world", "--log-level", "debug", "--log-format", "json")
	w.toolrunners = append(w.toolrunners, p)
	return p
}

func (w *world) awaitEngine(p *process) {
	w.t.Helper()
	p.instance = p.awaitLog("engine started").Engine
}

func (w *world) awaitToolrunner(p *process) {
	w.t.Helper()
	p.instance = p.awaitLog("serving tools").Toolrunner
}

// awaitGateway waits for the gateway and returns its address.
func (w *world) awaitGateway() string {
	w.t.Helper()
	line, ok := w.gateway.log.await(func(l logLine) bool { return strings.HasPrefix(l.text, "http://") }, w.gateway.done)
	if !ok {
		w.t.Fatal("the gateway never told its address")
	}
	return strings.TrimSpace(line.text)
}

// restart starts an ended process again, on the same data, and waits until it serves.
func (w *world) restart(p *process) {
	w.t.Helper()
	p.start()
	switch p.bin {
	case "engine":
		w.awaitEngine(p)
	case "toolrunner":
		w.awaitToolrunner(p)
	case "gateway":
		w.awaitGateway()
	}
}

// claim reads who owns a session.
func (w *world) claim(ref schemas.SessionRef) bus.Claim {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, found, err := w.conn.LastClaim(ctx, ref)
	if err != nil || !found {
		w.t.Fatalf("the claim of %s: found %v, %v", ref, found, err)
	}
	return c
}

// owner returns the process that owns a session, and the others.
func (w *world) owner(ref schemas.SessionRef) (owner *process, fence uint64) {
	w.t.Helper()
	c := w.claim(ref)
	for _, e := range w.engines {
		if e.instance == c.Instance {
			return e, c.Sequence
		}
	}
	w.t.Fatalf("%s is owned by %s, which is none of our engines", ref, c.Instance)
	return nil, 0
}

// newRandom is where a test's random choices come from.
func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("random choices: -seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// eventually tries until it holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
