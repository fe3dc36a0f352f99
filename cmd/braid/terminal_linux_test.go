package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal makes a terminal: what is written to one end is typed on the other.
func openTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := person.SyscallConn() // unlike Fd, it leaves reads interruptible
	if err != nil {
		t.Fatal(err)
	}
	var number int
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		n, err := unix.IoctlGetUint32(int(fd), unix.TIOCGPTN)
		number, failed = int(n), errors.Join(failed, err, unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 120}))
	}); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return person, program
}

// atTerminal is a person before a terminal on which braid runs.
type atTerminal struct {
	t      *testing.T
	person *os.File
	cmd    *exec.Cmd
	mu     struct {
		sync.Mutex
		seen bytes.Buffer
	}
	came chan struct{} // something was shown
	at   int           // up to where it was read
}

// sitDown runs braid on a terminal of its own until the test ends.
func sitDown(t *testing.T, env []string, args ...string) *atTerminal {
	t.Helper()
	person, program := openTerminal(t)
	s := &atTerminal{t: t, person: person, came: make(chan struct{}, 1)}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // longer than anything is waited for
	t.Cleanup(cancel)
	s.cmd = exec.CommandContext(ctx, "braid", args...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = program, program, program
	s.cmd.Env = append(os.Environ(), append([]string{"TERM=xterm", "NO_COLOR=1"}, env...)...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	program.Close()
	var reading sync.WaitGroup
	reading.Go(s.read)
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
		}
		person.Close()
		reading.Wait()
		if t.Failed() {
			t.Logf("the terminal showed:\n%s", s.shown())
		}
	})
	return s
}

func (s *atTerminal) read() {
	buffer := make([]byte, 4096)
	for {
		n, err := s.person.Read(buffer)
		s.mu.Lock()
		s.mu.seen.Write(buffer[:n])
		s.mu.Unlock()
		select {
		case s.came <- struct{}{}:
		default:
		}
		if err != nil { // EIO at its end
			return
		}
	}
}

func (s *atTerminal) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.seen.String()
}

// see waits until something is shown behind what was seen before.
func (s *atTerminal) see(text string) {
	s.t.Helper()
	bound := time.NewTimer(time.Minute)
	defer bound.Stop()
	for {
		if i := strings.Index(s.shown()[s.at:], text); i >= 0 {
			s.at += i + len(text)
			return
		}
		select {
		case <-s.came:
		case <-bound.C:
			s.t.Fatalf("%q is not shown", text)
		}
	}
}

// hit types keys.
func (s *atTerminal) hit(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.person, text); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for the program's end.
func (s *atTerminal) ends(code int) {
	s.t.Helper()
	_ = s.cmd.Wait() // says no more than the code
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		s.t.Errorf("it ended with %d, want %d", got, code)
	}
}

const (
	ctrlC = "\x03"
	ctrlD = "\x04"
	enter = "\r"
	up    = "\x1b[A"
)
