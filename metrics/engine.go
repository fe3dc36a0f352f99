package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"braid/engine"
	"braid/schemas"
)

// Engine counts what an engine's events say. Call it once: a second call panics.
func (m *Metrics) Engine() engine.Events {
	if m == nil {
		return engine.Events{}
	}
	appends := m.histogram("braid_append_seconds", "Time from sending a frame to the broker to its acknowledgement.", quick())
	commands := m.counter("braid_commands_total", "Commands that got their outcome.", "command", "code")
	takeovers := m.counter("braid_takeovers_total", "Tasks that this engine went on with after another one.", "cause")
	tasks := m.counter("braid_tasks_total", "Tasks that ended.", "status", "cause")
	calls := m.counter("braid_calls_settled_total", "Attempts of tool calls that no toolrunner ran to their end.", "tool", "cause")
	types, causes, tools, models := newBounded(), newBounded(), newBounded(), m.models()
	return engine.Events{
		Appended: func(took time.Duration) { appends.WithLabelValues().Observe(took.Seconds()) },
		Settled: func(c engine.SettledCommand) {
			commands.WithLabelValues(types.value(string(c.Type)), string(c.Code)).Inc()
		},
		TakenOver:    func(cause string) { takeovers.WithLabelValues(causes.value(cause)).Inc() },
		RequestEnded: models.count,
		CallSettled: func(c engine.SettledCall) {
			calls.WithLabelValues(tools.value(c.Tool), c.Cause()).Inc()
		},
		TaskEnded: func(t engine.EndedTask) {
			tasks.WithLabelValues(string(t.Status), causes.value(t.Cause)).Inc()
		},
	}
}

// models counts requests to models.
type models struct {
	names                *bounded
	requests, turns      *prometheus.CounterVec
	tokens, cost         *prometheus.CounterVec
	duration, firstToken *prometheus.HistogramVec
}

func (m *Metrics) models() *models {
	return &models{
		names:      newBounded(),
		requests:   m.counter("braid_model_requests_total", "Requests to models that ended.", "model", "status"),
		turns:      m.counter("braid_turns_total", "Turns: requests to models that completed.", "model"),
		tokens:     m.counter("braid_model_tokens_total", "Tokens used; each counts as one kind.", "model", "kind"),
		cost:       m.counter("braid_model_cost_dollars_total", "What the tokens cost, by the price list, in US dollars.", "model"),
		duration:   m.histogram("braid_model_request_seconds", "Time from the beginning of a request to its end.", slow(), "model"),
		firstToken: m.histogram("braid_model_first_token_seconds", "Time from the beginning of a request to the first that its model said.", slow(), "model"),
	}
}

func (c *models) count(r engine.EndedRequest) {
	model := c.names.value(r.Model)
	c.requests.WithLabelValues(model, string(r.Status)).Inc()
	c.duration.WithLabelValues(model).Observe(between(r.Begun, r.Ended))
	if !r.Said.IsZero() {
		c.firstToken.WithLabelValues(model).Observe(between(r.Begun, r.Said))
	}
	if r.Status == schemas.StopCompleted {
		c.turns.WithLabelValues(model).Inc()
	}
	add := func(kind string, n int64) { c.tokens.WithLabelValues(model, kind).Add(float64(max(n, 0))) }
	add("input", r.Used.Total-r.Used.Output-r.Used.CacheRead-r.Used.CacheWrite)
	add("output", r.Used.Output)
	add("cache_read", r.Used.CacheRead)
	add("cache_write", r.Used.CacheWrite)
	c.cost.WithLabelValues(model).Add(max(r.Used.CostUSD, 0).Float())
}

// between is the time from one instant to another, in seconds. Clocks of two machines may have it
// negative.
func between(from, to time.Time) float64 { return max(to.Sub(from), 0).Seconds() }

// Sessions counts the sessions of an engine whenever somebody scrapes.
func (m *Metrics) Sessions(e *engine.Engine) {
	if m == nil {
		return
	}
	m.registry.MustRegister(&sessions{
		engine: e,
		states: prometheus.NewDesc("braid_engine_sessions", "Sessions in motion here, by what they do.", []string{"state"}, nil),
		most:   prometheus.NewDesc("braid_engine_sessions_max", "How many sessions may be in motion here.", nil, nil),
	})
}

type sessions struct {
	engine       *engine.Engine
	states, most *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (s *sessions) Describe(to chan<- *prometheus.Desc) { to <- s.states; to <- s.most }

// Collect implements [prometheus.Collector].
func (s *sessions) Collect(to chan<- prometheus.Metric) {
	motion := s.engine.Motion()
	for state, n := range map[string]int{"running": motion.Running, "waiting": motion.Waiting, "idle": motion.Idle} {
		to <- prometheus.MustNewConstMetric(s.states, prometheus.GaugeValue, float64(n), state)
	}
	to <- prometheus.MustNewConstMetric(s.most, prometheus.GaugeValue, float64(s.engine.MaxSessions()))
}
