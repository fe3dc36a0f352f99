package spans

import (
	"context"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"braid/engine"
	"braid/schemas"
)

// Engine draws what an engine's events say.
func (s *Spans) Engine() engine.Events {
	if s == nil {
		return engine.Events{}
	}
	return engine.Events{RequestEnded: s.request, CallSettled: s.settled, TaskEnded: s.task}
}

// TraceContext says what the calls of a task carry, for their toolrunners to draw them below it. It fits
// engine.Options.
func (s *Spans) TraceContext() func(engine.TaskOf) schemas.TraceContext {
	if s == nil {
		return nil
	}
	return func(task engine.TaskOf) schemas.TraceContext { return contextOf(s.within(task)) }
}

// within is a context in which a span stands below that of the task, whether that one was drawn, will be,
// or is somebody else's to draw. What it begins to learn whether the task is sampled is never ended, and
// so never sent.
func (s *Spans) within(task engine.TaskOf) context.Context {
	return trace.ContextWithSpan(context.Background(), s.beginTask(task, time.Time{}))
}

// beginTask begins the span of a task: in its caller's trace if there is one, else in one of its own. What
// the caller has decided about sampling holds, unless a sampler is set that decides otherwise.
func (s *Spans) beginTask(task engine.TaskOf, at time.Time, links ...trace.Link) trace.Span {
	ctx := remote(withIDs(context.Background(), idsOf(task)), task.Caller)
	_, span := s.tracer.Start(ctx, nameOf("invoke_agent", task.Agent), trace.WithTimestamp(at),
		trace.WithLinks(links...), trace.WithAttributes(operation("invoke_agent", task)...))
	return span
}

// nameOf is the name of a span: what is done, and of what that is, if it has a name.
func nameOf(operation, of string) string { return strings.TrimSuffix(operation+" "+of, " ") }

// operation are the attributes that each span of a task has.
func operation(name string, task engine.TaskOf) []attribute.KeyValue {
	attributes := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", name),
		attribute.String("gen_ai.conversation.id", task.Session.ID),
		attribute.String("braid.project", task.Session.Project),
		attribute.String("braid.task", task.Task),
	}
	if task.Agent != "" {
		attributes = append(attributes, attribute.String("gen_ai.agent.name", task.Agent))
	}
	return attributes
}

// model are the attributes of who was asked.
func model(name string) []attribute.KeyValue {
	provider, id, err := schemas.SplitModel(name)
	if err != nil {
		return nil // there was none
	}
	return []attribute.KeyValue{attribute.String("gen_ai.provider.name", provider), attribute.String("gen_ai.request.model", id)}
}

// usage are the attributes of what was used. The input includes what was read from a cache or written
// to one.
func usage(used schemas.TokenCounts) []attribute.KeyValue {
	if used.Total == 0 {
		return nil
	}
	attributes := []attribute.KeyValue{
		attribute.Int64("gen_ai.usage.input_tokens", used.Total-used.Output),
		attribute.Int64("gen_ai.usage.output_tokens", used.Output),
		attribute.Int64("gen_ai.usage.cache_read.input_tokens", used.CacheRead),
		attribute.Int64("gen_ai.usage.cache_creation.input_tokens", used.CacheWrite),
	}
	if used.CostUSD > 0 {
		attributes = append(attributes, attribute.Float64("braid.cost_usd", used.CostUSD.Float()))
	}
	return attributes
}

func (s *Spans) task(t engine.EndedTask) {
	span := s.beginTask(t.TaskOf, t.Begun, linksTo(t.Steered)...)
	span.SetAttributes(model(t.Model)...)
	span.SetAttributes(usage(t.Used)...)
	span.SetAttributes(attribute.Int("braid.turns", t.Turns), attribute.String("braid.cause", t.Cause))
	end(span, t.Begun, t.Ended, t.Status, t.Cause)
}

func (s *Spans) request(r engine.EndedRequest) {
	_, id, _ := schemas.SplitModel(r.Model) // there may be none
	_, span := s.tracer.Start(s.within(r.TaskOf), nameOf("chat", id), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(r.Begun), trace.WithAttributes(append(operation("chat", r.TaskOf), model(r.Model)...)...))
	span.SetAttributes(usage(r.Used)...)
	span.SetAttributes(attribute.Int("braid.attempt", r.Attempt), attribute.Bool("braid.usage.estimated", r.Estimated))
	if !r.Said.IsZero() {
		span.SetAttributes(attribute.Float64("gen_ai.response.time_to_first_chunk", max(r.Said.Sub(r.Begun), 0).Seconds()))
	}
	why := ""
	if r.Failure != nil && r.Failure.StatusCode > 0 {
		why = strconv.Itoa(r.Failure.StatusCode)
	}
	end(span, r.Begun, r.Ended, r.Status, why)
}

func (s *Spans) settled(c engine.SettledCall) {
	span := s.beginCall(s.within(c.TaskOf), c.Tool, c.ToolCallID, c.Attempt, c.Begun, operation("execute_tool", c.TaskOf)...)
	span.SetAttributes(attribute.String("braid.cause", c.Cause()))
	end(span, c.Begun, c.Ended, c.Status, c.Cause())
}

// end ends a span with its status. why is one word for what went wrong, if there is a better one than
// the status itself. What people abort is no failure. No span ends before it began, whatever the clocks
// of two machines say.
func end(span trace.Span, begun, ended time.Time, status schemas.StopReason, why string) {
	span.SetAttributes(attribute.String("braid.status", string(status)))
	switch status {
	case schemas.StopCompleted, schemas.StopAborted:
	default:
		if why == "" {
			why = string(status)
		}
		span.SetAttributes(attribute.String("error.type", why))
		span.SetStatus(codes.Error, "")
	}
	if ended.Before(begun) {
		ended = begun
	}
	span.End(trace.WithTimestamp(ended))
}
