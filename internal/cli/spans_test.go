package cli

import (
	"errors"
	"testing"

	"github.com/rs/zerolog"
)

// Nobody's spans go anywhere unless they were asked for.
func TestSpansAreOff(t *testing.T) {
	for why, c := range map[string]struct {
		flags SpansFlags
		env   map[string]string
		on    bool
	}{
		"nothing is said":                         {},
		"a flag":                                  {flags: SpansFlags{Endpoint: "http://127.0.0.1:1"}, on: true},
		"a variable of OpenTelemetry":             {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, on: true},
		"one for traces alone":                    {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, on: true},
		"one for metrics alone":                   {env: map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:1"}},
		"a flag, and OpenTelemetry is turned off": {flags: SpansFlags{Endpoint: "http://127.0.0.1:1"}, env: map[string]string{"OTEL_SDK_DISABLED": "true"}},
		"a flag, and traces are":                  {flags: SpansFlags{Endpoint: "http://127.0.0.1:1"}, env: map[string]string{"OTEL_TRACES_EXPORTER": "none"}},
	} {
		s, stop, err := c.flags.Start(t.Context(), "test", func(name string) string { return c.env[name] }, zerolog.Nop())
		if err != nil {
			t.Errorf("%s: %v", why, err)
			continue
		}
		if (s != nil) != c.on {
			t.Errorf("%s: drawn: %v", why, s != nil)
		}
		stop()
	}
	_, _, err := (&SpansFlags{Endpoint: "nowhere"}).Start(t.Context(), "test", func(string) string { return "" }, zerolog.Nop())
	if _, usage := errors.AsType[*UsageError](err); !usage {
		t.Errorf("an endpoint that is none: %v", err)
	}
}
