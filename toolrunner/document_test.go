package toolrunner

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"braid/bus/bustest"
	"braid/schemas"
)

// The program of docs/own-tool.md is one that people will copy: it is built, and it serves.
func TestTheDocumentedToolServes(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	t.Parallel()
	text, err := os.ReadFile("../docs/own-tool.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(text), "```go\n")
	program, _, _ = strings.Cut(program, "```\n")
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "weather")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	b := bustest.Listening(t)
	conn := b.Conn(t)
	o := newOwner(t, conn)
	server := exec.CommandContext(t.Context(), binary)
	server.Env = append(os.Environ(), "BRAID_NATS="+b.Nodes[0].URL())
	var out bytes.Buffer
	server.Stdout, server.Stderr = &out, &out
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	o.queue("weather", o.request("c1", "weather", `{"city":"Rome"}`, 0, 1))
	o.done("c1", schemas.StopCompleted, "asking the sky over Rome...\nsunny, 21 degrees")
	o.queue("weather", o.request("c2", "weather", `{"town":"Rome"}`, 0, 1))
	if rec := o.await("c2", schemas.RecordDone); !strings.Contains(rec.Result.Output, `additional properties ["town"]`) {
		t.Errorf("the model is told %s", rec.Result.Output)
	}
	if err := server.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("it ended with %v\n%s", err, out.String())
	}
}
