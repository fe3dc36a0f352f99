package gateway

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"braid/bus"
	"braid/schemas"
)

// One frame to all watchers of a session: encoded once, written by each watcher's own goroutine.
// The time is from the frame at the hub to the last watcher's write.
func BenchmarkFanOut(b *testing.B) {
	for _, n := range []int{1, 100, 10000} {
		b.Run(fmt.Sprintf("%d watchers", n), func(b *testing.B) {
			h := &hub{epoch: "e", done: make(chan struct{})}
			h.mu.ring.limit = 1 << 20
			h.mu.changed = make(chan struct{})
			ctx, cancel := context.WithCancel(context.Background())
			var watchers, ready, wrote sync.WaitGroup
			ready.Add(n)
			for range n {
				watchers.Go(func() {
					out := &eventWriter{w: discard{http.Header{}}, timeout: time.Second}
					out.control = http.NewResponseController(out.w)
					w := &watcher{hub: h, out: out}
					w.join(h.now())
					ready.Done()
					for {
						before := w.next
						if w.step(ctx, nil) != nil {
							return
						}
						for range w.next - before {
							wrote.Done()
						}
					}
				})
			}
			ready.Wait()
			sequence := uint64(0)
			for b.Loop() {
				wrote.Add(n)
				sequence++
				f := bus.Frame{Sequence: sequence, Messages: []schemas.Message{schemas.New(time.Now(), schemas.TextFragment(schemas.PhaseDelta, "some words"))}}
				if err := h.push(f); err != nil {
					b.Fatal(err)
				}
				wrote.Wait()
			}
			b.StopTimer()
			cancel()
			watchers.Wait()
		})
	}
}

// From a frame's append to its bytes at a client: broker, feed, hub, HTTP over loopback.
func BenchmarkFrameToClient(b *testing.B) {
	w := newWorld(b)
	s := w.engine.open("s")
	e := w.openStream("/v1/sessions/s/stream", "")
	e.state()
	for b.Loop() {
		s.say(schemas.TextFragment(schemas.PhaseDelta, "some words"))
		e.take(1)
	}
}
