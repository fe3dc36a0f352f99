package spans

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"braid/engine"
	"braid/schemas"
	"braid/toolrunner"
)

var someTask = engine.TaskOf{Session: ref, Agent: "reviewer", Task: "t1"}

func closeSpans(t *testing.T, s *Spans) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

// What is drawn reaches a collector, under the name of the process.
func TestSend(t *testing.T) {
	var mu sync.Mutex
	var paths []string
	var got []byte
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is missing is missed below
		mu.Lock()
		defer mu.Unlock()
		paths, got = append(paths, r.Method+" "+r.URL.Path), append(got, body...)
	}))
	defer collector.Close()
	for _, endpoint := range []string{collector.URL, collector.URL + "/base/"} {
		s, err := Open(t.Context(), Options{Endpoint: endpoint, Service: "braid-test", Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		s.Engine().TaskEnded(engine.EndedTask{TaskOf: someTask, Begun: time.Now(), Ended: time.Now(), Status: schemas.StopCompleted})
		closeSpans(t, s)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"POST /v1/traces", "POST /base/v1/traces"}; !slices.Equal(paths, want) {
		t.Errorf("requests %v, want %v", paths, want)
	}
	for _, text := range []string{"invoke_agent reviewer", "braid-test", "gen_ai.agent.name", "service.instance.id", conventions} {
		if !bytes.Contains(got, []byte(text)) {
			t.Errorf("%q was not sent: %q", text, got)
		}
	}
}

// A collector that refuses everything fails nobody.
func TestSendFails(t *testing.T) {
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusBadRequest)
	}))
	defer collector.Close()
	var log bytes.Buffer
	s, err := Open(t.Context(), Options{Endpoint: collector.URL, Log: zerolog.New(&log)})
	if err != nil {
		t.Fatal(err)
	}
	s.Engine().TaskEnded(engine.EndedTask{TaskOf: someTask, Begun: time.Now(), Ended: time.Now(), Status: schemas.StopCompleted})
	closeSpans(t, s)
	if !strings.Contains(log.String(), "can't be sent") {
		t.Errorf("log: %s", &log)
	}
}

// A collector that does not answer, or has no time, holds the end up for as long as is allowed. What can't be
// sent by then is lost, and said to be; nothing is left behind that goes on trying.
func TestCloseIsBounded(t *testing.T) {
	for why, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"it does not answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"it is busy":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"it is busy for long": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		for bound, allowed := range map[string]time.Duration{"in time": 100 * time.Millisecond, "at once": 0} {
			collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // else nobody learns that the client has left
				answer(w, r)
			}))
			var log bytes.Buffer
			s, err := Open(t.Context(), Options{Endpoint: collector.URL, Log: zerolog.New(&log)})
			if err != nil {
				t.Fatal(err)
			}
			s.Engine().TaskEnded(engine.EndedTask{TaskOf: someTask, Begun: time.Now(), Ended: time.Now(), Status: schemas.StopCompleted})
			ctx, cancel := context.WithTimeout(t.Context(), allowed)
			err = s.Close(ctx)
			cancel()
			if err != nil || !strings.Contains(log.String(), "can't be sent") {
				t.Errorf("%s, %s: %v; nobody says that spans are lost: %s", why, bound, err, &log)
			}
			collector.Close()
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, endpoint := range []string{"collector:4318", "ftp://collector", "http://", "http://a b", "/v1/traces", "http://user:secret@collector:4318"} {
		s, err := Open(t.Context(), Options{Endpoint: endpoint})
		if err == nil {
			closeSpans(t, s)
			t.Errorf("%q is taken for a collector", endpoint)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q is told: %v", endpoint, err)
		}
	}
}

// Whoever draws a part of a task gives it the same trace and the same span above; what is not sampled
// is drawn by nobody.
func TestTraceContext(t *testing.T) {
	for why, c := range map[string]struct {
		sampler sdktrace.Sampler
		flags   string
		drawn   int
	}{
		"all are sampled":  {sdktrace.ParentBased(sdktrace.AlwaysSample()), "-01", 2},
		"none are sampled": {sdktrace.ParentBased(sdktrace.NeverSample()), "-00", 0},
	} {
		sent := tracetest.NewInMemoryExporter()
		process := func() *Spans { return newSpans(sdktrace.WithSampler(c.sampler), sdktrace.WithSyncer(sent)) }
		parent := process().TraceContext()(someTask)
		if again := process().TraceContext()(someTask); parent != again || !strings.HasSuffix(parent.TraceParent, c.flags) || len(parent.TraceParent) != 55 {
			t.Errorf("%s: %q, and elsewhere %q", why, parent, again)
		}
		others := someTask
		others.Task = "t2"
		if process().TraceContext()(others) == parent {
			t.Errorf("%s: two tasks have one trace", why)
		}
		process().Toolrunner().Ended(toolrunner.EndedCall{Tool: "x", TraceContext: parent, StopReason: schemas.StopCompleted})
		process().Engine().TaskEnded(engine.EndedTask{TaskOf: someTask})
		spans := sent.GetSpans()
		if len(spans) != c.drawn {
			t.Fatalf("%s: %d spans", why, len(spans))
		}
		if len(spans) == 2 && spans[0].Parent.SpanID() != spans[1].SpanContext.SpanID() {
			t.Errorf("%s: the call is not below its task", why)
		}
	}
}

// A call is drawn whatever it carries: what came over the broker can be anything.
func TestForeignTraceContext(t *testing.T) {
	for _, parent := range []string{"", "nonsense", "00-00000000000000000000000000000000-0000000000000000-01", strings.Repeat("00-", 1000)} {
		sent := tracetest.NewInMemoryExporter()
		newSpans(sdktrace.WithSyncer(sent)).Toolrunner().Ended(toolrunner.EndedCall{TraceContext: schemas.TraceContext{TraceParent: parent}, StopReason: schemas.StopFailed})
		spans := sent.GetSpans()
		if len(spans) != 1 || spans[0].Parent.IsValid() || !spans[0].SpanContext.IsValid() || spans[0].Name != "execute_tool" {
			t.Errorf("%.20q: %+v", parent, spans)
		}
	}
}

// Clocks of two machines: nothing ends before it began.
func TestClocksThatDiffer(t *testing.T) {
	sent := tracetest.NewInMemoryExporter()
	now := time.Now()
	newSpans(sdktrace.WithSyncer(sent)).Engine().RequestEnded(engine.EndedRequest{
		TaskOf: someTask, Model: "p/m", Begun: now, Said: now.Add(-time.Second), Ended: now.Add(-time.Second), Status: schemas.StopTimeout,
	})
	if span := sent.GetSpans()[0]; span.EndTime.Before(span.StartTime) {
		t.Errorf("from %s to %s", span.StartTime, span.EndTime)
	}
}

func TestNone(t *testing.T) {
	var s *Spans
	if s.Engine().TaskEnded != nil || s.Toolrunner().Ended != nil || s.TraceContext() != nil {
		t.Error("somebody is told to draw")
	}
	closeSpans(t, s)
}
