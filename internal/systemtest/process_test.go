package systemtest

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

	"braid/schemas"
)

// patience is how long a test waits for what must come: longer than that takes on a machine that is busy
// with much else.
const patience = 2 * time.Minute

// process is one of our commands, running or not.
type process struct {
	t    testing.TB
	name string
	bin  string
	args []string
	env  []string
	log  *output

	cmd      *exec.Cmd
	done     chan struct{} // closed when the process has ended
	state    *os.ProcessState
	instance string // its name on the bus since the last start; empty for a gateway
}

func newProcess(t testing.TB, name, bin string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, bin: bin, args: args, log: newOutput(t, name)}
	t.Cleanup(p.end)
	return p
}

// start runs the command. It does not wait until that is ready.
func (p *process) start() {
	p.t.Helper()
	p.cmd = exec.Command(filepath.Join(binaries, p.bin), p.args...)
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.WaitDelay = time.Second // children may hold the pipe
	p.log.mark()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatalf("start %s: %v", p.name, err)
	}
	cmd, done := p.cmd, make(chan struct{})
	p.done = done
	// Ends with the process, which end kills; every test waits for done.
	go func() {
		defer close(done)
		_ = cmd.Wait()
		p.state = cmd.ProcessState
	}()
}

// awaitLog waits for a log line of the present run that has the message, and returns its fields.
func (p *process) awaitLog(message string) logLine {
	p.t.Helper()
	line, ok := p.log.await(func(l logLine) bool { return l.Message == message }, p.done)
	if !ok {
		p.t.Fatalf("%s never said %q", p.name, message)
	}
	return line
}

func (p *process) running() bool {
	if p.done == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && p.running() {
		p.t.Errorf("signal %s to %s: %v", s, p.name, err)
	}
}

// kill ends the process at once and waits until it has ended.
func (p *process) kill() time.Time {
	p.t.Helper()
	at := time.Now()
	p.signal(syscall.SIGKILL)
	<-p.done
	return at
}

// terminate asks the process to end in order, and fails the test if it does not.
func (p *process) terminate() time.Time {
	p.t.Helper()
	at := time.Now()
	p.signal(syscall.SIGTERM)
	p.ended()
	return at
}

// ended waits until the process, which was asked to end, has done so in order.
func (p *process) ended() {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Errorf("%s did not end within %s after SIGTERM", p.name, patience)
		p.kill()
	}
	if code := p.state.ExitCode(); code != 0 {
		p.t.Errorf("%s ended with %s after SIGTERM", p.name, p.state)
	}
}

// end kills what still runs, at the end of the test, and shows the log of a failed one.
func (p *process) end() {
	if p.running() {
		p.signal(syscall.SIGKILL)
		<-p.done
	}
	if bad := p.log.suspicious(); bad != "" {
		p.t.Errorf("%s said:\n%s", p.name, bad)
	}
	if p.t.Failed() {
		p.t.Logf("the end of the log of %s:\n%s", p.name, p.log.tail(40))
	}
	p.log.close()
}

// logLine is what tests want to know of a log line.
type logLine struct {
	Level      string `json:"level"`
	Message    string `json:"message"`
	Engine     string `json:"engine"`
	Toolrunner string `json:"toolrunner"`
	Address    string `json:"address"`
	text       string
}

// output takes what a process writes, and keeps it in a file too.
type output struct {
	file *os.File

	mu      sync.Mutex
	part    []byte
	lines   []logLine
	from    int // where the present run begins
	changed chan struct{}
}

func newOutput(t testing.TB, name string) *output {
	t.Helper()
	f, err := os.Create(filepath.Join(t.ArtifactDir(), name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	return &output{file: f, changed: make(chan struct{})}
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = o.file.Write(b)
	o.part = append(o.part, b...)
	for {
		line, rest, found := bytes.Cut(o.part, []byte("\n"))
		if !found {
			break
		}
		l := logLine{text: string(line)}
		if bytes.HasPrefix(line, []byte("{")) {
			_ = schemas.DecodeJSON(line, &l) // a line that is no JSON has its text alone
		}
		o.lines, o.part = append(o.lines, l), rest
	}
	close(o.changed)
	o.changed = make(chan struct{})
	return len(b), nil
}

func (o *output) mark() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.from, o.part = len(o.lines), nil
}

// await waits for a line of the present run, until the process ends.
func (o *output) await(fits func(logLine) bool, done <-chan struct{}) (logLine, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		o.mu.Lock()
		lines, changed := o.lines[o.from:], o.changed
		o.mu.Unlock()
		for _, l := range lines {
			if fits(l) {
				return l, true
			}
		}
		select {
		case <-changed:
		case <-done:
			return logLine{}, false
		case <-ctx.Done():
			return logLine{}, false
		}
	}
}

// suspicious returns the lines that no run may have, whatever was done to it.
func (o *output) suspicious() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var found []string
	for _, l := range o.lines {
		for _, sign := range []string{"DATA RACE", "panic", "a session's loop failed", "a stored message is lost", "records are lost"} {
			if strings.Contains(l.text, sign) {
				found = append(found, l.text)
			}
		}
	}
	return strings.Join(found, "\n")
}

// count is how many lines have the message.
func (o *output) count(message string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, l := range o.lines {
		if l.Message == message {
			n++
		}
	}
	return n
}

func (o *output) tail(n int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var b strings.Builder
	for _, l := range o.lines[max(0, len(o.lines)-n):] {
		b.WriteString(l.text + "\n")
	}
	return b.String()
}

func (o *output) close() { _ = o.file.Close() }
