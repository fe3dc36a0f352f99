package spans

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"braid/engine"
)

// given are ids that are not to be random.
type given struct {
	trace trace.TraceID
	span  trace.SpanID
}

// idsOf are the ids of a task's trace and of the span that stands for the task.
func idsOf(task engine.TaskOf) given {
	// A zero byte is in no name, so no two tasks are written the same way.
	sum := sha256.Sum256([]byte(strings.Join([]string{"braid task", task.Session.Project, task.Session.ID, task.Task}, "\x00")))
	var g given
	copy(g.trace[:], sum[:16])
	copy(g.span[:], sum[16:24])
	return g
}

type givenKey struct{}

// withIDs has the next span get ids that are not random, of those that it needs.
func withIDs(ctx context.Context, g given) context.Context {
	return context.WithValue(ctx, givenKey{}, g)
}

// ids gives out ids: those that the context holds, else random ones.
type ids struct{}

// NewIDs implements sdktrace.IDGenerator.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if g, ok := ctx.Value(givenKey{}).(given); ok {
		return g.trace, g.span
	}
	var id trace.TraceID
	rand.Read(id[:])
	return id, newSpanID()
}

// NewSpanID implements sdktrace.IDGenerator. The trace is that of the span above.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if g, ok := ctx.Value(givenKey{}).(given); ok {
		return g.span
	}
	return newSpanID()
}

func newSpanID() (id trace.SpanID) {
	rand.Read(id[:])
	if binary.BigEndian.Uint64(id[:]) == 0 { // means that there is none
		id[0] = 1
	}
	return id
}
