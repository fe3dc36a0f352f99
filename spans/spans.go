package spans

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Options say where spans go.
type Options struct {
	// Endpoint is the base URL of an OTLP collector over HTTP; "/v1/traces" follows. Empty: it is what
	// OpenTelemetry's variables say.
	Endpoint string
	// Service names the process, unless OTEL_SERVICE_NAME does.
	Service string
	// Log gets what can't be sent.
	Log zerolog.Logger
}

// conventions are those that names and attributes follow.
const conventions = "https://opentelemetry.io/schemas/1.41.0"

// Spans draws spans. Nil draws none. It is safe for concurrent use.
type Spans struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	giveUp   context.CancelFunc // ends what is being sent
}

// Open makes spans that are sent to a collector, on a goroutine that [Spans.Close] ends. Headers,
// compression, certificates, sampling and batches are set by the variables of OpenTelemetry (OTEL_…).
// A collector need not be there: what can't be sent is logged and dropped.
func Open(ctx context.Context, o Options) (*Spans, error) {
	var options []otlptracehttp.Option
	if o.Endpoint != "" {
		base, err := url.Parse(o.Endpoint)
		if err == nil && base.User != nil {
			return nil, errors.New("send spans: the collector's URL must hold no password: OTEL_EXPORTER_OTLP_HEADERS can")
		}
		if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
			return nil, fmt.Errorf("send spans: %q is no http URL of a collector", o.Endpoint)
		}
		options = append(options, otlptracehttp.WithEndpointURL(base.JoinPath("v1", "traces").String()))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("send spans: %w", err)
	}
	from, err := resource.New(ctx, resource.WithService(), // an id for each process
		resource.WithAttributes(attribute.String("service.name", o.Service)), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("send spans: read the resource's attributes: %w", err)
	}
	sending, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	s := newSpans(sdktrace.WithBatcher(forgiving{exporter, sending, o.Log}), sdktrace.WithResource(from))
	s.giveUp = giveUp
	return s, nil
}

func newSpans(options ...sdktrace.TracerProviderOption) *Spans {
	provider := sdktrace.NewTracerProvider(append(options, sdktrace.WithIDGenerator(ids{}))...)
	return &Spans{provider: provider, tracer: provider.Tracer("braid", trace.WithSchemaURL(conventions)), giveUp: func() {}}
}

// Close sends what is left, for as long as ctx allows. What can't be sent by then is logged and dropped.
func (s *Spans) Close(ctx context.Context) error {
	if s == nil {
		return nil
	}
	defer s.giveUp()
	defer context.AfterFunc(ctx, s.giveUp)()
	// Given ctx itself, it would leave its goroutine behind.
	if err := s.provider.Shutdown(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("send the last spans: %w", err)
	}
	return nil
}

// forgiving logs what can't be sent, which is nobody's failure.
type forgiving struct {
	sdktrace.SpanExporter
	sending context.Context //nolint:containedctx // ends when the process gives up, not one export
	log     zerolog.Logger
}

// ExportSpans implements [sdktrace.SpanExporter].
func (f forgiving) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.sending, cancel)()
	if err := f.SpanExporter.ExportSpans(ctx, spans); err != nil {
		f.log.Warn().Err(err).Int("spans", len(spans)).Msg("spans can't be sent and are dropped")
	}
	return nil
}
