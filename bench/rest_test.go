package bench

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"braid/schemas"
)

// BenchmarkLongSession measures turns of a session that has 1,000 behind it, beside those of a
// fresh one.
func BenchmarkLongSession(b *testing.B) {
	for _, behind := range []int{0, 1000} {
		b.Run(fmt.Sprintf("turns=%d", behind), func(b *testing.B) {
			s := start(b, false, turnScript(turnsPerTask))
			ref := schemas.SessionRef{Project: "default", ID: "s0"}
			s.create(b, ref)
			if behind > 0 {
				s.runTasks(b, ref, "before", behind/turnsPerTask)
			}
			s.measureTurns(b, []schemas.SessionRef{ref})
		})
	}
}

// BenchmarkSessionsAtRest runs a task in each of many sessions and measures what they still take,
// engine, gateway and broker together, once all are at rest. One operation is one session; run
// it with -benchtime 10000x.
func BenchmarkSessionsAtRest(b *testing.B) {
	s := start(b, false, "count: prompt\nturns:\n  - steps: [{text: hello}]\n")
	serveGateway(b, s)
	goroutines, heap := runtime.NumGoroutine(), heapInUse()
	b.ResetTimer()
	var wg sync.WaitGroup
	next := make(chan int)
	for range 64 {
		wg.Go(func() {
			for i := range next {
				ref := schemas.SessionRef{Project: "default", ID: fmt.Sprintf("s%d", i)}
				s.create(b, ref)
				s.runTasks(b, ref, "t", 1)
			}
		})
	}
	for i := range b.N {
		next <- i
	}
	close(next)
	wg.Wait()
	b.StopTimer()
	s.awaitRest(b)
	b.ReportMetric(float64(int64(heapInUse())-int64(heap))/float64(b.N), "heap-B/session")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines")
}

// awaitRest waits until no session is in motion.
func (s *stack) awaitRest(b *testing.B) {
	b.Helper()
	eventually(b, "sessions stay in motion", func() bool {
		keys, err := s.conn.RunningAll(b.Context())
		return err == nil && len(keys) == 0
	})
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
