package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"braid/bus"
)

// Broker counts what a connection to the broker sees, whenever somebody scrapes. The name tells a
// process's connections apart.
func (m *Metrics) Broker(name string, conn *bus.Conn) {
	if m == nil {
		return
	}
	labels := prometheus.Labels{"connection": name}
	m.registry.MustRegister(&broker{
		conn:       conn,
		connected:  prometheus.NewDesc("braid_broker_connected", "Whether the broker is reached: 1 or 0.", nil, labels),
		reconnects: prometheus.NewDesc("braid_broker_reconnects_total", "How often the broker was reached again.", nil, labels),
		gaps:       prometheus.NewDesc("braid_feed_gaps_total", "Gaps in what the feed brought of followed sessions.", []string{"outcome"}, labels),
	})
}

type broker struct {
	conn                        *bus.Conn
	connected, reconnects, gaps *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (b *broker) Describe(to chan<- *prometheus.Desc) {
	to <- b.connected
	to <- b.reconnects
	to <- b.gaps
}

// Collect implements [prometheus.Collector].
func (b *broker) Collect(to chan<- prometheus.Metric) {
	stats, connected := b.conn.Stats(), 0.0
	if stats.Connected {
		connected = 1
	}
	to <- prometheus.MustNewConstMetric(b.connected, prometheus.GaugeValue, connected)
	to <- prometheus.MustNewConstMetric(b.reconnects, prometheus.CounterValue, float64(stats.Reconnects))
	for outcome, n := range map[string]uint64{"mended": stats.GapsMended, "lost": stats.GapsLost, "resync": stats.Resyncs} {
		to <- prometheus.MustNewConstMetric(b.gaps, prometheus.CounterValue, float64(n), outcome)
	}
}
