package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"braid/internal/cli"
)

// Each command says what it starts in this process, and has the flags of that alone.
func TestWhatCommandsNeed(t *testing.T) {
	rows := needs()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "braid ")
		if name != "config" { // its commands have the names of others, and their flags to tell of
			for _, sub := range cmd.Commands() {
				walk(sub)
			}
		}
		if !cmd.Runnable() {
			return
		}
		what, listed := rows[name]
		delete(rows, name)
		flags := cmd.Flags()
		has := need(0)
		switch {
		case name == "config":
			has = needsNothing
		case flags.Lookup("policy") != nil:
			has = needsAll
		case flags.Lookup("data") != nil:
			has = needsTrace
		case flags.Lookup("server") != nil && !hasOwn(flags):
			has = needsServer
		default:
			has = needsNothing
		}
		if !listed || what != has {
			t.Errorf("braid %s: listed: %t, as %d; by its flags it is %d", name, listed, what, has)
		}
	}
	walk(newRoot())
	if len(rows) > 0 {
		t.Errorf("there are no commands %v", rows)
	}
}

// hasOwn reports that some flags say what there is without a server.
func hasOwn(flags *pflag.FlagSet) (has bool) {
	flags.VisitAll(func(f *pflag.Flag) { has = has || len(f.Annotations[helpKey]) > 0 })
	return has
}

// What makes no sense is said before anything is started: nothing is made in the data directory.
func TestSenselessCommandLines(t *testing.T) {
	for _, line := range []string{
		"sessions --state asleep",
		"sessions --task-status completed,asleep",
		"sessions --model nothing",
		"sessions --agent not/one",
		"sessions --since yesterday",
		"sessions --limit -1",
		"sessions show not/one",
		"sessions abort not/one",
		"sessions delete fine not/one",
		"trace show not/one",
		"trace export not/one",
		"trace import --approve perhaps /dev/null",
		"trace import --model nothing /dev/null",
		"trace import --session not/one /dev/null",
		"run --approve perhaps hello",
		"run --when-busy perhaps hello",
		"run --view perhaps hello",
		"run --agent not/one hello",
		"run --allow-tools [ hello",
		"run --max-turns -2 hello",
		"run --max-tokens -1 hello",
		"run --sync perhaps hello",
		"run --tools nothing hello",
		"run --log-level perhaps hello",
		"chat --approve perhaps",
		"sessions --sync perhaps",
		"sessions --log-format perhaps",
		"tools --tools nothing",
		"models --openai nothing",
		"models --log-level perhaps",
		"check --view perhaps /dev/null",
	} {
		data := t.TempDir() + "/data"
		t.Setenv("BRAID_DATA", data)
		code, stdout, stderr := braid(t, strings.Fields(line)...)
		if code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, "--help says more") {
			t.Errorf("braid %s: %d %q %q", line, code, stdout, stderr)
		}
		if _, err := os.Stat(data); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("braid %s: something was made in the data directory", line)
		}
	}
}

// provider is a model behind HTTP that counts how often it is asked. The first request gets no answer.
type provider struct {
	*httptest.Server
	asked atomic.Int64
	first chan struct{}
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{first: make(chan struct{})}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.asked.Add(1) == 1 {
			close(p.first)
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"Here I am."},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(p.Close)
	return p
}

// killedDev runs braid dev in a process of its own, does something there, and kills it.
func killedDev(t *testing.T, do func(b *busySession), args ...string) {
	t.Helper()
	dev := exec.Command("braid", append([]string{"dev", "--listen", "127.0.0.1:0", "--sync", "2s", "--log-level", "error"}, args...)...)
	out, err := dev.StdoutPipe()
	if err == nil {
		err = dev.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = dev.Process.Kill()
		_ = dev.Wait() // it was killed
	}()
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	b := &busySession{t: t, api: newAPI((&serverFlags{url: strings.TrimSpace(url)}).target()), path: "/v1/sessions/s"}
	defer b.api.close()
	do(b)
}

// looks are command lines that look at the session.
func looks() []string {
	return []string{"sessions --json", "sessions show s --json", "trace export s", "trace show s", "agents"}
}

// lookTwice has all that looks look at the session, twice: nothing moves.
func lookTwice(t *testing.T) string {
	t.Helper()
	var first []string
	for range 2 {
		var seen []string
		for _, line := range looks() {
			seen = append(seen, ok(t, strings.Fields(line)...))
		}
		if first != nil && strings.Join(first, "\n") != strings.Join(seen, "\n") {
			t.Errorf("it looks other:\n%s\nbefore:\n%s", seen, first)
		}
		first = seen
	}
	return strings.Join(first, "\n")
}

// A process that is killed while it asks a model leaves a task that costs money when it goes on: it does
// when somebody goes on with the session, not when somebody looks.
func TestLookingAsksNoModel(t *testing.T) {
	p := newProvider(t)
	t.Setenv("BRAID_DATA", t.TempDir())
	t.Setenv("BRAID_OPENAI", "local="+p.URL)
	killedDev(t, func(b *busySession) {
		b.post("/v1/sessions", map[string]any{"id": "s", "model": "local/any"}, nil)
		b.post(b.path+"/tasks", map[string]any{"prompt": "hello"}, nil)
		<-p.first
	})
	seen := lookTwice(t)
	if !strings.Contains(seen, `"state":"running"`) || !strings.Contains(seen, "request_begin") || strings.Contains(seen, "owner_changed") {
		t.Errorf("it is not shown as it stands:\n%s", seen)
	}
	if n := p.asked.Load(); n != 1 {
		t.Fatalf("the model was asked %d times", n)
	}
	if out := ok(t, "run", "--session", "s", "--when-busy", "steer", "and now?"); !strings.Contains(out, "Here I am.") {
		t.Errorf("the task did not go on:\n%s", out)
	}
	if p.asked.Load() == 1 {
		t.Error("the task went on without its model")
	}
}

// A call that waits for a person waits, however many look whom it waits for, until somebody decides.
func TestLookingDecidesNothing(t *testing.T) {
	t.Setenv("BRAID_DATA", t.TempDir())
	killedDev(t, func(b *busySession) {
		b.post("/v1/sessions", map[string]any{"id": "s", "model": "shell/demo", "approval_mode": "always-ask"}, nil)
		b.post(b.path+"/tasks", map[string]any{"prompt": "$ echo one"}, nil)
		b.await("it waits", func(s shown) bool { return len(s.Pending) > 0 })
	})
	if seen := lookTwice(t); !strings.Contains(seen, `"state":"waiting"`) || strings.Contains(seen, "approval_decision") {
		t.Errorf("it is not shown as it stands:\n%s", seen)
	}
	callOf(t, ok(t, "sessions", "show", "s"))
	if list := ok(t, "sessions", "--state", "waiting"); !strings.Contains(list, "\ns   waiting  shell/demo") {
		t.Errorf("the list is\n%s", list)
	}
	var said strings.Builder // a chat from a pipe denies what nobody can be asked about
	if code := run(context.Background(), []string{"chat", "--session", "s"}, strings.NewReader(""), &said, &said); code != cli.ExitOK || !strings.Contains(said.String(), "denied") {
		t.Errorf("%d: %s", code, said.String())
	}
	if info := ok(t, "sessions", "show", "s"); !strings.Contains(info, "idle") {
		t.Errorf("the task did not go on:\n%s", info)
	}
}
