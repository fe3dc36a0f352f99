package interop

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"braid/bus"
	"braid/client"
	"braid/deploy/deploytest"
	"braid/engine"
	"braid/gateway"
	"braid/llm"
	"braid/llm/openai"
	"braid/schemas"
	"braid/schemas/schematest"
	"braid/trace"
)

const (
	token = "interop-test-token"
	// patience is how long anything may take that a test waits for: a loaded machine is slow.
	patience = time.Minute
)

// world is a broker with the users of the deployment's configuration, and an engine and a gateway
// that each have one of them. Its models are the mock server's, and it has no toolrunner.
type world struct {
	t      *testing.T
	broker *natsserver.Server
	conn   *bus.Conn // the engine's user: it may read everything
	client *client.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	models := aimock(t)
	w := &world{t: t, broker: deploytest.Start(t, "../../deploy/nats/node.conf")}
	w.conn = w.connect("engine")
	w.startEngine(models + servers["openai"])
	w.client = client.New(client.HTTP(w.serve(listen(t)), token))
	t.Cleanup(w.client.Close)
	return w
}

// in is the same world for a test in the test.
func (w *world) in(t *testing.T) *world {
	inner := *w
	inner.t = t
	return &inner
}

func (w *world) connect(user string) *bus.Conn {
	w.t.Helper()
	return deploytest.Connect(w.t, w.broker, user)
}

func (w *world) startEngine(models string) {
	w.t.Helper()
	store, err := trace.Open(w.t.TempDir(), trace.Options{Logger: zerolog.Nop()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = store.Close() })
	provider, err := openai.New(openai.Config{Name: "mock", BaseURL: models, APIKey: "sk-mock-secret"})
	if err != nil {
		w.t.Fatal(err)
	}
	catalog, err := llm.NewCatalog(provider)
	if err != nil {
		w.t.Fatal(err)
	}
	e, err := engine.Start(w.t.Context(), engine.Options{Conn: w.conn, Trace: store, Models: catalog, Log: zerolog.Nop()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			w.t.Error(err)
		}
		if err := catalog.Close(ctx); err != nil {
			w.t.Error(err)
		}
	})
}

func (w *world) newGateway() *gateway.Gateway {
	w.t.Helper()
	g, err := gateway.New(gateway.Options{Conn: w.connect("gateway"), Token: token, Log: zerolog.Nop(), ShutdownWait: time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

// serve starts a gateway and returns its address.
func (w *world) serve(l net.Listener) (url string) {
	w.t.Helper()
	g := w.newGateway()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, l) }() // ends with the test, which waits for it
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// installed is where make interop has put the packages of node, and our programs beside them.
func installed(t *testing.T) (dir string) {
	t.Helper()
	dir = os.Getenv("BRAID_INTEROP")
	if dir == "" {
		t.Skip("there are no packages of node: make interop installs them")
	}
	return dir
}

// create makes a session, of this name or of any.
func (w *world) create(id string, mode schemas.ApprovalMode) *client.Session {
	w.t.Helper()
	s, err := w.client.Create(w.t.Context(), client.CreateOptions{ID: id, CreateBody: schemas.CreateBody{Model: "mock/gpt-4o", ApprovalMode: mode}})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// run gives a session a task and returns its messages; see is shown each as it comes.
func (w *world) run(s *client.Session, prompt string, see func(client.Message)) (all []client.Message) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	task, err := s.Start(ctx, client.Prompt(prompt))
	if err != nil {
		w.t.Fatal(err)
	}
	for event, err := range s.Stream(ctx, client.WatchOptions{After: task.Cursor, Prompts: true}) {
		if err != nil {
			w.t.Fatal(err)
		}
		m, ok := event.(client.Message)
		if !ok {
			continue
		}
		all = append(all, m)
		if see(m); m.Kind() == schemas.KindTaskEnd {
			break
		}
	}
	return all
}

func nothing(client.Message) {}

func (w *world) ref(s *client.Session) schemas.SessionRef {
	return schemas.SessionRef{Project: "default", ID: s.ID()}
}

// stored is all that is stored of a session, which must keep every rule of a stream.
func (w *world) stored(s *client.Session) (frames []bus.Frame) {
	w.t.Helper()
	var all []schemas.Entry
	for f, err := range w.conn.ReadFrames(w.t.Context(), w.ref(s), 0, 0, bus.LogAndLive) {
		if err != nil {
			w.t.Fatal(err)
		}
		frames = append(frames, f)
		all = append(all, f.Entries()...)
	}
	schematest.VerifyFinished(w.t, schemas.ViewFeed, all)
	return frames
}
