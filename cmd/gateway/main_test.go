package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"braid/internal/cli"
)

// A configuration file is read, in full, before anything is begun.
func TestConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("log-level: warn\ngateway:\n  log-level: loud\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	code := run(t.Context(), []string{"--config", file}, &out, &out)
	if says := "--log-level is from " + file + ":3"; code != cli.ExitUsage || !strings.Contains(out.String(), says) {
		t.Errorf("exit code %d, want %q in: %s", code, says, &out)
	}
}

// Who is told to stop while it waits for the broker ends as asked.
func TestStopWhileWaitingForTheBroker(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out bytes.Buffer
	if code := run(ctx, []string{"--nats", "nats://127.0.0.1:1", "--token", "secret"}, &out, &out); code != cli.ExitOK {
		t.Errorf("exit code %d: %s", code, &out)
	}
}
