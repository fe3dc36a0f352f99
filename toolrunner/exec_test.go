//go:build unix

package toolrunner

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"braid/schemas"
)

func newTestExec(t *testing.T, options ExecOptions) *Exec {
	t.Helper()
	if options.Dir == "" {
		options.Dir = t.TempDir()
	}
	if options.Environ == nil {
		options.Environ = os.Environ()
	}
	x, err := NewExec(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func commandArguments(command string) string {
	b, err := schemas.EncodeJSON(map[string]string{"command": command})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// command runs a command to its end and checks that nothing of it is left.
func command(t *testing.T, ctx context.Context, x *Exec, limits Limits, call Call) schemas.ToolResult {
	t.Helper()
	rec := &recorder{}
	result := Execute(ctx, x.Tool(), call, limits, rec.outlet())
	if got := joined(t, rec.fragments); got != result.Output {
		t.Errorf("the fragments add up to %q, the output is %q", got, result.Output)
	}
	if left := markedProcesses(t, x.markPrefix()); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
	return result
}

func shellCall(line string) Call {
	call := testCall
	call.Name, call.Arguments = ExecCommandName, commandArguments(line)
	return call
}

func TestExecCommand(t *testing.T) {
	x := newTestExec(t, ExecOptions{})
	tests := []struct {
		why, line string
		reason    schemas.StopReason
		output    string
	}{
		{"output and errors in order", "echo a; echo b >&2; echo c", schemas.StopCompleted, "a\nb\nc\n"},
		{"exit code", "echo hi; exit 3", schemas.StopFailed, "hi\n[exit code: 3]"},
		{"no output", "true", schemas.StopCompleted, "[no output]"},
		{"not found", "no-such-program-here 2>/dev/null", schemas.StopFailed, "[no output]\n[exit code: 127]"},
		{"a signal", "kill -KILL $$", schemas.StopFailed, "[no output]\n[killed by signal: killed]"},
		{"input is empty", "cat; echo end", schemas.StopCompleted, "end\n"},
		{"binary", `printf '\377\376\000\033[1mx'`, schemas.StopCompleted, "\uFFFDx"},
		{"a syntax error is the shell's to report", "exec 2>/dev/null; eval 'if'", schemas.StopFailed, "[no output]\n[exit code: 2]"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			wantResult(t, command(t, t.Context(), x, Limits{}, shellCall(tt.line)), tt.reason, tt.output)
		})
	}
}

func TestExecArguments(t *testing.T) {
	x := newTestExec(t, ExecOptions{})
	tests := []struct{ why, in, want string }{
		{"empty", ``, "command is missing or empty"},
		{"no command", `{"timeout_ms":1}`, "command is missing or empty"},
		{"blank command", `{"command":" "}`, "command is missing or empty"},
		{"NUL", `{"command":"a\u0000b"}`, "NUL"},
		{"no time", `{"command":"true","timeout_ms":0}`, "timeout_ms must be 1 or more"},
		{"another name for the limit", `{"command":"true","timeout":5}`, "member /timeout is not known"},
		{"cut short", `{"command":"rm -rf /tmp/x`, "unexpected EOF"},
		{"longer than the system takes", commandArguments(": " + strings.Repeat("x", 200<<10)), "argument list too long"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			call := testCall
			call.Arguments = tt.in
			got := command(t, t.Context(), x, Limits{}, call)
			if got.StopReason != schemas.StopFailed || !strings.Contains(got.Output, tt.want) {
				t.Errorf("result %s %q, want failed and %q", got.StopReason, got.Output, tt.want)
			}
		})
	}
}

// What the definition tells the model about arguments is what the tool takes.
func TestExecParametersMatchTheTool(t *testing.T) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(newTestExec(t, ExecOptions{}).Tool().Definition.Parameters))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("parameters.json", document); err != nil {
		t.Fatal(err)
	}
	schema := compiler.MustCompile("parameters.json")
	for _, arguments := range []string{
		`{"command":"ls"}`, `{"command":"ls","timeout_ms":5}`, `{"command":""}`, `{}`, `[]`, `null`,
		`{"command":1}`, `{"command":"ls","timeout_ms":0}`, `{"command":"ls","timeout_ms":1.5}`, `{"command":"ls","cwd":"/"}`,
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(arguments))
		if err != nil {
			t.Fatal(err)
		}
		_, taken := decodeExecArguments(arguments)
		if promised := schema.Validate(value); (taken == nil) != (promised == nil) {
			t.Errorf("%s: the tool says %v, the schema %v", arguments, taken, promised)
		}
	}
}

func TestExecTimeoutArgument(t *testing.T) {
	x := newTestExec(t, ExecOptions{})
	call := shellCall("")
	call.Arguments = `{"command":"sleep 300","timeout_ms":200}`
	wantResult(t, command(t, t.Context(), x, Limits{Grace: time.Minute}, call), schemas.StopTimeout, "[no output]\n[timed out after 200ms]")
	call.Arguments = `{"command":"sleep 300","timeout_ms":9000000000000000000}`
	wantResult(t, command(t, t.Context(), x, Limits{Timeout: 200 * time.Millisecond, Grace: time.Minute}, call), schemas.StopTimeout, "[no output]\n[timed out after 200ms]")
}

func TestExecWorkspace(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	x := newTestExec(t, ExecOptions{Dir: root})
	tests := []struct{ why, workspace, want string }{
		{"the default", "", root + "\n" + root + "\n"},
		{"relative to the default", "sub", root + "/sub\n" + root + "/sub\n"},
		{"absolute", "/", "/\n/\n"},
		{"missing ones are not made", "gone", "[no output]\n[failed: the workspace " + root + "/gone does not exist on this toolrunner]"},
		{"a file is none", "file", "[no output]\n[failed: the workspace " + root + "/file is not a directory]"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			call := shellCall(`pwd -P; echo "$PWD"`)
			call.Workspace = tt.workspace
			if got := command(t, t.Context(), x, Limits{}, call); got.Output != tt.want {
				t.Errorf("output %q, want %q", got.Output, tt.want)
			}
		})
	}
}

func TestExecEnvironment(t *testing.T) {
	x := newTestExec(t, ExecOptions{
		Environ: []string{
			"PATH=" + os.Getenv("PATH"), "HOME=/h", "LC_ALL=C", "BRAID_TOKEN=secret", "NATS_PASSWORD=secret",
			"nats_creds=secret", "OPENAI_API_KEY=secret", "GOFLAGS=-v", "TERM=xterm",
		},
		PassEnv: []string{"GOFLAGS", "BRAID_TOKEN", "NATS_PASSWORD", "nats_creds"},
	})
	out := command(t, t.Context(), x, Limits{}, shellCall("env")).Output
	for _, want := range []string{"HOME=/h\n", "LC_ALL=C\n", "GOFLAGS=-v\n", "TERM=dumb\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %q", want, out)
		}
	}
	if strings.Contains(out, "secret") {
		t.Errorf("a secret got through: %q", out)
	}
}

// stopAt is an outlet that stops the call once its output holds a word.
func stopAt(word string, stop context.CancelFunc) Outlet {
	rec := &recorder{}
	outlet := rec.outlet()
	keep := outlet.Fragment
	outlet.Fragment = func(f schemas.ToolFragment) {
		keep(f)
		if strings.Contains(f.Text, word) {
			stop()
		}
	}
	return outlet
}

// abortedAt runs a command until its output holds a word.
func abortedAt(t *testing.T, x *Exec, word string, limits Limits, line string) schemas.ToolResult {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := Execute(ctx, x.Tool(), shellCall(line), limits, stopAt(word, cancel))
	if left := markedProcesses(t, x.markPrefix()); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
	return got
}

// A background process that holds the pipe neither delays the result nor survives it.
func TestCase_D02_GrandchildHoldsThePipe(t *testing.T) {
	x := newTestExec(t, ExecOptions{})
	got := command(t, t.Context(), x, Limits{Timeout: time.Minute}, shellCall("sleep 300 & echo hi"))
	wantResult(t, got, schemas.StopCompleted, "hi\n")

	got = command(t, t.Context(), x, Limits{Timeout: time.Second, Grace: time.Minute}, shellCall("yes | grep x"))
	wantResult(t, got, schemas.StopTimeout, "[no output]\n[timed out after 1s]")
	got = abortedAt(t, x, "a", Limits{Grace: time.Minute}, "echo a; (sleep 300; echo b) | cat")
	wantResult(t, got, schemas.StopAborted, "a\n[aborted]")
}

// The output's tail is never lost, however fast the command ends.
func TestCase_D03_TailIsKept(t *testing.T) {
	x := newTestExec(t, ExecOptions{})
	const size = 65536
	runs := 200
	if testing.Short() {
		runs = 20
	}
	tool := x.Tool()
	for i := range runs {
		got := Execute(t.Context(), tool, shellCall(`head -c 65536 /dev/zero | tr "\0" a`), Limits{OutputCap: 2 * size}, Outlet{})
		if len(got.Output) != size || strings.Trim(got.Output, "a") != "" {
			t.Fatalf("run %d: %d bytes, want %d", i, len(got.Output), size)
		}
	}
}

// slowWriter lets the command end while it is still busy with the first of its output.
type slowWriter struct {
	bytes.Buffer
	first func()
}

func (w *slowWriter) Write(p []byte) (int, error) {
	if w.Len() == 0 {
		w.first()
	}
	return w.Buffer.Write(p)
}

// Nor is it when the copying is slower than the command, past all grace.
func TestCase_D03_TailIsKeptForASlowReader(t *testing.T) {
	const grace = time.Millisecond
	x := newTestExec(t, ExecOptions{DrainGrace: grace})
	cmd := exec.Command("sh", "-c", "echo first; until test -e go; do sleep 0.01; done; echo last")
	cmd.Dir = t.TempDir()
	out := &slowWriter{first: func() {
		if err := os.WriteFile(filepath.Join(cmd.Dir, "go"), nil, 0o600); err != nil {
			t.Error(err)
		}
		waitUntil(t, "the command has ended", func() bool { return syscall.Kill(cmd.Process.Pid, 0) != nil })
		<-time.After(50 * grace) // what waits for this has given up by now
	}}
	if _, err := x.execute(t.Context(), cmd, x.markPrefix()+"slow", out); err != nil {
		t.Fatal(err)
	}
	if out.String() != "first\nlast\n" {
		t.Errorf("got %q", out)
	}
}

// TERM first, so that a command can clean up; KILL for one that will not end.
func TestCase_D06_TermThenKill(t *testing.T) {
	polite := newTestExec(t, ExecOptions{KillGrace: time.Minute})
	got := abortedAt(t, polite, "ready", Limits{Grace: 2 * time.Minute},
		`exec 2>/dev/null; trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.01; done`)
	wantResult(t, got, schemas.StopAborted, "ready\ncleaned\n[aborted]")

	x := newTestExec(t, ExecOptions{})
	got = abortedAt(t, x, "ready", Limits{Grace: time.Minute}, `trap '' TERM; echo ready; while :; do sleep 0.01; done`)
	wantResult(t, got, schemas.StopAborted, "ready\n[aborted]")
}

func BenchmarkExecCommand(b *testing.B) {
	x, err := NewExec(ExecOptions{Environ: os.Environ()})
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close()
	tool := x.Tool()
	for b.Loop() {
		if got := Execute(context.Background(), tool, shellCall("echo hi"), Limits{}, Outlet{}); got.Output != "hi\n" {
			b.Fatal(fmt.Sprint(got))
		}
	}
}
