package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"braid/schemas"
)

func TestEventReader(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	r := newEventReader(iotest.HalfReader(strings.NewReader(": c\r\n\r\nid: 1\r\nevent:a\r\ndata: {}\r\n\r\nid: 2\n\ndata: " + long + "\n\ndata:half\n")))
	for _, want := range []rawEvent{{name: "a", id: "1", data: []byte("{}")}, {data: []byte(long)}} {
		got, err := r.next()
		if err != nil || got.name != want.name || got.id != want.id || string(got.data) != string(want.data) {
			t.Errorf("got %.80v %v", got, err)
		}
	}
	if e, err := r.next(); !errors.Is(err, io.EOF) {
		t.Errorf("half an event: %+v %v", e, err)
	}
	if e, err := newEventReader(endless{}).next(); !errors.Is(err, &schemas.Error{Code: schemas.CodeTooLarge}) {
		t.Errorf("an endless line: %d bytes, %v", len(e.data), err)
	}
}

// endless is a line without end.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func FuzzEventReader(f *testing.F) {
	f.Add("id: 1\ndata: {}\n\n")
	f.Add("event: task_state\ndata: {\"state\":\"idle\"}\n\ndata\n\n")
	f.Add("data: \r\n\r\n:\n\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		r := newEventReader(strings.NewReader(text))
		for {
			e, err := r.next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				return
			}
			if strings.ContainsAny(e.name+e.id+string(e.data), "\n") {
				t.Fatalf("a line in %+v", e)
			}
			for _, turns := range []bool{false, true} {
				var refused *schemas.Error
				if _, err := decodeEvent(e, turns); err != nil && !errors.As(err, &refused) {
					t.Fatalf("not an error of ours: %v", err)
				}
			}
		}
	})
}

func FuzzPlace(f *testing.F) {
	for _, s := range []string{"", "e-1.0", "e-1.0.2", "e-1.0.0", "e-1.0.02", "e.-1.0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parseTurnCursor(s)
		if err == nil && s != "" && p.String() != s {
			t.Errorf("%q became %q", s, p)
		}
	})
}

// A stream may last as long as it likes, and be taken from as slowly as its reader likes; one that
// says nothing while it is read is given up, and made again.
func TestCase_F03_OnlySilenceEndsAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const state = "event: task_state\ndata: {\"state\":\"idle\",\"cursor\":\"e-1.0\"}\n\n"
		asked := 0
		transport := piped(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			if asked++; asked > 1 {
				_, _ = io.WriteString(w, "event: session_deleted\ndata: {}\n\n")
				return
			}
			for range 3 {
				_, _ = io.WriteString(w, state)
				_ = http.NewResponseController(w).Flush()
				<-time.After(maxSilence - time.Second)
			}
			<-r.Context().Done() // the connection stays open, and silent
		})
		c := New(transport)
		defer c.Close()
		states, last := 0, time.Now()
		for event, err := range c.Session("s").Stream(t.Context(), WatchOptions{}) {
			if err != nil {
				if !IsCode(err, schemas.CodeDeleted) {
					t.Error(err)
				}
				break
			}
			if _, ok := event.(State); ok {
				states++
				<-time.After(time.Hour)
				last = time.Now()
			}
		}
		if silent := time.Since(last) - defaultPauses.first; states != 3 || asked != 2 || silent != maxSilence {
			t.Errorf("%d states, asked %d times, the last time after %s", states, asked, silent)
		}
	})
}

// pipes are a network for tests whose time is a bubble's: a listener, all of whose connections are pipes.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error { close(p.closed); return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// piped reaches a server over pipes. The server ends with the test.
func piped(t *testing.T, serve http.HandlerFunc) *httpTransport {
	t.Helper()
	network := pipes{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{Handler: serve} //nolint:gosec // it has the clients that it is given here
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(network) })
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		served.Wait()
	})
	transport := HTTP("http://127.0.0.1", "t").(*httpTransport)
	transport.http.Transport.(*http.Transport).DialContext = network.dial
	return transport
}

// What does not come back is given up.
func TestGivingUp(t *testing.T) {
	c := New(HTTP("http://127.0.0.1:1", "t")) // no port that was ever given out: nobody else can come to listen there
	defer c.Close()
	c.pauses = pauses{first: time.Millisecond, longest: 2 * time.Millisecond, tries: 4, patience: time.Minute}
	if _, err := c.Session("s").Info(context.Background()); !IsCode(err, schemas.CodeUnavailable) {
		t.Errorf("nobody listens: %v", err)
	}
	for _, err := range c.Session("s").Turns(context.Background(), WatchOptions{}) {
		if !IsCode(err, schemas.CodeUnavailable) {
			t.Errorf("nobody listens: %v", err)
		}
	}
}
