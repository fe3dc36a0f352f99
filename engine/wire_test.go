package engine

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"braid/bus"
)

// wire stands between one engine and the broker. It understands what goes by, so it can withhold
// single publications, or the answers to them, for as long as a test wants. So an engine is
// stopped, or killed, between any two things it says.
type wire struct {
	t      *testing.T
	target string
	l      net.Listener
	wg     sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
	grips []*grip
}

// grip withholds what it is told to.
type grip struct {
	w       *wire
	subject string   // prefix of the subject
	parts   []string // what the publication holds besides
	answers bool     // not the publication is withheld, but the answer to it
	most    int      // how many are; 0: all

	first   chan struct{} // closed when there is one
	kept    []func()      // sends what was withheld
	replies []string      // where withheld answers go
}

func newWire(t *testing.T, target string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, target: strings.TrimPrefix(target, "nats://"), l: l}
	w.wg.Go(w.accept)
	t.Cleanup(func() {
		w.cut()
		w.wg.Wait()
	})
	return w
}

func (w *wire) accept() {
	for {
		client, err := w.l.Accept()
		if err != nil {
			return
		}
		broker, err := net.Dial("tcp", w.target)
		if err != nil {
			client.Close()
			continue
		}
		w.mu.Lock()
		w.conns = append(w.conns, client, broker)
		w.mu.Unlock()
		w.wg.Go(func() { w.pump(client, broker, w.published) })
		w.wg.Go(func() { w.pump(broker, client, w.answered) })
	}
}

// pump passes on what judge does not take.
func (w *wire) pump(from, to net.Conn, judge func(fields []string, op []byte) *grip) {
	defer from.Close()
	defer to.Close()
	in := bufio.NewReader(from)
	for {
		op, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		fields := strings.Fields(string(op))
		if len(fields) > 2 && slices.Contains([]string{"PUB", "HPUB", "MSG", "HMSG"}, fields[0]) {
			size, err := strconv.Atoi(fields[len(fields)-1])
			if err != nil {
				return
			}
			body := make([]byte, size+2)
			if _, err := io.ReadFull(in, body); err != nil {
				return
			}
			op = append(op, body...)
		} else {
			fields = nil
		}
		w.mu.Lock()
		if g := judge(fields, op); g != nil {
			g.keep(func() { _, _ = to.Write(op) })
		} else {
			_, err = to.Write(op)
		}
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// published finds the grip that withholds a publication, and notes whose answer is wanted.
func (w *wire) published(fields []string, op []byte) *grip {
	for _, g := range w.grips {
		if len(fields) == 0 || !g.wants(fields[1], op) {
			continue
		}
		if !g.answers {
			return g
		}
		if n := len(fields); (fields[0] == "PUB" && n == 4) || n == 5 {
			g.replies = append(g.replies, fields[2])
		}
	}
	return nil
}

// answered finds the grip that withholds an answer.
func (w *wire) answered(fields []string, _ []byte) *grip {
	for _, g := range w.grips {
		if len(fields) > 0 && slices.Contains(g.replies, fields[1]) {
			return g
		}
	}
	return nil
}

func (g *grip) wants(subject string, op []byte) bool {
	if !strings.HasPrefix(subject, g.subject) || (g.most > 0 && len(g.kept) >= g.most) {
		return false
	}
	for _, part := range g.parts {
		if !bytes.Contains(op, []byte(part)) {
			return false
		}
	}
	return true
}

func (g *grip) keep(send func()) {
	g.kept = append(g.kept, send)
	if len(g.kept) == 1 {
		close(g.first)
	}
}

func (w *wire) grip(g *grip) *grip {
	g.w, g.first = w, make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.grips = append(w.grips, g)
	return g
}

// hold withholds publications on subjects that begin so and hold all parts.
func (w *wire) hold(subject string, parts ...string) *grip {
	return w.grip(&grip{subject: subject, parts: parts})
}

// holdOne withholds only the first.
func (w *wire) holdOne(subject string, parts ...string) *grip {
	return w.grip(&grip{subject: subject, parts: parts, most: 1})
}

// holdAnswers lets them pass, and withholds what the broker says to them.
func (w *wire) holdAnswers(subject string, parts ...string) *grip {
	return w.grip(&grip{subject: subject, parts: parts, answers: true})
}

// wait waits until something is withheld.
func (g *grip) wait() {
	g.w.t.Helper()
	select {
	case <-g.first:
	case <-time.After(testTime):
		g.w.t.Fatalf("nothing is said on %s %q", g.subject, g.parts)
	}
}

// release sends what was withheld, and withholds no more.
func (g *grip) release() {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	g.w.grips = slices.DeleteFunc(g.w.grips, func(other *grip) bool { return other == g })
	for _, send := range g.kept {
		send()
	}
	g.kept = nil
}

// stopsPulling keeps the engine from taking commands of a lane off the queue; when it returns none
// is on its way.
func (w *wire) stopsPulling(lane bus.Lane) {
	w.t.Helper()
	w.hold("$JS.API.CONSUMER.MSG.NEXT.COMMANDS." + string(lane)).wait()
}

// cut ends the connection for good; what is withheld is lost.
func (w *wire) cut() {
	w.l.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.Close()
	}
}

// wired is killable on a wire of its own.
func (h *house) wired(name string, options ...func(*Options)) (*Engine, *wire) {
	h.t.Helper()
	w := newWire(h.t, h.broker.Nodes[0].URL())
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	c, err := bus.Connect(ctx, bus.Options{URL: "nats://" + w.l.Addr().String()})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(c.Close)
	return h.killable(name, append(options, func(o *Options) { o.Conn = c })...), w
}

// crash kills an engine; what it had said and the wire withheld is never heard.
func crash(e *Engine, w *wire) {
	w.cut()
	e.kill()
}

// stops has an engine that was not killed end with the test.
func (h *house) stops(e *Engine) {
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTime)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			h.t.Errorf("stop %s: %v", e.instance, err)
		}
	})
}
