package metrics

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"braid/bus"
	"braid/bus/bustest"
	"braid/engine"
	"braid/gateway"
	"braid/llm"
	"braid/llm/scripted"
	"braid/schemas"
	"braid/toolrunner"
	"braid/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script has a turn with a call, one that fails once, and for a second task one that never ends.
const script = `
turns:
  - steps:
      - text: Let me greet.
      - tool_call: {name: greet, arguments: {}}
      - usage: {cache_read: 40, cache_write: 10, output: 20, total: 100}
  - attempts:
      - steps: [{fail: {message: overloaded, retryable: true}}]
      - steps:
          - text: Done.
          - usage: {output: 5, total: 150}
  - steps: [{text: [Well, {wait: never}]}]
`

const token = "open-sesame"

// world is every part of a stack, each with a connection of its own, and metrics of all.
type world struct {
	t       *testing.T
	m       *Metrics
	conn    *bus.Conn // the test's own
	server  *Server
	running *engine.Engine
	url     string // the gateway's
	broker  *bustest.Broker
}

var ref = schemas.SessionRef{Project: "default", ID: "s1"}

func newWorld(t *testing.T) *world {
	t.Helper()
	broker := bustest.Single(t)
	w := &world{t: t, m: New(), broker: broker, conn: broker.Conn(t)}
	var err error
	if w.server, err = Listen("127.0.0.1:0", w.m, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.server.Close(); err != nil {
			t.Error(err)
		}
	})
	w.running = w.engine("e1")
	w.toolrunner()
	w.gateway()
	return w
}

func (w *world) engine(name string) *engine.Engine {
	w.t.Helper()
	parsed, err := scripted.Parse([]byte(script))
	if err != nil {
		w.t.Fatal(err)
	}
	models, err := llm.NewCatalog(scripted.New(map[string]*scripted.Script{"m": parsed}))
	if err != nil {
		w.t.Fatal(err)
	}
	prices, err := engine.ParsePrices([]byte("scripted/m: {input: 1000, output: 2000, cache_read: 100, cache_write: 0}"))
	if err != nil {
		w.t.Fatal(err)
	}
	store, err := trace.Open(w.t.TempDir(), trace.Options{Logger: zerolog.Nop()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = store.Close() })
	conn := w.broker.Conn(w.t)
	e, err := engine.Start(w.t.Context(), engine.Options{
		Conn: conn, Trace: store, Models: models, Prices: prices, Instance: name, MaxSessions: 7,
		Jitter: func() float64 { return 0 }, Timing: engine.Timing{Retry: 0.01}, Events: w.m.Engine(), Log: zerolog.Nop(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			w.t.Error(err)
		}
	})
	w.m.Sessions(e)
	w.m.Broker("engine", conn)
	return e
}

func (w *world) toolrunner() {
	w.t.Helper()
	greet := toolrunner.Func("greet", "Greets.", func(context.Context, struct{}, io.Writer) (string, error) {
		return "hello", nil
	}, toolrunner.ReadOnly)
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	conn := w.broker.Conn(w.t)
	go func() { // ends with cancel; the cleanup waits
		done <- toolrunner.Serve(ctx, conn, toolrunner.ServeOptions{
			Tools: []toolrunner.Tool{greet}, Slots: 3, Events: w.m.Toolrunner(conn), Ready: func() { close(ready) }, Log: zerolog.Nop(),
		})
	}()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	<-ready
}

func (w *world) gateway() {
	w.t.Helper()
	conn := w.broker.Conn(w.t)
	g, err := gateway.New(gateway.Options{Conn: conn, Token: token, Events: w.m.Gateway(), Log: zerolog.Nop()})
	if err != nil {
		w.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.url = "http://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, listener) }() // ends with cancel; the cleanup waits
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
}

func (w *world) send(c schemas.Command) {
	w.t.Helper()
	c.Session = ref
	if _, _, err := w.conn.SendAndWait(w.t.Context(), c, time.Minute); err != nil {
		w.t.Fatalf("%s: %v", c.Type, err)
	}
}

// get asks a server, under a host name if one is given, and returns the status and the body.
func (w *world) get(url, host string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Host = host
	r.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// scrape returns what Prometheus would read: values by series, those of braid alone. Buckets and sums
// of times are left out, since they differ from run to run.
func (w *world) scrape() map[string]float64 {
	w.t.Helper()
	status, text := w.get("http://"+w.server.Addr().String()+"/metrics", "")
	if status != http.StatusOK {
		w.t.Fatalf("status %d: %s", status, text)
	}
	values := map[string]float64{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		series, value, _ := strings.Cut(lines.Text(), "} ")
		if !strings.Contains(series, "{") {
			series, value, _ = strings.Cut(lines.Text(), " ")
		} else {
			series += "}"
		}
		if !strings.HasPrefix(series, "braid_") || strings.Contains(series, "_bucket{") || strings.Contains(series, "_seconds_sum") {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			w.t.Fatalf("line %q: %v", lines.Text(), err)
		}
		values[series] = n
	}
	return values
}

// await scrapes until nothing is amiss: what is counted follows what can be seen, and each count by itself.
func (w *world) await(amiss func(map[string]float64) string) {
	w.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		what := amiss(w.scrape())
		if what == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			w.t.Fatal(what)
		}
	}
}

// until scrapes until a series has a value.
func (w *world) until(series string, want float64) {
	w.t.Helper()
	w.await(func(values map[string]float64) string {
		if got, ok := values[series]; ok && got == want {
			return ""
		}
		return fmt.Sprintf("%s never was %v: %v", series, want, values)
	})
}

// speaks sends a command, and waits until it has a model say something.
func (w *world) speaks(c schemas.Command) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	follower, err := w.conn.Follow(ctx, ref, bus.FollowOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer follower.Close()
	w.send(c)
	for {
		event, err := follower.Next(ctx)
		if err != nil {
			w.t.Fatal(err)
		}
		frame, ok := event.(bus.Frame)
		if ok && slices.ContainsFunc(frame.Messages, func(m schemas.Message) bool { return m.Kind() == schemas.KindPartialText }) {
			return
		}
	}
}

func TestScrapeAfterASession(t *testing.T) {
	w := newWorld(t)
	w.send(schemas.Command{ID: "c", Type: schemas.CommandCreate, Create: &schemas.CreateBody{Model: "scripted/m", ApprovalMode: schemas.ApproveAll}})
	w.send(schemas.Command{ID: "t1", Type: schemas.CommandTask, Task: &schemas.TaskBody{Prompt: "hello"}})
	w.until(`braid_tasks_total{cause="done",status="completed"}`, 1)
	w.speaks(schemas.Command{ID: "t2", Type: schemas.CommandTask, Task: &schemas.TaskBody{Prompt: "again"}})
	w.send(schemas.Command{ID: "t3", Type: schemas.CommandTask, Task: &schemas.TaskBody{Prompt: "too much"}})
	w.until(`braid_engine_sessions{state="running"}`, 1)
	w.send(schemas.Command{ID: "a", Type: schemas.CommandAbort, Abort: &schemas.AbortBody{}})
	if status, _ := w.get(w.url+"/v1/sessions/nowhere", ""); status != http.StatusNotFound {
		t.Errorf("status %d", status)
	}
	w.await(func(got map[string]float64) string {
		for vague, least := range map[string]float64{ // the aborted request and the failed one are estimated
			"braid_append_seconds_count":                                 8,
			`braid_model_tokens_total{kind="input",model="scripted/m"}`:  1,
			`braid_model_tokens_total{kind="output",model="scripted/m"}`: 1,
			`braid_model_cost_dollars_total{model="scripted/m"}`:         1e-9,
		} {
			if got[vague] < least {
				return fmt.Sprintf("%s is %v", vague, got[vague])
			}
			delete(got, vague)
		}
		if diff := cmp.Diff(afterTheSession(), got); diff != "" {
			return "(-want +got)\n" + diff
		}
		return ""
	})
}

func afterTheSession() map[string]float64 {
	want := map[string]float64{
		`braid_commands_total{code="applied",command="create"}`:                       1,
		`braid_commands_total{code="applied",command="task"}`:                         2,
		`braid_commands_total{code="applied",command="abort"}`:                        1,
		`braid_commands_total{code="task_in_progress",command="task"}`:                1,
		`braid_engine_sessions_max`:                                                   7,
		`braid_engine_sessions{state="idle"}`:                                         0,
		`braid_engine_sessions{state="running"}`:                                      0,
		`braid_engine_sessions{state="waiting"}`:                                      0,
		`braid_gateway_requests_total{code="404",route="GET /v1/sessions/{id}"}`:      1,
		`braid_gateway_watchers`:                                                      0,
		`braid_model_first_token_seconds_count{model="scripted/m"}`:                   3,
		`braid_model_request_seconds_count{model="scripted/m"}`:                       4,
		`braid_model_requests_total{model="scripted/m",status="aborted"}`:             1,
		`braid_model_requests_total{model="scripted/m",status="completed"}`:           2,
		`braid_model_requests_total{model="scripted/m",status="failed"}`:              1,
		`braid_model_tokens_total{kind="cache_read",model="scripted/m"}`:              40,
		`braid_model_tokens_total{kind="cache_write",model="scripted/m"}`:             10,
		`braid_tasks_total{cause="done",status="completed"}`:                          1,
		`braid_tasks_total{cause="user",status="aborted"}`:                            1,
		`braid_turns_total{model="scripted/m"}`:                                       2,
		`braid_tool_queue_calls{pool="default",project="default",state="waiting"}`:    0,
		`braid_tool_queue_calls{pool="default",project="default",state="handed_out"}`: 0,
		`braid_tool_queue_calls{pool="private",project="default",state="waiting"}`:    0,
		`braid_tool_queue_calls{pool="private",project="default",state="handed_out"}`: 0,
		`braid_toolrunner_call_seconds_count{tool="greet"}`:                           1,
		`braid_toolrunner_calls_total{status="completed",tool="greet"}`:               1,
		`braid_toolrunner_slots`:                                                      3,
		`braid_toolrunner_slots_used`:                                                 0,
	}
	want[`braid_broker_connected{connection="engine"}`] = 1
	want[`braid_broker_reconnects_total{connection="engine"}`] = 0
	for _, outcome := range []string{"mended", "lost", "resync"} {
		want[fmt.Sprintf(`braid_feed_gaps_total{connection="engine",outcome=%q}`, outcome)] = 0
	}
	return want
}

// A stream is counted while it is open.
func TestWatchers(t *testing.T) {
	w := newWorld(t)
	w.send(schemas.Command{ID: "c", Type: schemas.CommandCreate, Create: &schemas.CreateBody{Model: "scripted/m", ApprovalMode: schemas.ApproveAll}})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/v1/sessions/s1/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", response, err)
	}
	defer response.Body.Close()
	w.until("braid_gateway_watchers", 1)
	leave()
	w.until("braid_gateway_watchers", 0)
	w.until(`braid_gateway_requests_total{code="200",route="GET /v1/sessions/{id}/stream"}`, 1)
}

func TestLint(t *testing.T) {
	w := newWorld(t)
	problems, err := testutil.GatherAndLint(w.m.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// What docs/operations.md tells of metrics is what there is: name, type and labels.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `(braid_[a-z_]+)` \\| ([a-z]+) \\| ([^|]*)\\|")
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = strings.TrimSpace(m[2] + " " + sorted(m[3]))
	}
	m := everything(t)
	served := families(t, m)
	for given := time.Now(); served["braid_tool_queue_calls"] == "" && time.Since(given) < time.Minute; {
		served = families(t, m) // a broker that is slow to tell how long its queues are is left out
	}
	if diff := cmp.Diff(documented, served); diff != "" {
		t.Errorf("(-documented +served)\n%s", diff)
	}
}

// families are those of braid's metrics that are served: name, type and labels.
func families(t *testing.T, m *Metrics) map[string]string {
	t.Helper()
	all, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	served := map[string]string{}
	for _, f := range all {
		if !strings.HasPrefix(f.GetName(), "braid_") {
			continue
		}
		words := []string{strings.ToLower(f.GetType().String())}
		for _, l := range f.GetMetric()[0].GetLabel() {
			words = append(words, l.GetName())
		}
		served[f.GetName()] = strings.Join(words, " ")
	}
	return served
}

// sorted are the names in a cell of the table, in the order in which they are served.
func sorted(cell string) string {
	names := strings.Fields(strings.NewReplacer("`", "", ",", " ").Replace(cell))
	slices.Sort(names)
	return strings.Join(names, " ")
}

// everything has each metric with a value.
func everything(t *testing.T) *Metrics {
	w, m := newWorld(t), New()
	events := m.Engine()
	events.Appended(0)
	events.Settled(engine.SettledCommand{})
	events.TakenOver("lost")
	events.RequestEnded(engine.EndedRequest{Status: schemas.StopCompleted, Said: time.Now()})
	events.CallSettled(engine.SettledCall{})
	events.TaskEnded(engine.EndedTask{})
	m.Sessions(w.running)
	calls := m.Toolrunner(w.conn)
	calls.Serving(toolrunner.Serving{Instance: "t", Projects: []string{"default"}, Pools: []string{"default"}})
	calls.Began("")
	calls.Ended(toolrunner.EndedCall{})
	requests := m.Gateway()
	requests.Answered("", 0, 0)
	requests.Watching(0)
	m.Broker("test", w.conn)
	return m
}

// Nobody who makes up names of models or tools can fill the memory of who counts them.
func TestLabelsAreBounded(t *testing.T) {
	m := New()
	events := m.Engine()
	count := func(name string) {
		events.RequestEnded(engine.EndedRequest{Model: name, Status: schemas.StopFailed})
		events.CallSettled(engine.SettledCall{Tool: name})
	}
	for i := range 3 * maxValues {
		count(fmt.Sprintf("p/m%d", i))
	}
	count("p/m0")
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"braid_model_requests_total": "model", "braid_calls_settled_total": "tool"}
	for _, f := range families {
		values := map[string]float64{}
		for _, series := range f.GetMetric() {
			for _, label := range series.GetLabel() {
				if label.GetName() == labels[f.GetName()] {
					values[label.GetValue()] = series.GetCounter().GetValue()
				}
			}
		}
		if labels[f.GetName()] != "" && (len(values) != maxValues+1 || values["p/m0"] != 2 || values[other] != 2*maxValues) {
			t.Errorf("%s: %d values, %v of the first, %v others", f.GetName(), len(values), values["p/m0"], values[other])
		}
		delete(labels, f.GetName())
	}
	if len(labels) > 0 {
		t.Errorf("%v are not counted", labels)
	}
}

// A nil one counts nothing, and is all that a process needs that is not to be scraped.
func TestNone(t *testing.T) {
	var m *Metrics
	m.Broker("none", nil)
	m.Sessions(nil)
	if e := m.Engine(); e.Appended != nil || e.RequestEnded != nil {
		t.Error("an engine is told to count")
	}
	if e := m.Toolrunner(nil); e.Ended != nil {
		t.Error("a toolrunner is told to count")
	}
	if e := m.Gateway(); e.Answered != nil {
		t.Error("a gateway is told to count")
	}
}

// held is a metric whose value takes until it is let go.
type held struct{ asked, let chan struct{} }

func (h held) Describe(chan<- *prometheus.Desc) {}

func (h held) Collect(chan<- prometheus.Metric) { close(h.asked); <-h.let }

// A scrape that does not end is cut off, and does not make the end of a process a failed one.
func TestCloseCutsOff(t *testing.T) {
	m, h := New(), held{make(chan struct{}), make(chan struct{})}
	m.registry.MustRegister(h)
	server, err := Listen("127.0.0.1:0", m, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	server.bound = time.Millisecond
	conn, err := net.Dial("tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-h.asked
	defer close(h.let)
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes are read", n)
	}
}

func TestWhoMayScrape(t *testing.T) {
	m := New()
	server, err := Listen("127.0.0.1:0", m, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	w := &world{t: t}
	for host, want := range map[string]int{
		"":                 http.StatusOK, // the address itself
		"localhost:7301":   http.StatusOK,
		"[::1]:7301":       http.StatusOK,
		"[::1]":            http.StatusOK,
		"127.0.0.1":        http.StatusOK,
		"evil.example":     http.StatusForbidden, // it was rebound to this machine
		"10.0.0.1:7301":    http.StatusForbidden,
		"localhost.evil.x": http.StatusForbidden,
	} {
		if got, _ := w.get("http://"+server.Addr().String()+"/metrics", host); got != want {
			t.Errorf("host %q: status %d, want %d", host, got, want)
		}
	}
	if got, _ := w.get("http://"+server.Addr().String()+"/", ""); got != http.StatusNotFound {
		t.Errorf("another path: status %d", got)
	}
	if _, err := Listen(server.Addr().String(), m, zerolog.Nop()); err == nil {
		t.Error("two servers have one address")
	}
	elsewhere := m.handler(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, zerolog.Nop())
	answer := httptest.NewRecorder()
	elsewhere.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://braid.example/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Errorf("an address for others, under a name: status %d", answer.Code)
	}
}
