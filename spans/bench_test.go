package spans

import (
	"context"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"braid/engine"
	"braid/schemas"
	"braid/toolrunner"
)

// BenchmarkTurn measures what drawing a turn with two calls costs, without sending it.
func BenchmarkTurn(b *testing.B) {
	s := newSpans(sdktrace.WithBatcher(tracetest.NewNoopExporter()))
	defer func() { _ = s.Close(context.Background()) }() // nothing is sent
	now := time.Now()
	turn := engine.EndedRequest{
		TaskOf: someTask, Model: "p/m", Attempt: 1, Begun: now, Said: now.Add(time.Second), Ended: now.Add(2 * time.Second),
		Status: schemas.StopCompleted, Used: schemas.TokenCounts{CacheRead: 5, Output: 10, Total: 100},
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Engine().RequestEnded(turn)
		for range 2 {
			s.Toolrunner().Ended(toolrunner.EndedCall{
				Session: ref, ToolCallID: "c1-1", Attempt: 1, Tool: "x", Begun: now, Ended: now,
				StopReason: schemas.StopCompleted, TraceContext: s.TraceContext()(someTask),
			})
		}
	}
}
