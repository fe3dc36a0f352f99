package interop

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// cuts is how often the connection of a stream is cut.
const cuts = 2

// cutter is a listener whose first streams break off.
type cutter struct {
	net.Listener
	// after is how many bytes get through before: in the middle of an event, as a rule.
	after   int
	streams atomic.Int32 // begun so far
}

func (c *cutter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: conn, c: c}, nil
}

// cutConn is written to by one goroutine at a time.
type cutConn struct {
	net.Conn
	c           *cutter
	stream, cut bool
	rest        int
}

func (c *cutConn) Write(b []byte) (int, error) {
	if !c.stream && bytes.Contains(b, []byte("text/event-stream")) {
		c.stream = true
		c.cut, c.rest = c.c.streams.Add(1) <= cuts, c.c.after
	}
	if !c.cut || len(b) < c.rest {
		c.rest -= len(b)
		return c.Conn.Write(b)
	}
	n, _ := c.Conn.Write(b[:c.rest])
	_ = c.Conn.Close()
	return n, net.ErrClosed
}

// wire stands between a program and the broker, and can be cut.
type wire struct {
	net.Listener
	broker string
	work   sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func newWire(t *testing.T, broker string) *wire {
	t.Helper()
	w := &wire{Listener: listen(t), broker: broker}
	w.work.Go(func() {
		for {
			from, err := w.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", w.broker)
			if err != nil {
				from.Close()
				continue
			}
			w.mu.Lock()
			w.conns = append(w.conns, from, to)
			w.mu.Unlock()
			w.work.Go(func() { pass(to, from) })
			w.work.Go(func() { pass(from, to) })
		}
	})
	t.Cleanup(func() { w.Close(); w.cut(); w.work.Wait() })
	return w
}

// pass ends both connections with either.
func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from) // cut off or at its end, it is over
	to.Close()
	from.Close()
}

// cut ends all connections; what is on its way is lost. New ones can be made at once.
func (w *wire) cut() (connected bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	connected = len(w.conns) > 0
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
	return connected
}
