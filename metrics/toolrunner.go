package metrics

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"braid/bus"
	"braid/toolrunner"
)

// Toolrunner counts what a toolrunner's events say, and asks for its queues whenever somebody scrapes.
// Call it once: a second call panics.
func (m *Metrics) Toolrunner(conn *bus.Conn) toolrunner.Events {
	if m == nil {
		return toolrunner.Events{}
	}
	slots := m.gauge("braid_toolrunner_slots", "How many calls may run at once.")
	used := m.gauge("braid_toolrunner_slots_used", "How many calls run.")
	calls := m.counter("braid_toolrunner_calls_total", "Calls that got their result.", "tool", "status")
	duration := m.histogram("braid_toolrunner_call_seconds", "How long calls ran.", slow(), "tool")
	return toolrunner.Events{
		Serving: func(s toolrunner.Serving) {
			slots.Set(float64(s.Slots))
			m.registry.MustRegister(newQueues(conn, s))
		},
		Began: func(string) { used.Inc() },
		Ended: func(c toolrunner.EndedCall) {
			used.Dec()
			tool := cmp.Or(c.Tool, "none")
			calls.WithLabelValues(tool, string(c.StopReason)).Inc()
			duration.WithLabelValues(tool).Observe(between(c.Begun, c.Ended))
		},
	}
}

// queues asks the broker how many calls wait for a toolrunner.
type queues struct {
	conn    *bus.Conn
	serving toolrunner.Serving
	depth   *prometheus.Desc
}

func newQueues(conn *bus.Conn, serving toolrunner.Serving) *queues {
	return &queues{
		conn: conn, serving: serving,
		depth: prometheus.NewDesc("braid_tool_queue_calls", "Calls in a queue: waiting, or handed out and not taken off.", []string{"project", "pool", "state"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (q *queues) Describe(to chan<- *prometheus.Desc) { to <- q.depth }

// askBound is how long the broker has for the depths of all queues. What is not known by then is left
// out of the scrape.
const askBound = time.Second

// Collect implements [prometheus.Collector].
func (q *queues) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), askBound)
	defer cancel()
	for _, project := range q.serving.Projects {
		for _, pool := range q.serving.Pools {
			if !q.conn.Connected() {
				return
			}
			waiting, out, err := q.conn.QueueDepth(ctx, project, pool)
			if err != nil {
				return
			}
			for state, n := range map[string]uint64{"waiting": waiting, "handed_out": out} {
				to <- prometheus.MustNewConstMetric(q.depth, prometheus.GaugeValue, float64(n), project, q.label(pool), state)
			}
		}
	}
}

// label is the pool's name, but for the pool of this toolrunner alone: that has another one after each
// start.
func (q *queues) label(pool string) string {
	if pool == toolrunner.PrivatePool(q.serving.Instance) {
		return "private"
	}
	return pool
}
