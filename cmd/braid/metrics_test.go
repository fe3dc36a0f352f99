package main

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"braid/internal/cli"
)

// All parts of a stack are counted in one place, and tell of one task what they know of it.
func TestDevServesMetrics(t *testing.T) {
	var f cli.DevFlags
	flags := pflag.NewFlagSet("dev", pflag.ContinueOnError)
	f.Register(flags)
	if err := flags.Parse([]string{"--data", t.TempDir(), "--sync", "2s", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	log := &firstLine{}
	s, err := startStack(t.Context(), stackOptions{
		StackFlags: f.Stack, metrics: f.Metrics, spans: f.Spans, listen: f.Listen, log: zerolog.New(log).Level(zerolog.InfoLevel),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	address := regexp.MustCompile(`"address":"([^"]+)","message":"serving metrics"`).FindStringSubmatch(log.text()) // they are there first
	if address == nil {
		t.Fatal("the log does not say where metrics are")
	}
	if code, _, stderr := braid(t, "run", "--server", s.url+"?token="+s.token, "--approve", "allow-all", "$ echo hello"); code != cli.ExitOK {
		t.Fatalf("run: %d\n%s", code, stderr)
	}
	for _, series := range []string{
		`braid_tasks_total{cause="done",status="completed"} 1`,
		`braid_turns_total{model="shell/demo"} 2`,
		`braid_toolrunner_calls_total{status="completed",tool="exec_command"} 1`,
		`braid_toolrunner_slots 4`,
		`braid_gateway_requests_total{code="201",route="POST /v1/sessions"} 1`,
		`braid_broker_connected{connection="engine"} 1`,
		`braid_broker_connected{connection="toolrunner"} 1`,
		`braid_broker_connected{connection="gateway"} 1`,
	} {
		awaitSeries(t, "http://"+address[1]+"/metrics", series)
	}
}

// firstLine is a log of which only the first line counts.
type firstLine struct {
	mu   sync.Mutex
	line string
}

func (l *firstLine) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line = cmp.Or(l.line, string(b))
	return len(b), nil
}

func (l *firstLine) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.line
}

// awaitSeries scrapes until a series has its value: what is told is told behind what happens.
func awaitSeries(t *testing.T, url, series string) {
	t.Helper()
	var text []byte
	if !eventually(func() bool {
		response, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		text, err = io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), "\n"+series+"\n")
	}) {
		t.Fatalf("%s never came: %s", series, text)
	}
}
