package bus

import (
	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// The headers of a W3C trace context, under the names that the standard gives them.
const (
	headerTraceParent = "traceparent"
	headerTraceState  = "tracestate"
)

// setTraceContext has a message carry where it belongs in a trace, if that is anywhere.
func setTraceContext(h nats.Header, t schemas.TraceContext) {
	t = schemas.ParseTraceContext(t.TraceParent, t.TraceState) // nothing else is fit for a header
	if t.TraceParent != "" {
		h.Set(headerTraceParent, t.TraceParent)
	}
	if t.TraceState != "" {
		h.Set(headerTraceState, t.TraceState)
	}
}

func traceContextOf(h nats.Header) schemas.TraceContext {
	return schemas.ParseTraceContext(h.Get(headerTraceParent), h.Get(headerTraceState))
}
