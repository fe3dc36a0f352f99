package toolrunner

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// processAttributes: a process group of its own, and death with the toolrunner.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until the process has exited and leaves it as a zombie, so that its pid and
// process group stay taken.
func awaitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// Looking for marked processes again, after some were found: new ones may have been forked
// meanwhile, and the dead take a moment to vanish, which is long on a machine that is busy.
const (
	sweepFor   = 5 * time.Second
	sweepPause = 5 * time.Millisecond
	sweepRest  = 50 * time.Millisecond
)

// killMarked kills every process whose environment holds the mark ("NAME=value"), wherever it
// went: setsid and double forks don't matter, since environments are inherited. A program that
// drops the variable and leaves its process group as well is not found. It returns when none is
// left, or after a while (a process the kernel can't end).
func killMarked(mark string) {
	begun := time.Now()
	for pause := sweepPause; sweep(mark) > 0 && time.Since(begun) < sweepFor; pause = min(2*pause, sweepRest) {
		<-time.After(pause) // nothing may cut this short
	}
}

// sweep signals the marked processes that there are now and returns their number.
func sweep(mark string) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	found := 0
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid <= 1 || !hasMark(pid, mark) {
			continue
		}
		found++
		killPinned(pid, mark)
	}
	return found
}

// killPinned kills a marked process through a descriptor that stays with it, so that a pid taken
// over by another process between look and signal harms nobody.
func killPinned(pid int, mark string) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // gone
	}
	defer func() { _ = unix.Close(fd) }() // it was only looked at
	if hasMark(pid, mark) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // fails if it has just ended
	}
}

// hasMark reports whether the process was started with the mark in its environment. It is false
// for a zombie, which has none, and for processes of other users, which can't be read.
func hasMark(pid int, mark string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for pair := range bytes.SplitSeq(env, []byte{0}) {
		if string(pair) == mark {
			return true
		}
	}
	return false
}
