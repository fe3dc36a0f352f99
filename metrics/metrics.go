package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics are the metrics of one process. Nil is none. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
}

// New makes the metrics of a process, with those of the Go runtime and of the process itself.
func New() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewBuildInfoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	m.registry.MustRegister(g)
	return g
}

func (m *Metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(h)
	return h
}

// Upper bounds of buckets, in seconds.
func quick() []float64 { return prometheus.ExponentialBuckets(0.0005, 2, 14) } // to 4 s: a broker's answer
func slow() []float64  { return prometheus.ExponentialBuckets(0.05, 2, 14) }   // to 7 min: models and tools

// other stands for the values of a label that there was no room for.
const other = "other"

// maxValues is how many values a label has whose values others choose.
const maxValues = 100

// bounded keeps a label from having more values than there is room for.
type bounded struct {
	mu   sync.Mutex
	seen map[string]bool
}

func newBounded() *bounded { return &bounded{seen: map[string]bool{}} }

// value is the label's value for v: v itself, or other if too many came before it.
func (b *bounded) value(v string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen[v] {
		return v
	}
	if len(b.seen) >= maxValues {
		return other
	}
	b.seen[v] = true
	return v
}
