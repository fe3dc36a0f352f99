package spans

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"braid/toolrunner"
)

// Toolrunner draws what a toolrunner's events say. A call whose engine draws nothing is a trace of its
// own.
func (s *Spans) Toolrunner() toolrunner.Events {
	if s == nil {
		return toolrunner.Events{}
	}
	return toolrunner.Events{Ended: s.call}
}

func (s *Spans) call(c toolrunner.EndedCall) {
	span := s.beginCall(remote(context.Background(), c.TraceContext), c.Tool, c.ToolCallID, c.Attempt, c.Begun,
		attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.conversation.id", c.Session.ID), attribute.String("braid.project", c.Session.Project))
	end(span, c.Begun, c.Ended, c.StopReason, "")
}

// beginCall begins the span of an attempt of a call, whoever tells of it. tool is empty if there is none.
func (s *Spans) beginCall(ctx context.Context, tool, call string, attempt int, at time.Time, more ...attribute.KeyValue) trace.Span {
	if tool != "" {
		more = append(more, attribute.String("gen_ai.tool.name", tool))
	}
	_, span := s.tracer.Start(ctx, nameOf("execute_tool", tool), trace.WithTimestamp(at), trace.WithAttributes(more...), trace.WithAttributes(
		attribute.String("gen_ai.tool.type", "function"),
		attribute.String("gen_ai.tool.call.id", call),
		attribute.Int("braid.attempt", attempt)))
	return span
}
