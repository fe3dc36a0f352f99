package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"braid/bus"
	"braid/gateway/web"
	"braid/schemas"
)

// Options describes a gateway. Conn and Token must be set.
type Options struct {
	// Conn is the broker. The gateway does not close it.
	Conn *bus.Conn
	// Token is what clients must present.
	Token string
	// Project owns the sessions served here; default "default".
	Project string
	// Hosts are the names clients may address the gateway by, without a port, besides those of
	// the loopback interface. A request under any other name is refused: a page that rebinds
	// its own name to this address must not reach it.
	Hosts []string
	// Events are told what the gateway does.
	Events Events
	// Log gets one line a request. It never gets prompts, tokens or query strings.
	Log zerolog.Logger

	// CommandWait is how long a request waits for a command's outcome; default 10 s.
	CommandWait time.Duration
	// QueryWait is how long a request waits for an engine's answer to a question; default 5 s.
	QueryWait time.Duration
	// Heartbeat is the time between comments on a silent stream; default 10 s, at most 15 s.
	Heartbeat time.Duration
	// WriteTimeout is how long one write to a client may take; default 15 s.
	WriteTimeout time.Duration
	// Linger is how long a session is followed after its last watcher left; default 5 s.
	Linger time.Duration
	// RingBytes is how much of a watched session's stream is kept in memory, in bytes; default
	// 1 MiB. A watcher further behind is served from the broker.
	RingBytes int
	// Patience is how long a watcher may stay that far behind before it is cut off as too slow;
	// default 30 s.
	Patience time.Duration
	// MaxWatchers is how many streams, and waits for the end of a task, are served at once, and how many
	// sessions are followed for them; default 10,000.
	MaxWatchers int
	// MaxWaiting is how many commands may wait for their outcome at once; default 4,096. Those of one
	// session may be a sixteenth of that.
	MaxWaiting int
	// ShutdownWait is how long Serve waits for requests to end by themselves; default 5 s.
	ShutdownWait time.Duration
}

// withDefaults fills in what is not set.
func (o Options) withDefaults() Options {
	if o.Project == "" {
		o.Project = "default"
	}
	fallback(&o.CommandWait, 10*time.Second)
	fallback(&o.QueryWait, 5*time.Second)
	fallback(&o.Heartbeat, 10*time.Second)
	fallback(&o.WriteTimeout, 15*time.Second)
	fallback(&o.Linger, 5*time.Second)
	fallback(&o.Patience, 30*time.Second)
	fallback(&o.ShutdownWait, 5*time.Second)
	o.Heartbeat = min(o.Heartbeat, 15*time.Second)
	fallback(&o.RingBytes, 1<<20)
	fallback(&o.MaxWatchers, 10_000)
	fallback(&o.MaxWaiting, 4096)
	return o
}

// fallback sets a value that is not set.
func fallback[T int | time.Duration](v *T, value T) {
	if *v <= 0 {
		*v = value
	}
}

// Gateway serves one project over HTTP. It is safe for concurrent use.
type Gateway struct {
	o       Options
	conn    *bus.Conn
	log     zerolog.Logger
	handler http.Handler
	api     []byte // the API's description, an OpenAPI document
	guard   guard
	files   *web.Files
	hubs    *hubs
	// project follows all sessions at once, for those who watch the project.
	project  *projectLease
	replays  replays
	watchers *crowd // streams, and waits for the end of a task
	waiting  *crowd // commands without an outcome yet
	ready    readiness
	// stopping ends when streams are to end.
	stopping context.Context //nolint:containedctx // the gateway's own life, not a caller's
	stop     context.CancelFunc
}

// waitingShare is which part of the commands that may wait may be of one session.
const waitingShare = 16

// New makes a gateway. It starts nothing until it is asked for something.
func New(o Options) (*Gateway, error) {
	o = o.withDefaults()
	if o.Conn == nil {
		return nil, errors.New("gateway: a connection to the broker is needed")
	}
	if o.Token == "" {
		return nil, errors.New("gateway: a token is needed: without one anybody who reaches the port runs agents")
	}
	if err := schemas.ValidateName("project", o.Project); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	files, err := web.New()
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g := &Gateway{o: o, conn: o.Conn, log: o.Log, guard: newGuard(o.Token, o.Hosts), files: files}
	g.stopping, g.stop = context.WithCancel(context.Background())
	g.hubs, g.replays, g.project = newHubs(g), newReplays(), &projectLease{g: g}
	g.watchers = newCrowd("streams and waits", g.o.MaxWatchers, g.o.MaxWatchers)
	g.waiting = newCrowd("unanswered commands", g.o.MaxWaiting, max(g.o.MaxWaiting/waitingShare, 1))
	table := g.table()
	if g.api, err = describeAPI(table); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.handler = observe(g.log, o.Events, g.routes(table))
	return g, nil
}

// Handler serves the API. A server around it needs a write timeout of 0, or streams are cut;
// the gateway bounds each write itself.
func (g *Gateway) Handler() http.Handler { return g.handler }

// Close ends all streams, and the goroutines that follow sessions for them, which it waits for. The gateway
// is of no use afterwards.
func (g *Gateway) Close() {
	g.stop()
	g.hubs.close()
	g.project.close()
}

// Limits of connections: how long a request's header, the whole request and the pause between two requests
// may take, and how large a header may be.
const (
	headerTimeout  = 10 * time.Second
	requestTimeout = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
)

// Serve answers requests on the listener until ctx ends, and closes the gateway then: streams
// end after a comment, so that their watchers resume elsewhere, other requests get
// ShutdownWait to finish. It returns when nothing of the gateway runs any more, nil after a stop
// in order.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           g.handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout, // streams lift it
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
	}
	served := make(chan error, 1)
	// Ends when the server is shut down or its listener fails; Serve waits below.
	go func() { served <- server.Serve(l) }()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	g.stop()
	if err == nil {
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.o.ShutdownWait)
		defer cancel()
		if shutdown := server.Shutdown(wait); shutdown != nil {
			g.log.Warn().Err(shutdown).Msg("requests are cut off")
		}
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			g.log.Warn().Err(ended).Msg("the listener failed while it was closed")
		}
	}
	if cut := server.Close(); cut != nil {
		g.log.Debug().Err(cut).Msg("close what is left of connections")
	}
	g.Close()
	if err != nil {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}
