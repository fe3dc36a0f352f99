package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"braid/bus"
	"braid/bus/bustest"
	"braid/internal/cli"
	"braid/schemas"
)

// asToolrunner makes the test binary be the command.
const asToolrunner = "TEST_AS_TOOLRUNNER"

func TestMain(m *testing.M) {
	if os.Getenv(asToolrunner) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// process is a toolrunner of its own.
type process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer // to be read after its end
}

// start runs the command against a broker and waits until its tools are announced.
func start(t *testing.T, b *bustest.Broker, conn *bus.Conn, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(self, append([]string{"--nats", b.Nodes[0].URL(), "--dir", t.TempDir()}, args...)...)}
	p.cmd.Env = append(os.Environ(), asToolrunner+"=1", cli.EnvName("nats-token")+"=hush-hush")
	p.cmd.Stderr = &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // fails if it has ended
		_ = p.cmd.Wait()
		if t.Failed() {
			t.Logf("the toolrunner said:\n%s", &p.stderr)
		}
	})
	waitUntil(t, "the toolrunner is announced", func() bool {
		tools, _, err := conn.Tools(t.Context(), "default", nil)
		return err == nil && len(tools) > 0
	})
	return p
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// exit waits for the end; the code is -1 if a signal ended it.
func (p *process) exit() int {
	_ = p.cmd.Wait() // says the same as the state
	return p.cmd.ProcessState.ExitCode()
}

func waitUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("gave up waiting until %s", what)
		}
	}
}

// call is a running exec_command call, as its session's owner sees it.
type call struct {
	conn *bus.Conn
	ref  schemas.SessionRef
	id   string

	mu   sync.Mutex
	text string
}

func startCall(t *testing.T, conn *bus.Conn, id, command string) *call {
	t.Helper()
	c := &call{conn: conn, ref: schemas.SessionRef{Project: "default", ID: "s1"}, id: id}
	stop, err := conn.SubscribeFragments(c.ref, c.take, func() {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	queued, err := conn.WriteRecord(t.Context(), c.ref, id, 0, schemas.ToolRecord{State: schemas.RecordQueued, Attempt: 1})
	if err != nil {
		t.Fatal(err)
	}
	arguments, err := schemas.EncodeJSON(map[string]string{"command": command})
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.QueueTool(t.Context(), schemas.DefaultPool, schemas.ToolRequest{
		Session: c.ref, ToolCallID: id, Name: "exec_command", Arguments: string(arguments),
		Queued: queued, Attempt: 1, TimeoutMS: 60_000,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *call) take(f schemas.ToolFragment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.ToolCallID == c.id && f.Offset == int64(len(c.text)) {
		c.text += f.Text
	}
}

func (c *call) printed(t *testing.T, want string) {
	t.Helper()
	waitUntil(t, c.id+" has printed "+want, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.text == want
	})
}

func (c *call) last(t *testing.T) schemas.ToolRecord {
	t.Helper()
	rec, _, err := c.conn.LastRecord(t.Context(), c.ref, c.id)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// leftovers counts the processes of the call, by the mark that each has in its environment.
func (c *call) leftovers(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err == nil && bytes.Contains(env, []byte("."+c.ref.Project+"."+c.ref.ID+"."+c.id+".")) {
			n++
		}
	}
	return n
}

// A toolrunner that is killed takes its commands along. What they had printed stays, everyone
// can tell that it is gone, and the record shows that the call may have taken effect.
func TestCase_D17_KilledInMidCall(t *testing.T) {
	b := bustest.Listening(t)
	conn := b.Conn(t)
	p := start(t, b, conn)
	judge, err := conn.StartBeat(t.Context(), bus.KindEngine, "judge", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := judge.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	c := startCall(t, conn, "c-killed", "echo one; echo two; setsid sleep 600 & sleep 600 & echo three; sleep 600")
	c.printed(t, "one\ntwo\nthree\n")
	toolrunner := c.last(t).Toolrunner
	if gone, err := judge.Gone(t.Context(), bus.KindToolrunner, toolrunner); err != nil || gone {
		t.Errorf("it counts as gone while it runs: %v", err)
	}
	waitUntil(t, "the shell and three sleeps run", func() bool { return c.leftovers(t) == 4 })
	p.signal(t, syscall.SIGKILL)
	p.exit()
	waitUntil(t, "nothing of the call is left", func() bool { return c.leftovers(t) == 0 })
	waitUntil(t, "it counts as gone", func() bool {
		gone, err := judge.Gone(t.Context(), bus.KindToolrunner, toolrunner)
		return err == nil && gone
	})
	if rec := c.last(t); rec.State != schemas.RecordStarted {
		t.Errorf("record %+v", rec)
	}
	c.printed(t, "one\ntwo\nthree\n")
}

func TestOffersTheToolsItIsToldTo(t *testing.T) {
	b := bustest.Listening(t)
	conn := b.Conn(t)
	start(t, b, conn, "--tools", "search_files,read_file")
	tools, _, err := conn.Tools(t.Context(), "default", nil)
	if err != nil || len(tools) != 2 || tools[0].Name != "read_file" || tools[1].Name != "search_files" {
		t.Errorf("tools %+v, %v", tools, err)
	}
}

// A signal lets the running call end; the process then exits as asked.
func TestSignalDrains(t *testing.T) {
	b := bustest.Listening(t)
	conn := b.Conn(t)
	p := start(t, b, conn)
	dir := t.TempDir()
	c := startCall(t, conn, "c-drained", "echo begun; until test -e "+dir+"/go; do sleep 0.02; done; echo ended")
	c.printed(t, "begun\n")
	p.signal(t, syscall.SIGTERM)
	waitUntil(t, "it takes no more calls", func() bool {
		tools, _, err := conn.Tools(t.Context(), "default", nil)
		return err == nil && len(tools) == 0
	})
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(); code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
	if rec := c.last(t); rec.State != schemas.RecordDone || rec.Result.Output != "begun\nended\n" || rec.Result.StopReason != schemas.StopCompleted {
		t.Errorf("record %+v", rec)
	}
	if strings.Contains(p.stderr.String(), "hush-hush") || strings.Contains(p.stderr.String(), "begun") {
		t.Errorf("the log holds what it must not: %s", &p.stderr)
	}
}

func TestDrainEnds(t *testing.T) {
	b := bustest.Listening(t)
	conn := b.Conn(t)
	p := start(t, b, conn, "--drain", "10ms")
	c := startCall(t, conn, "c-aborted", "echo begun; sleep 600")
	c.printed(t, "begun\n")
	p.signal(t, os.Interrupt)
	if code := p.exit(); code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
	if rec := c.last(t); rec.State != schemas.RecordDone || rec.Result.Output != "begun\n[aborted: the toolrunner is shutting down]" {
		t.Errorf("record %+v", rec)
	}
}

// The second signal waits for nothing, and still leaves nothing running.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	b := bustest.Listening(t)
	conn := b.Conn(t)
	p := start(t, b, conn)
	c := startCall(t, conn, "c-cut", "echo begun; trap '' TERM; setsid sleep 600 & sleep 600")
	c.printed(t, "begun\n")
	p.signal(t, syscall.SIGTERM)
	waitUntil(t, "it has heard the first", func() bool {
		tools, _, err := conn.Tools(t.Context(), "default", nil)
		return err == nil && len(tools) == 0
	})
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(); code != -1 {
		t.Errorf("exit code %d", code)
	}
	waitUntil(t, "nothing of the call is left", func() bool { return c.leftovers(t) == 0 })
}

// Commands see neither the broker's token in their own environment, nor a way to look for it in
// the toolrunner's.
func TestCommandsDoNotSeeTheToken(t *testing.T) {
	b := bustest.Listening(t)
	conn := b.Conn(t)
	start(t, b, conn)
	c := startCall(t, conn, "c-env", "env | grep -c hush-hush; echo; grep -c hush-hush /proc/$PPID/environ 2>/dev/null; true")
	want := "0\n\n"
	if os.Geteuid() == 0 { // root may look anywhere; what can be checked is in TestHidden
		want = "0\n\n1\n"
	}
	waitUntil(t, "the call has ended", func() bool { return c.last(t).State == schemas.RecordDone })
	if got := c.last(t).Result.Output; got != want {
		t.Errorf("it printed %q", got)
	}
}

func TestRunExitCodes(t *testing.T) {
	for why, c := range map[string]struct {
		args []string
		want int
	}{
		"an unknown flag":              {[]string{"--nope"}, cli.ExitUsage},
		"a directory that isn't there": {[]string{"--dir", "/does/not/exist"}, cli.ExitUsage},
		"a file for a directory":       {[]string{"--dir", os.Args[0]}, cli.ExitUsage},
		"no slots":                     {[]string{"--slots", "0"}, cli.ExitUsage},
		"a log level that is none":     {[]string{"--log-level", "loud"}, cli.ExitUsage},
		"a negative drain":             {[]string{"--drain", "-1s"}, cli.ExitUsage},
		"a tool that isn't there":      {[]string{"--tools", "read_file,fly"}, cli.ExitUsage},
		"help":                         {[]string{"--help"}, cli.ExitOK},
		"no broker":                    {[]string{"--nats", "nats://127.0.0.1:1", "--connect-wait", "1ms"}, cli.ExitFailed},
	} {
		var stdout, stderr bytes.Buffer
		if got := run(t.Context(), c.args, &stdout, &stderr); got != c.want {
			t.Errorf("%s: exit code %d, want %d: %s", why, got, c.want, &stderr)
		}
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if got := run(stopped, []string{"--nats", "nats://127.0.0.1:1"}, &out, &out); got != cli.ExitOK {
		t.Errorf("told to stop before it had begun: exit code %d: %s", got, &out)
	}
}
