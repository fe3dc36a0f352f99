package systemtest

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"braid/schemas"
)

// scraped is what a process serves to Prometheus.
func (p *process) scraped() string {
	p.t.Helper()
	r, err := http.Get("http://" + p.awaitLog("serving metrics").Address + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		p.t.Fatalf("scrape %s: %s, %v", p.name, r.Status, err)
	}
	return string(text)
}

// Each process can be scraped, and one engine tells of a task that another was killed with.
func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, layout{engines: 2, toolrunners: 1, flags: []string{"--metrics-listen", "127.0.0.1:0"}})
	s := w.newSession(t, "ramble", schemas.ApproveAll)
	s.task("tell me a story")
	s.hears("a frame that")
	owner, _ := w.owner(s.ref)
	owner.kill()
	s.ends(schemas.StopCompleted)
	heir := w.engines[0]
	if heir == owner {
		heir = w.engines[1]
	}
	for p, series := range map[*process][]string{
		heir: {
			`braid_takeovers_total{cause="lost"} 1`,
			`braid_model_requests_total{model="scripted/ramble",status="timeout"} 1`,
			`braid_model_requests_total{model="scripted/ramble",status="completed"} 1`,
			`braid_tasks_total{cause="done",status="completed"} 1`,
		},
		w.toolrunners[0]: {`braid_toolrunner_slots 8`, `braid_tool_queue_calls{pool="default",project="default",state="waiting"} 0`},
		w.gateway:        {`braid_gateway_requests_total{code="201",route="POST /v1/sessions"} 1`, `braid_broker_connected{connection="gateway"} 1`},
	} {
		for _, line := range series {
			eventually(t, p.name+" serves "+line, func() bool { return strings.Contains(p.scraped(), "\n"+line+"\n") })
		}
	}
}
