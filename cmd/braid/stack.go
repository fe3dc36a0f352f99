package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"braid/bus"
	"braid/client"
	"braid/engine"
	"braid/gateway"
	"braid/internal/cli"
	"braid/metrics"
	"braid/schemas"
	"braid/spans"
	"braid/toolrunner"
	"braid/trace"
)

// What is where in a data directory.
const (
	brokerDir = "nats"
	traceDir  = "trace"
)

// stackOptions say how to run everything in one process.
type stackOptions struct {
	cli.StackFlags
	metrics cli.MetricsFlags
	spans   cli.SpansFlags
	listen  string
	nats    string // where the broker listens; empty: nowhere
	token   string
	project string // to look at; "default" if it is empty
	// pullWait is how long pulls wait for messages, see [bus.Options].
	pullWait time.Duration
	log      zerolog.Logger
}

// parseSync reads --sync.
func parseSync(s string) (always bool, interval time.Duration, err error) {
	if s == "always" {
		return true, 0, nil
	}
	interval, err = time.ParseDuration(s)
	if err != nil || interval <= 0 {
		return false, 0, cli.Usage("--sync must be always or a duration such as 2s, not %q", s)
	}
	return false, interval, nil
}

// stack is a broker, an engine, a toolrunner and a gateway in this process.
type stack struct {
	url     string
	nats    string // the broker's URL, with its token; empty if it is for this process alone
	token   string
	metrics *metrics.Metrics // nil unless they are served
	spans   *spans.Spans     // nil unless there is somebody to send them to
	reached client.Transport

	stops []func(context.Context) error // in the order they were started
	work  sync.WaitGroup
	fail  chan error
}

// client returns a client of the stack.
func (s *stack) client() *client.Client { return client.New(s.reached) }

// startStack starts everything, in the order in which one needs the other.
func startStack(ctx context.Context, o stackOptions) (_ *stack, err error) {
	dir, err := o.DataDir()
	if err != nil {
		return nil, err
	}
	if err := o.Tools.Check(); err != nil {
		return nil, err
	}
	rules, err := o.Policy.Load()
	if err != nil {
		return nil, err
	}
	agents, err := o.Agents.Load()
	if err != nil {
		return nil, err
	}
	prices, err := o.Models.PriceList()
	if err != nil {
		return nil, err
	}
	models, err := o.Models.Catalog(os.Getenv, o.log)
	if err != nil {
		return nil, err
	}
	s := &stack{token: cmp.Or(o.token, cli.NewToken()), fail: make(chan error, 2)}
	s.stops = append(s.stops, models.Close)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop(context.WithoutCancel(ctx)))
		}
	}()
	if err := s.startTelling(ctx, o); err != nil {
		return nil, err
	}
	server, err := s.startBroker(o, dir)
	if err != nil {
		return nil, err
	}
	if err := s.startEngine(ctx, o, dir, server, engine.Options{Models: models, Prices: prices, Policy: rules, Log: o.log}); err != nil {
		return nil, err
	}
	if err := s.startToolrunner(ctx, o, server); err != nil {
		return nil, err
	}
	return s, s.startGateway(ctx, o, server, agents)
}

// startTelling starts what is told of the others: metrics and spans.
func (s *stack) startTelling(ctx context.Context, o stackOptions) error {
	counted, stop, err := o.metrics.Start(o.log)
	if err != nil {
		return err
	}
	s.metrics = counted
	s.stops = append(s.stops, func(context.Context) error { return stop() })
	drawn, send, err := o.spans.Start(ctx, "braid", os.Getenv, o.log)
	if err != nil {
		return err
	}
	s.spans = drawn
	s.stops = append(s.stops, func(context.Context) error { send(); return nil })
	return nil
}

func (s *stack) startBroker(o stackOptions, dir string) (*bus.Server, error) {
	always, interval, err := parseSync(o.Sync)
	if err != nil {
		return nil, err
	}
	options := bus.ServerOptions{StoreDir: filepath.Join(dir, brokerDir), SyncAlways: always, SyncInterval: interval, Log: o.log}
	if o.nats != "" {
		if options.Host, options.Port, err = brokerAddress(o.nats); err != nil {
			return nil, err
		}
		options.Token = s.token
	}
	server, err := bus.StartEmbedded(options)
	if errors.Is(err, bus.ErrStoreInUse) {
		return nil, fmt.Errorf("%w; if that is braid dev, name it with --server, else choose another --data", err)
	}
	if err != nil {
		return nil, err
	}
	s.stops = append(s.stops, func(context.Context) error { server.Shutdown(); return nil })
	if o.nats != "" {
		at, err := url.Parse(server.URL())
		if err != nil {
			return nil, fmt.Errorf("serve the broker: %w", err)
		}
		at.User = url.User(s.token)
		s.nats = at.String()
	}
	return server, nil
}

// brokerAddress reads where the broker is to listen. Port 0 is a free one.
func brokerAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || host == "" || port < 0 || port > 65535 {
		return "", 0, cli.Usage("--nats-listen must be an address such as 127.0.0.1:4222, not %q", address)
	}
	if port == 0 {
		port = -1
	}
	return host, port, nil
}

// connect gives a part a connection of its own.
func (s *stack) connect(ctx context.Context, o stackOptions, server *bus.Server, name string) (*bus.Conn, error) {
	conn, err := bus.Connect(ctx, bus.Options{Server: server, Name: name, PullWait: o.pullWait, Log: o.log, Topology: bus.Topology{LiveTTL: o.LiveTTL.Value()}})
	if err != nil {
		return nil, err
	}
	s.stops = append(s.stops, func(context.Context) error { conn.Close(); return nil })
	s.metrics.Broker(strings.TrimPrefix(name, "braid-"), conn)
	return conn, nil
}

// openTrace opens the trace.
func (s *stack) openTrace(o stackOptions, dir string) (*trace.Store, error) {
	store, err := trace.Open(filepath.Join(dir, traceDir), trace.Options{Logger: o.log})
	if err == nil {
		s.stops = append(s.stops, func(context.Context) error { return cli.CloseTrace(store) })
	}
	return store, err
}

// startEngine starts an engine on a connection and a trace of its own.
func (s *stack) startEngine(ctx context.Context, o stackOptions, dir string, server *bus.Server, options engine.Options) error {
	store, err := s.openTrace(o, dir)
	if err != nil {
		return err
	}
	conn, err := s.connect(ctx, o, server, "braid-engine")
	if err != nil {
		return err
	}
	options.Conn, options.Trace = conn, store
	options.Events, options.TraceContext = s.metrics.Engine().And(s.spans.Engine()), s.spans.TraceContext()
	e, err := engine.Start(ctx, options)
	if err != nil {
		return err
	}
	s.metrics.Sessions(e)
	s.stops = append(s.stops, e.Stop)
	return nil
}

// startToolrunner serves the built-in tools in the working directory. It returns when engines can find
// it: a task that began before would be told that there are no tools.
func (s *stack) startToolrunner(ctx context.Context, o stackOptions, server *bus.Server) error {
	conn, err := s.connect(ctx, o, server, "braid-toolrunner")
	if err != nil {
		return err
	}
	tools, done, err := o.Tools.Tools(toolrunner.ExecOptions{Environ: os.Environ(), Watch: true})
	if err != nil {
		return err
	}
	s.stops = append(s.stops, func(context.Context) error { return done() })
	volume, err := directoryVolume()
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ready, ended := make(chan struct{}), make(chan struct{})
	s.work.Go(func() {
		defer close(ended)
		if err := toolrunner.Serve(running, conn, toolrunner.ServeOptions{
			Tools: tools, Volume: volume, Drain: drainBound, Ready: func() { close(ready) },
			Events: s.metrics.Toolrunner(conn).And(s.spans.Toolrunner()), Log: o.log,
		}); err != nil {
			s.fail <- err
		}
	})
	s.stops = append(s.stops, func(context.Context) error { cancel(); <-ended; return nil })
	select {
	case <-ready:
		return nil
	case err := <-s.fail: // nothing else runs yet that could fail
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// directoryVolume names the working directory, so that a session goes on with its files when it is started
// there again, and not with others elsewhere.
func directoryVolume() (string, error) {
	dir, err := filepath.Abs(".")
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	sum := sha256.Sum256([]byte(dir))
	return "dir-" + hex.EncodeToString(sum[:8]), nil
}

// startGateway serves the project "default", and stores its agents first.
func (s *stack) startGateway(ctx context.Context, o stackOptions, server *bus.Server, agents []schemas.Agent) error {
	conn, err := s.connect(ctx, o, server, "braid-gateway")
	if err != nil {
		return err
	}
	if err := cli.PutAgents(ctx, conn, "default", agents); err != nil {
		return err
	}
	g, err := gateway.New(gateway.Options{Conn: conn, Token: s.token, Events: s.metrics.Gateway(), Log: o.log})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	s.url = "http://" + listener.Addr().String()
	s.reached = client.HTTP(s.url, s.token)
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	s.work.Go(func() {
		defer close(done)
		if err := g.Serve(serving, listener); err != nil {
			s.fail <- err
		}
	})
	s.stops = append(s.stops, func(context.Context) error { cancel(); <-done; return nil })
	return nil
}

const (
	// drainBound is how long running calls may go on after the end was asked for.
	drainBound = 2 * time.Second
	// stopBound is how long an orderly end may take.
	stopBound = 15 * time.Second
)

// stop ends everything, the last started first.
func (s *stack) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopBound)
	defer cancel()
	var errs []error
	for _, end := range slices.Backward(s.stops) {
		errs = append(errs, end(ctx))
	}
	s.stops = nil
	s.work.Wait()
	return errors.Join(errs...)
}
