//go:build unix && !linux

package toolrunner

import (
	"os/exec"
	"syscall"
)

// processAttributes: a process group of its own. These systems have no parent-death signal.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitExit waits for the process and reaps it. The group is killed right after, in a moment in
// which its number could only be another's if every member had ended and it was given out again.
func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() }

// killMarked does nothing: environments of other processes can't be read here. What left its
// process group lives on.
func killMarked(string) {}

// guardian is not built on these systems.
type guardian struct{}

func startGuardian(string, string) (*guardian, error) { return nil, nil }

func (*guardian) stop() error { return nil }
