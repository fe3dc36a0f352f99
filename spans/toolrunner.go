package spans

import (
	"context"

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
	name, attributes := "execute_tool", []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.type", "function"),
		attribute.String("gen_ai.tool.call.id", c.ToolCallID),
		attribute.String("gen_ai.conversation.id", c.Session.ID),
		attribute.String("braid.project", c.Session.Project),
		attribute.Int("braid.attempt", c.Attempt),
	}
	if c.Tool != "" {
		name += " " + c.Tool
		attributes = append(attributes, attribute.String("gen_ai.tool.name", c.Tool))
	}
	_, span := s.tracer.Start(remote(context.Background(), c.TraceContext), name, trace.WithTimestamp(c.Begun), trace.WithAttributes(attributes...))
	end(span, c.Begun, c.Ended, c.StopReason, "")
}
