package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"braid/bus"
	"braid/client"
	"braid/engine"
	"braid/gateway"
	"braid/llm"
	"braid/llm/scripted"
	"braid/llm/shell"
	"braid/schemas"
	"braid/toolrunner"
	"braid/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	token   = "open-sesame"
	project = "default"
)

// world is a broker, an engine, a toolrunner and a gateway in this process: what braid dev runs.
type world struct {
	conn  *bus.Conn // for clients
	url   string
	stops []func() error
}

// startWorld starts everything over an empty directory, which stop removes.
func startWorld(scripts map[string]*scripted.Script, topology bus.Topology) (_ *world, err error) {
	dir, err := os.MkdirTemp("", "braid-client")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	w := &world{stops: []func() error{func() error { return os.RemoveAll(dir) }}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.stop())
		}
	}()
	server, err := bus.StartEmbedded(bus.ServerOptions{StoreDir: filepath.Join(dir, "nats"), Log: zerolog.Nop()})
	if err != nil {
		return nil, err
	}
	w.stops = append(w.stops, func() error { server.Shutdown(); return nil })
	topology.Shards = 2
	connect := func() *bus.Conn {
		conn, failed := bus.Connect(context.Background(), bus.Options{Server: server, Topology: topology, Log: zerolog.Nop()})
		if err = errors.Join(err, failed); failed == nil {
			w.stops = append(w.stops, func() error { conn.Close(); return nil })
		}
		return conn
	}
	w.conn = connect()
	forEngine, forTools, forGateway := connect(), connect(), connect()
	if err != nil {
		return nil, err
	}
	if err := w.startEngine(forEngine, filepath.Join(dir, "trace"), scripts); err != nil {
		return nil, err
	}
	if err := w.startTools(forTools); err != nil {
		return nil, err
	}
	return w, w.startGateway(forGateway)
}

func (w *world) startEngine(conn *bus.Conn, dir string, scripts map[string]*scripted.Script) error {
	store, err := trace.Open(dir, trace.Options{Logger: zerolog.Nop()})
	if err != nil {
		return err
	}
	w.stops = append(w.stops, store.Close)
	models, err := llm.NewCatalog(&shell.Provider{}, scripted.New(scripts))
	if err != nil {
		return err
	}
	e, err := engine.Start(context.Background(), engine.Options{Conn: conn, Trace: store, Models: models, Log: zerolog.Nop()})
	if err != nil {
		return err
	}
	w.stops = append(w.stops, bounded(models.Close), bounded(e.Stop))
	return nil
}

func (w *world) startTools(conn *bus.Conn) error {
	exec, err := toolrunner.NewExec(toolrunner.ExecOptions{Environ: os.Environ()})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { // ends with cancel; the stop below waits
		done <- toolrunner.Serve(ctx, conn, toolrunner.ServeOptions{
			Tools: []toolrunner.Tool{exec.Tool()}, Drain: time.Second, Ready: func() { close(ready) }, Log: zerolog.Nop(),
		})
	}()
	w.stops = append(w.stops, exec.Close, func() error { cancel(); return <-done })
	select {
	case <-ready:
		return nil
	case err := <-done:
		done <- nil
		return err
	}
}

func (w *world) startGateway(conn *bus.Conn) error {
	g, err := gateway.New(gateway.Options{Conn: conn, Token: token, Log: zerolog.Nop(), ShutdownWait: time.Second, Linger: 10 * time.Millisecond})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	w.url = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, narrow{l}) }() // ends with cancel; the stop below waits
	w.stops = append(w.stops, func() error { cancel(); return <-done })
	return nil
}

// narrow makes connections in which little waits, so that it is seen whether a client is slow.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	conn, err := n.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		err = errors.Join(err, tcp.SetWriteBuffer(128<<10))
	}
	return conn, err
}

func bounded(end func(context.Context) error) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return end(ctx)
	}
}

// stop ends everything, the last started first.
func (w *world) stop() error {
	var errs []error
	for _, end := range slices.Backward(w.stops) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// newWorld is startWorld for a test. Scripts are models of the provider "scripted".
func newWorld(t *testing.T, scripts map[string]string) (*world, map[string]*scripted.Script) {
	t.Helper()
	return newWorldOf(t, scripts, bus.Topology{})
}

func newWorldOf(t *testing.T, scripts map[string]string, topology bus.Topology) (*world, map[string]*scripted.Script) {
	t.Helper()
	t.Parallel()
	parsed := map[string]*scripted.Script{}
	for name, text := range scripts {
		s, err := scripted.Parse([]byte(text))
		if err != nil {
			t.Fatalf("script %s: %v", name, err)
		}
		parsed[name] = s
	}
	w, err := startWorld(parsed, topology)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.stop(); err != nil {
			t.Error(err)
		}
	})
	return w, parsed
}

// each runs a test over both transports.
func (w *world) each(t *testing.T, test func(t *testing.T, c *client.Client)) {
	t.Helper()
	for name, transport := range map[string]client.Transport{
		"http": client.HTTP(w.url, token), "nats": client.NATS(w.conn, project),
	} {
		t.Run(name, func(t *testing.T) {
			c := client.New(transport)
			defer c.Close()
			test(t, c)
		})
	}
}

// testContext bounds a test that gets nowhere: no test that gets on takes so long, however slow its machine is.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// create makes a session of a model.
func create(t *testing.T, c *client.Client, model string, mode schemas.ApprovalMode) *client.Session {
	t.Helper()
	s, err := c.Create(testContext(t), client.CreateOptions{CreateBody: schemas.CreateBody{Model: model, ApprovalMode: mode}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
