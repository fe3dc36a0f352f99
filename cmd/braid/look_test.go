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
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"braid/internal/cli"
)

// Each command starts what it needs for what it does, and has the flags of that alone.
func TestWhatCommandsNeed(t *testing.T) {
	listed := needs()
	for what, commands := range map[need][]string{
		needsAll:     {"run", "chat", "dev", "sessions abort", "sessions delete", "trace import"}, // they change sessions
		needsTrace:   {"sessions", "sessions show", "trace show", "trace export", "agents"},       // they show what is recorded
		needsServer:  {"approve", "deny"},                                                         // they decide where something waits
		needsNothing: {"models", "tools", "check", "config"},                                      // they show what flags and files say
	} {
		for _, name := range commands {
			if listed[name] != what {
				t.Errorf("braid %s is listed as %d, not %d", name, listed[name], what)
			}
		}
	}
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
		if what, has := listed[name], needByFlags(cmd.Flags()); what != has && name != "config" {
			t.Errorf("braid %s is listed as %d; by its flags it is %d", name, what, has)
		}
		delete(listed, name)
	}
	walk(newRoot())
	if len(listed) > 0 {
		t.Errorf("there are no commands %v", listed)
	}
}

// needByFlags is what the flags of a command are about.
func needByFlags(flags *pflag.FlagSet) need {
	switch {
	case flags.Lookup("policy") != nil:
		return needsAll
	case flags.Lookup("data") != nil:
		return needsTrace
	case flags.Lookup("server") != nil && !hasOwn(flags):
		return needsServer
	}
	return needsNothing
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
		"run --openai nothing hello",
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
		if code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, "--help\" for usage") {
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

// endedDev runs braid dev in a process of its own, does something there, and ends it by a signal.
func endedDev(t *testing.T, by os.Signal, do func(b *busySession)) {
	t.Helper()
	dev := exec.Command("braid", "dev", "--listen", "127.0.0.1:0", "--sync", "2s", "--log-level", "error")
	out, err := dev.StdoutPipe()
	if err == nil {
		err = dev.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := dev.Process.Signal(by); err != nil {
			t.Error(err)
		}
		_ = dev.Wait() // it fails if it was killed
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

// takenBy is how long after the end of a process an engine that ran meanwhile would have taken its session
// for sure: when the broker rings again.
const takenBy = 4 * time.Second

// lookOn has all that looks look at the session, twice at least and for so long: nothing moves.
func lookOn(t *testing.T, long time.Duration) string {
	t.Helper()
	first := ""
	for n, begun := 0, time.Now(); n < 2 || time.Since(begun) < long; n++ {
		var seen []string
		for _, line := range looks() {
			seen = append(seen, ok(t, strings.Fields(line)...))
		}
		all := strings.Join(seen, "\n")
		if n > 0 && all != first {
			t.Fatalf("it looks other:\n%s\nbefore:\n%s", all, first)
		}
		first = all
	}
	return first
}

// ends are the ways in which a process ends that has a task.
func ends() map[string]os.Signal {
	return map[string]os.Signal{
		"killed":  os.Kill,      // its sessions are its own until it is judged gone
		"stopped": os.Interrupt, // it hands them over to whoever runs them next
	}
}

// A process that ends while it asks a model leaves a task that costs money when it goes on: it does when
// somebody goes on with the session, not when somebody looks.
func TestLookingAsksNoModel(t *testing.T) {
	for name, signal := range ends() {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t)
			t.Setenv("BRAID_DATA", t.TempDir())
			t.Setenv("BRAID_OPENAI", "local="+p.URL)
			endedDev(t, signal, func(b *busySession) {
				b.post("/v1/sessions", map[string]any{"id": "s", "model": "local/any"}, nil)
				b.post(b.path+"/tasks", map[string]any{"prompt": "hello"}, nil)
				<-p.first
			})
			seen := lookOn(t, takenBy)
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
		})
	}
}

// A call that waits for a person waits, however many look whom it waits for, until somebody decides.
func TestLookingDecidesNothing(t *testing.T) {
	for name, signal := range ends() {
		t.Run(name, func(t *testing.T) {
			t.Setenv("BRAID_DATA", t.TempDir())
			endedDev(t, signal, func(b *busySession) {
				b.post("/v1/sessions", map[string]any{"id": "s", "model": "shell/demo", "approval_mode": "always-ask"}, nil)
				b.post(b.path+"/tasks", map[string]any{"prompt": "$ echo one"}, nil)
				b.await("it waits", func(s shown) bool { return len(s.Pending) > 0 })
			})
			if seen := lookOn(t, 0); !strings.Contains(seen, `"state":"waiting"`) || strings.Contains(seen, "approval_decision") {
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
		})
	}
}
