package bus_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// benchmarkBrokers runs a benchmark on one node, with every write synced and with lazy sync.
func benchmarkBrokers(b *testing.B, run func(b *testing.B, c *bus.Conn)) {
	for _, always := range []bool{false, true} {
		name := "sync=lazy"
		if always {
			name = "sync=always"
		}
		b.Run(name, func(b *testing.B) {
			broker := bustest.Custom(b, bus.ServerOptions{SyncAlways: always}, bus.Topology{})
			run(b, broker.Conn(b))
		})
	}
}

// BenchmarkAppend is a fenced append of one recorded message: of one session that waits for each,
// and of 64 at once.
func BenchmarkAppend(b *testing.B) {
	benchmarkBrokers(b, func(b *testing.B, c *bus.Conn) {
		for _, sessions := range []int{1, 64} {
			b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
				owners := make([]*bus.Owner, sessions)
				for i := range owners {
					owners[i] = claim(b, c, newSession(), "bench", bus.Claim{})
					appendMessages(b, owners[i], said("first"))
				}
				message := []schemas.Message{said("a recorded message of some sixty bytes, as a tool call might be")}
				var wg sync.WaitGroup
				b.ResetTimer()
				for i, o := range owners {
					n := b.N / sessions
					if i < b.N%sessions {
						n++
					}
					wg.Go(func() {
						for range n {
							if _, err := o.Append(context.Background(), message, 0); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "frames/s")
			})
		}
	})
}

// BenchmarkFeedHop is the time from an append to the follower's frame, and the bare hop of a core
// publish beside it.
func BenchmarkFeedHop(b *testing.B) {
	benchmarkBrokers(b, func(b *testing.B, c *bus.Conn) {
		b.Run("follow", func(b *testing.B) {
			o := claim(b, c, newSession(), "bench", bus.Claim{})
			f := follow(b, c, o.Session(), bus.FollowOptions{})
			expectCaughtUp(b, f)
			message := []schemas.Message{said("hop")}
			for b.Loop() {
				if _, err := o.Append(context.Background(), message, 0); err != nil {
					b.Fatal(err)
				}
				if _, err := f.Next(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("core", func(b *testing.B) {
			sub, err := c.NATS().SubscribeSync("hop")
			if err != nil {
				b.Fatal(err)
			}
			defer sub.Unsubscribe()
			for b.Loop() {
				if err := c.NATS().Publish("hop", []byte("hop")); err != nil {
					b.Fatal(err)
				}
				if _, err := sub.NextMsg(time.Second); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

// BenchmarkTakeover is a claim and a replay of 1,000 frames.
func BenchmarkTakeover(b *testing.B) {
	benchmarkBrokers(b, func(b *testing.B, c *bus.Conn) {
		ref := newSession()
		o := claim(b, c, ref, "bench", bus.Claim{})
		for i := range 1000 {
			appendMessages(b, o, said("%d", i))
		}
		for b.Loop() {
			o = claim(b, c, ref, "bench", o.Claim())
			if got := replay(b, o, bus.Point{}, bus.LogAndLive); len(got) != 1000 {
				b.Fatalf("replayed %d frames", len(got))
			}
		}
	})
}

// BenchmarkResume is a follower that comes back to a session of 1,000 frames, one of many in its
// stream, with a cursor near its end.
func BenchmarkCase_B20_Resume(b *testing.B) {
	benchmarkBrokers(b, func(b *testing.B, c *bus.Conn) {
		var owners []*bus.Owner
		for range 200 {
			owners = append(owners, claim(b, c, newSession(), "bench", bus.Claim{}))
		}
		var last bus.Ack
		for i := range 1000 {
			for _, o := range owners[:5] {
				last = appendMessages(b, o, said("%d", i))
			}
		}
		ref := owners[4].Session()
		for b.Loop() {
			f, err := c.Follow(context.Background(), ref, bus.FollowOptions{After: cursor(c, ref, last.Sequence, 0)})
			if err != nil {
				b.Fatal(err)
			}
			if _, ok := next(b, f).(bus.CaughtUpEvent); !ok {
				b.Fatal("not caught up")
			}
			f.Close()
		}
	})
}

// BenchmarkBatch is the collecting of 20 deltas into one frame.
func BenchmarkBatch(b *testing.B) {
	var batch bus.Batch
	messages := make([]schemas.Message, 20)
	for i := range messages {
		messages[i] = delta("a few words ")
	}
	for b.Loop() {
		for _, m := range messages {
			if _, err := batch.Add(m); err != nil {
				b.Fatal(err)
			}
		}
		if got, _ := batch.Take(1 << 20); len(got) != 1 {
			b.Fatalf("%d messages", len(got))
		}
	}
}
