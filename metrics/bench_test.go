package metrics

import (
	"testing"
	"time"

	"braid/engine"
	"braid/schemas"
)

// BenchmarkTurn measures what counting a turn costs: its request, and the frames it was stored in.
func BenchmarkTurn(b *testing.B) {
	events := New().Engine()
	now := time.Now()
	turn := engine.EndedRequest{
		Model: "p/m", Attempt: 1, Begun: now, Said: now.Add(time.Second), Ended: now.Add(2 * time.Second),
		Status: schemas.StopCompleted, Used: schemas.TokenCounts{CacheRead: 5, Output: 10, Total: 100},
	}
	b.ReportAllocs()
	for b.Loop() {
		for range 10 {
			events.Appended(time.Millisecond)
		}
		events.RequestEnded(turn)
	}
}
