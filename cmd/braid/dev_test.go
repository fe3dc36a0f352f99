package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"braid/bus"
	"braid/internal/cli"
	"braid/toolrunner"
)

// devServer runs braid dev until the test ends, and returns the URL it prints.
func devServer(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	var stderr bytes.Buffer
	var done sync.WaitGroup
	code := -1
	done.Go(func() {
		code = run(ctx, append([]string{"dev", "--listen", "127.0.0.1:0", "--sync", "2s", "--log-level", "error"}, args...), strings.NewReader(""), in, &stderr)
		in.Close()
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
		if code != cli.ExitOK {
			t.Errorf("dev ended with %d: %s", code, &stderr)
		}
	})
	line := make([]byte, 4096)
	n, err := out.Read(line)
	if err != nil {
		t.Fatalf("dev printed nothing: %v\n%s", err, &stderr)
	}
	return strings.TrimSpace(string(line[:n]))
}

// braid runs one command line.
func braid(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

func TestDevServesRun(t *testing.T) {
	data := t.TempDir()
	url := devServer(t, "--data", data)
	code, stdout, stderr := braid(t, "run", "--server", url, "--approve", "allow-all", "$ echo over http")
	if code != cli.ExitOK || !strings.Contains(stdout, "over http") {
		t.Fatalf("run: %d\n%s%s", code, stdout, stderr)
	}
	id := strings.TrimSpace(strings.TrimPrefix(stderr, "session "))
	code, stdout, stderr = braid(t, "trace", "export", "--server", url, id)
	if code != cli.ExitOK || !strings.Contains(stdout, `"session_id":"`+id+`"`) {
		t.Fatalf("export: %d\n%s%s", code, stdout, stderr)
	}
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(file, []byte(stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := braid(t, "check", "--view", "recorded", file); code != cli.ExitOK {
		t.Errorf("check: %d\n%s%s", code, stdout, stderr)
	}
}

// What curl saved of an event stream can be checked as it is.
func TestCheckReadsAnEventStream(t *testing.T) {
	saved := "event: task_state\nid: e1-4.0\ndata: {\"state\":\"running\"}\n\n: heartbeat\n\n" +
		"id: e1-5.0\ndata: {\"timestamp\":\"\",\"type\":\"event_msg\",\"payload\":{\"type\":\"request_begin\"}}\n\n"
	var out bytes.Buffer
	if code := run(context.Background(), []string{"check", "--from-middle", "-"}, strings.NewReader(saved), &out, &out); !strings.Contains(out.String(), "in 1 message\n") {
		t.Errorf("%d: %s", code, &out)
	}
}

// A second process on the data directory is refused, and told what to do.
func TestCase_E04_DataInUse(t *testing.T) {
	data := t.TempDir()
	devServer(t, "--data", data)
	code, _, stderr := braid(t, "run", "--data", data, "hello")
	if code != cli.ExitFailed || !strings.Contains(stderr, "in use by another process") || !strings.Contains(stderr, "--server") {
		t.Errorf("%d: %s", code, stderr)
	}
}

func TestWrongToken(t *testing.T) {
	url := devServer(t, "--data", t.TempDir())
	base, _, _ := strings.Cut(url, "/?")
	code, _, stderr := braid(t, "run", "--server", base, "--token", "guess", "hello")
	if code != cli.ExitFailed || !strings.Contains(stderr, "token") || strings.Contains(stderr, "guess") {
		t.Errorf("%d: %s", code, stderr)
	}
}

func TestPromptOverTheLimit(t *testing.T) {
	url := devServer(t, "--data", t.TempDir())
	code, _, stderr := braid(t, "run", "--server", url, strings.Repeat("x", 600<<10))
	if code != cli.ExitFailed || !strings.Contains(stderr, "limit") {
		t.Errorf("%d: %.300s", code, stderr)
	}
}

// A tool of one's own is served to a server in one process by its broker, whose URL holds the token.
func TestDevServesItsBroker(t *testing.T) {
	printed := devServer(t, "--data", t.TempDir(), "--nats-listen", "127.0.0.1:0", "--token", "an/odd@one:")
	server, broker, ok := strings.Cut(printed, "\n")
	if !ok {
		t.Fatalf("printed %q", printed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	conn, err := bus.Connect(ctx, bus.Options{URL: broker})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	type place struct {
		City string `json:"city"`
	}
	weather := toolrunner.Func("weather", "Tells the weather.", func(_ context.Context, p place, _ io.Writer) (string, error) {
		return "sunny in " + p.City, nil
	})
	ready := make(chan struct{})
	var serving sync.WaitGroup
	serving.Go(func() {
		o := toolrunner.ServeOptions{Pool: "weather", Tools: []toolrunner.Tool{weather}, Ready: func() { close(ready) }}
		if err := toolrunner.Serve(ctx, conn, o); err != nil {
			t.Error(err)
		}
	})
	<-ready
	code, stdout, stderr := braid(t, "tools", "--server", server)
	if code != cli.ExitOK || !strings.Contains(stdout, "weather") {
		t.Errorf("tools: %d\n%s%s", code, stdout, stderr)
	}
	cancel()
	serving.Wait()

	_, address, _ := strings.Cut(broker, "@")
	if stranger, err := bus.Connect(t.Context(), bus.Options{URL: address, ConnectWait: 1}); err == nil {
		stranger.Close()
		t.Error("the broker takes clients without the token")
	}
}

func TestDevRefusesABrokersAddress(t *testing.T) {
	for _, address := range []string{"4222", ":4222", "127.0.0.1", "127.0.0.1:nats", "127.0.0.1:70000"} {
		code, _, stderr := braid(t, "dev", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--nats-listen", address)
		if code != cli.ExitUsage || !strings.Contains(stderr, "--nats-listen") {
			t.Errorf("%s: %d %s", address, code, stderr)
		}
	}
}
