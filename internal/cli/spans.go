package cli

import (
	"context"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"braid/spans"
)

// SpansFlags say where a process sends the spans it draws.
type SpansFlags struct {
	// Endpoint is a collector's URL; empty: OpenTelemetry's own variables say, and without those none
	// are drawn.
	Endpoint string
}

// Register adds the flags to a command.
func (f *SpansFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.Endpoint, "otlp-endpoint", "", "`URL` of an OpenTelemetry collector (OTLP over HTTP) to send traces to (default: OTEL_EXPORTER_OTLP_ENDPOINT, or else none are sent)")
}

// lastSpans is how long the last spans may take to be sent.
const lastSpans = 3 * time.Second

// Start begins to draw spans, if the flags or OpenTelemetry's variables want it; else there are none.
// getenv is [os.Getenv]. stop sends the last ones: a collector that is away is no failure of the process.
func (f *SpansFlags) Start(ctx context.Context, service string, getenv func(string) string, log zerolog.Logger) (s *spans.Spans, stop func(), err error) {
	asked := f.Endpoint != "" || getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	if !asked || getenv("OTEL_SDK_DISABLED") == "true" || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, func() {}, nil
	}
	s, err = spans.Open(ctx, spans.Options{Endpoint: f.Endpoint, Service: service, Log: log})
	if err != nil {
		return nil, nil, &UsageError{err}
	}
	return s, func() {
		ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			log.Warn().Err(err).Msg("the last spans are lost")
		}
	}, nil
}
