package metrics

import (
	"cmp"
	"strconv"
	"time"

	"braid/gateway"
)

// Gateway counts what a gateway's events say. Call it once: a second call panics.
func (m *Metrics) Gateway() gateway.Events {
	if m == nil {
		return gateway.Events{}
	}
	requests := m.counter("braid_gateway_requests_total", "Requests that got their answer.", "route", "code")
	watchers := m.gauge("braid_gateway_watchers", "Streams of events that are being written.")
	return gateway.Events{
		Answered: func(route string, status int, _ time.Duration) {
			requests.WithLabelValues(cmp.Or(route, "none"), strconv.Itoa(status)).Inc()
		},
		Watching: func(change int) { watchers.Add(float64(change)) },
	}
}
