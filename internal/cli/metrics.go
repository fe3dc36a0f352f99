package cli

import (
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"braid/metrics"
)

// MetricsFlags say where a process can be asked what it does.
type MetricsFlags struct {
	// Listen is the address of /metrics; empty: nothing is counted.
	Listen string
}

// Register adds the flags to a command.
func (f *MetricsFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.Listen, "metrics-listen", "", "`ADDRESS` to serve Prometheus metrics on, without a token, such as 127.0.0.1:7301 (default: not served)")
}

// Start makes the process's metrics and serves them, if the flags want it; else there are none. stop
// ends that.
func (f *MetricsFlags) Start(log zerolog.Logger) (m *metrics.Metrics, stop func() error, err error) {
	if f.Listen == "" {
		return nil, func() error { return nil }, nil
	}
	m = metrics.New()
	server, err := metrics.Listen(f.Listen, m, log)
	if err != nil {
		return nil, nil, err
	}
	log.Info().Stringer("address", server.Addr()).Msg("serving metrics")
	return m, server.Close, nil
}
