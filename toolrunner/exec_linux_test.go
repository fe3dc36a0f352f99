package toolrunner

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"braid/schemas"
)

// markedProcesses lists the living processes that have an environment variable with that prefix.
func markedProcesses(t *testing.T, prefix string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(env, []byte(prefix)) {
			continue
		}
		comm, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "comm"))
		found = append(found, filepath.Base(filepath.Dir(file))+" "+strings.TrimSpace(string(comm)))
	}
	return found
}

// No descendant outlives the call, wherever it went.
func TestCase_D04_NothingIsLeftRunning(t *testing.T) {
	x := newTestExec(t, ExecOptions{})
	// away is a process in a session of its own; the shell goes on when it has got there.
	away := func(how string) string {
		return how + ` until test -s up; do sleep 0.01; done; rm up; echo hi`
	}
	got := abortedAt(t, x, "hi", Limits{Grace: time.Minute}, away("setsid sh -c 'echo 1 >up; sleep 600' &")+"; sleep 600")
	wantResult(t, got, schemas.StopAborted, "hi\n[aborted]")
	tests := []struct {
		why, line string
		reason    schemas.StopReason
		output    string
	}{
		{"left the group, then the shell exited", away("setsid sh -c 'echo 1 >up; sleep 600' &"), schemas.StopCompleted, "hi\n"},
		{"left the group and lost its parent", away("(setsid sh -c '(sleep 600 & echo 1 >up) & sleep 600' &);"), schemas.StopCompleted, "hi\n"},
		{"left the group and let go of the pipe", away("setsid sh -c 'echo 1 >up; sleep 600' >/dev/null 2>&1 </dev/null &"), schemas.StopCompleted, "hi\n"},
		{"ignores polite signals", away("(trap '' TERM HUP; echo 1 >up; sleep 600) &") + "; kill -TERM 0", schemas.StopFailed, "hi\n[killed by signal: terminated]"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			got := command(t, t.Context(), x, Limits{}, shellCall(tt.line))
			wantResult(t, got, tt.reason, tt.output)
		})
	}
}

// What can't be found holds nobody up: the call ends, with all that the command printed.
func TestUnfindableHolderOfThePipe(t *testing.T) {
	x := newTestExec(t, ExecOptions{DrainGrace: 50 * time.Millisecond})
	got := command(t, t.Context(), x, Limits{}, shellCall(
		`env -i setsid sh -c 'echo $$ >up; exec sleep 600' & until test -s up; do sleep 0.01; done; cat up`))
	pid, err := strconv.Atoi(strings.TrimSpace(got.Output))
	if err != nil || pid <= 1 {
		t.Fatalf("result %+v", got)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the process could be found after all: %v", err)
	}
}

func TestOtherProcessesAreNotTouched(t *testing.T) {
	x := newTestExec(t, ExecOptions{})
	other := exec.Command("sleep", "600")
	other.Env = []string{x.markPrefix() + "another"}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	Execute(t.Context(), x.Tool(), shellCall("setsid sleep 600 & echo hi"), Limits{}, Outlet{})
	if len(markedProcesses(t, x.markPrefix()+"another")) != 1 {
		t.Error("a process of another call was killed")
	}
	_ = other.Process.Kill()
	_ = other.Wait()
}

// victimEnv makes the test binary a toolrunner that is to be killed, running that command.
const victimEnv = "TOOLRUNNER_TEST_VICTIM"

// victim prints its mark and everything its command prints.
func victim() {
	x, err := NewExec(ExecOptions{Environ: os.Environ(), Watch: true})
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(x.markPrefix() + "\n")
	Execute(context.Background(), x.Tool(), shellCall(os.Getenv(victimEnv)), Limits{}, Outlet{
		Fragment: func(f schemas.ToolFragment) { _, _ = os.Stdout.WriteString(f.Text) },
	})
}

// kill -9 of the toolrunner takes along what its commands started.
func TestCase_D04_D17_ToolrunnerKilled(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	runner := exec.Command(self)
	runner.Env = append(os.Environ(), victimEnv+"=setsid sleep 600 & sleep 600 & echo ready; sleep 600")
	stdout, err := runner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	lines.Scan()
	prefix := lines.Text()
	lines.Scan()
	if !strings.HasPrefix(prefix, markName) || lines.Text() != "ready" {
		t.Fatalf("the toolrunner said %q, %q", prefix, lines.Text())
	}
	waitUntil(t, "the command's three sleeps run", func() bool {
		return strings.Count(strings.Join(markedProcesses(t, prefix), "\n"), " sleep") == 3
	})
	if err := runner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = runner.Wait()
	waitUntil(t, "nothing of the call is left", func() bool { return len(markedProcesses(t, prefix)) == 0 })
	waitUntil(t, "the guardian has ended", func() bool { return !guardianRuns(t, prefix) })
}

// guardianRuns looks for a guardian by its argument.
func guardianRuns(t *testing.T, prefix string) bool {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && bytes.Contains(line, []byte(prefix)) {
			return true
		}
	}
	return false
}

func TestGuardianEndsWithExec(t *testing.T) {
	x, err := NewExec(ExecOptions{Watch: true})
	if err != nil {
		t.Fatal(err)
	}
	if !guardianRuns(t, x.markPrefix()) {
		t.Error("there is no guardian")
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	if guardianRuns(t, x.markPrefix()) {
		t.Error("the guardian is still there")
	}
}
