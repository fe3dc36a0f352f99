package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"
)

// Server serves metrics on a port of its own.
type Server struct {
	listener net.Listener
	server   *http.Server
	work     sync.WaitGroup
	failed   error
	bound    time.Duration // of waiting for scrapes to end
}

// Limits of connections.
const (
	headerTimeout = 5 * time.Second
	answerTimeout = 15 * time.Second
	idleTimeout   = 2 * time.Minute
	closeBound    = 2 * time.Second
	maxScrapes    = 8 // at once
)

// Listen serves GET /metrics on an address until [Server.Close]. There is no token: who reaches the port
// may read. On a loopback address only requests that name it so are answered, for a page that rebinds
// its own name to it is not to.
func Listen(address string, m *Metrics, log zerolog.Logger) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	s := &Server{listener: listener, bound: closeBound, server: &http.Server{
		Handler: m.handler(listener.Addr(), log), ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
		WriteTimeout: answerTimeout, IdleTimeout: idleTimeout,
	}}
	s.work.Go(func() { s.failed = s.server.Serve(listener) })
	return s, nil
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close ends the server and waits for it. A scrape that does not end in 2 s, and a connection that asks for
// nothing, are cut off, which is no error.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.bound)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if ctx.Err() != nil {
		err = s.server.Close()
	}
	s.work.Wait()
	if !errors.Is(s.failed, http.ErrServerClosed) {
		err = errors.Join(err, s.failed)
	}
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

func (m *Metrics) handler(at net.Addr, log zerolog.Logger) http.Handler {
	mux := http.NewServeMux()
	scrape := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: scrapeLog{log}, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes,
	})
	tcp, _ := at.(*net.TCPAddr)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if tcp != nil && tcp.IP.IsLoopback() && !loopback(r.Host) {
			http.Error(w, "this address is for this machine", http.StatusForbidden)
			return
		}
		scrape.ServeHTTP(w, r)
	})
	return mux
}

// loopback reports whether a request names the loopback interface.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// scrapeLog logs what goes wrong with a scrape.
type scrapeLog struct{ log zerolog.Logger }

// Println implements promhttp.Logger.
func (l scrapeLog) Println(v ...any) {
	l.log.Warn().Str("error", fmt.Sprint(v...)).Msg("a scrape is not whole")
}
