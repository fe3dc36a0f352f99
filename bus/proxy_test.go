package bus_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// proxy stands between a client and the broker and can lose what the broker says.
type proxy struct {
	target string
	l      net.Listener
	mu     sync.Mutex
	conns  []net.Conn
	mute   bool // what the broker says is thrown away
	wg     sync.WaitGroup
}

func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{target: strings.TrimPrefix(target, "nats://"), l: l}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) url() string { return "nats://" + p.l.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.l.Accept()
		if err != nil {
			return
		}
		broker, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, broker)
		p.mu.Unlock()
		p.wg.Go(func() { io.Copy(broker, client); broker.Close() })
		p.wg.Go(func() { p.answer(client, broker); client.Close() })
	}
}

func (p *proxy) answer(client, broker net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := broker.Read(buffer)
		p.mu.Lock()
		mute := p.mute
		p.mu.Unlock()
		if n > 0 && !mute {
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// setMute says whether the broker's answers are lost.
func (p *proxy) setMute(mute bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = mute
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func throughProxy(t *testing.T) (b *bustest.Broker, p *proxy, c *bus.Conn) {
	b = bustest.Listening(t)
	b.Conn(t) // the streams exist
	p = startProxy(t, b.Nodes[0].URL())
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	c, err := bus.Connect(ctx, bus.Options{URL: p.url()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return b, p, c
}

// stored waits until the session's last frame holds the words.
func awaitStored(t testing.TB, c *bus.Conn, ref schemas.SessionRef, want string) {
	t.Helper()
	for {
		frames := readFrames(t, c, ref, bus.LogAndLive)
		if n := len(frames); n > 0 && words(frames[n-1].Messages...) == want {
			return
		}
		select {
		case <-testContext(t).Done():
			t.Fatalf("%q is not stored", want)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// The broker stores a frame and its acknowledgement is lost, with the connection: the owner
// tries again on a new one, and the frame is there once.
func TestCase_B10_AckLostWithTheConnection(t *testing.T) {
	t.Parallel()
	b, p, c := throughProxy(t)
	watcher := b.Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	appendMessages(t, o, said("one"))
	p.setMute(true)
	type result struct {
		ack bus.Ack
		err error
	}
	done := make(chan result)
	go func() {
		ack, err := o.Append(testContext(t), []schemas.Message{said("two")}, 0)
		done <- result{ack, err}
	}()
	awaitStored(t, watcher, ref, "two")
	p.setMute(false)
	p.cut()
	r := <-done
	if r.err != nil || !r.ack.Duplicate || r.ack.Fresh(time.Now()) {
		t.Fatalf("append: %+v %v", r.ack, r.err)
	}
	appendMessages(t, o, said("three"))
	if got := frameWords(readFrames(t, watcher, ref, bus.LogAndLive)); got != "one | two | three" {
		t.Errorf("the session holds %q", got)
	}
}

// The same, and another claims before the owner can hear: it finds out, whatever it was told of
// its frame, and the new owner has read the frame.
func TestCase_B10_AckLostAndClaimedAway(t *testing.T) {
	t.Parallel()
	b, p, c := throughProxy(t)
	watcher := b.Conn(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	appendMessages(t, o, said("one"))
	p.setMute(true)
	done := make(chan error)
	go func() {
		_, err := o.Append(testContext(t), []schemas.Message{said("two")}, 0)
		done <- err
	}()
	awaitStored(t, watcher, ref, "two")
	next := claim(t, watcher, ref, "b", o.Claim())
	if got := frameWords(replay(t, next, bus.Point{}, bus.LogAndLive)); got != "one | two" {
		t.Errorf("the next owner reads %q", got)
	}
	p.setMute(false)
	p.cut()
	if err := <-done; !errors.Is(err, bus.ErrFenced) {
		t.Errorf("append: %v", err)
	}
}

// The broker hears nothing for longer than an acknowledgement stays fresh: what comes then starts
// no effect, and Confirm gets one that does.
func TestConfirmAfterSilence(t *testing.T) {
	t.Parallel()
	_, p, c := throughProxy(t)
	ref := newSession()
	o := claim(t, c, ref, "a", bus.Claim{})
	appendMessages(t, o, said("one"))
	p.setMute(true)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, err := o.Copy().Append(ctx, nil, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("append to a silent broker: %v", err)
	}
	p.setMute(false)
	p.cut()
	eventually(t, "an acknowledgement is fresh", func() bool { // how soon is the machine's affair
		ack, err := o.Confirm(testContext(t))
		if err != nil && !errors.Is(err, bus.ErrUnconfirmed) {
			t.Fatalf("confirm: %v", err)
		}
		return err == nil && ack.Fresh(time.Now())
	})
}
