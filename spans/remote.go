package spans

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"braid/schemas"
)

// This file is how places in traces come from other processes, and go to them.

const (
	traceParent = "traceparent"
	traceState  = "tracestate"
)

// remote is ctx within a span of another process; ctx itself if that is nowhere.
func remote(ctx context.Context, at schemas.TraceContext) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceParent: at.TraceParent, traceState: at.TraceState})
}

// contextOf is the span that ctx is within, for another process.
func contextOf(ctx context.Context) schemas.TraceContext {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return schemas.TraceContext{TraceParent: carrier[traceParent], TraceState: carrier[traceState]}
}

// linksTo points at where prompts came from that joined a task: it has one trace, that of whoever began it.
func linksTo(callers []schemas.TraceContext) []trace.Link {
	var links []trace.Link
	for _, caller := range callers {
		if at := trace.SpanContextFromContext(remote(context.Background(), caller)); at.IsValid() {
			links = append(links, trace.Link{SpanContext: at})
		}
	}
	return links
}
