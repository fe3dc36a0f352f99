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

	"braid/internal/cli"
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
	if code := run(context.Background(), []string{"check", "--from-middle", "-"}, strings.NewReader(saved), &out, &out); !strings.Contains(out.String(), "1 messages") {
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
