package main

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"braid/internal/cli"
)

// A run in a job that is traced is a part of the job's trace, wherever it runs.
func TestRunIsTraced(t *testing.T) {
	const job = "0af7651916cd43dd8448eb211c80319c"
	var mu sync.Mutex
	var sent []byte
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is missing is missed below
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, body...)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("TRACEPARENT", "00-"+job+"-b7ad6b7169203331-01")
	t.Setenv("TRACESTATE", "vendor=1")
	if code, _, stderr := braid(t, "run", "--data", t.TempDir(), "--approve", "allow-all", "$ echo hello"); code != cli.ExitOK {
		t.Fatalf("run: %d\n%s", code, stderr)
	}
	mu.Lock()
	defer mu.Unlock()
	id, err := hex.DecodeString(job)
	if err != nil {
		t.Fatal(err)
	}
	// A task, two requests and a call.
	if n := bytes.Count(sent, id); n != 4 || strings.Count(string(sent), "vendor=1") != 4 {
		t.Errorf("%d spans are in the job's trace: %q", n, sent)
	}
}
