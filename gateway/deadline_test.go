package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"braid/bus"
	"braid/schemas"
)

// onePipe is a listener with one connection.
type onePipe struct {
	conn chan net.Conn
	done chan struct{}
}

func (l *onePipe) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *onePipe) Close() error   { close(l.done); return nil }
func (l *onePipe) Addr() net.Addr { return &net.TCPAddr{} }

// bounded serves one connection, with bounds on how long it may take to read a request and to write the
// answer. It returns the client's end. The test is to be a bubble of synctest, in which time passes only
// when nobody is busy: so a slow machine exceeds no bound.
func bounded(t *testing.T, handle handler) net.Conn {
	ours, theirs := net.Pipe()
	l := &onePipe{make(chan net.Conn, 1), make(chan struct{})}
	l.conn <- theirs
	server := &http.Server{
		Handler:     (&Gateway{}).serveRoute(route{handle: handle, access: accessOpen}),
		ReadTimeout: requestTimeout, WriteTimeout: 2 * requestTimeout,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }() // ends with the server, and is waited for
	t.Cleanup(func() {
		ours.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return ours
}

func TestCase_F01_ServerTimeoutsDoNotEndAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hub{epoch: "e", done: make(chan struct{})}
		h.mu.ring.limit = 1 << 20
		h.mu.changed = make(chan struct{})
		conn := bounded(t, func(w http.ResponseWriter, r *http.Request) error {
			out, err := (&Gateway{o: Options{}.withDefaults()}).beginEvents(w)
			if err != nil {
				return err
			}
			_ = (&watcher{hub: h, out: out}).run(r.Context(), schemas.Cursor{}, time.Hour)
			return nil
		})
		fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		e := newEvents(t, "/v1/sessions/s/stream", answer)
		e.cancel = func() { conn.Close() } // or what follows would be read for ever
		e.state()
		for i := range uint64(8) {
			<-time.After(requestTimeout)
			m := schemas.New(time.Now(), &schemas.RequestBegin{})
			if err := h.push(bus.Frame{Sequence: i + 1, Messages: []schemas.Message{m}}); err != nil {
				t.Fatal(err)
			}
			e.take(1)
		}
	})
}

// A body that takes too long is refused, and not answered as if all were well.
func TestABodyThatTakesTooLongIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := bounded(t, func(w http.ResponseWriter, r *http.Request) error {
			return readBody(w, r, &createRequest{}, false)
		})
		fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if body, err := io.ReadAll(answer.Body); answer.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "took too long") || err != nil {
			t.Errorf("%s: %s, %v", answer.Status, body, err)
		}
	})
}
