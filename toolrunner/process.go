//go:build unix

package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// pipeSize is what a pipe holds on Linux: one read takes all that a dead process left in it.
const pipeSize = 64 << 10

// execute runs a command to its end and copies what it prints. When it returns without an error
// the command's whole process group is dead, as are the processes that carry the mark (on Linux),
// and both goroutines it started have ended.
//
// The order matters. The leader's exit is awaited without reaping it, so that its process group
// can't be another's by the time it is killed. Only then is the output read to its end: whoever
// held the pipe is gone, so the end comes at once, and it comes after the last byte.
func (x *Exec) execute(ctx context.Context, cmd *exec.Cmd, mark string, out io.Writer) (*os.ProcessState, error) {
	// The kernel sends the parent-death signal when the thread that forked ends, so this one
	// must not end before the command.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, err := startPiped(cmd)
	if err != nil {
		return nil, err
	}
	defer r.Close() // nothing is read from it any more

	copied := make(chan struct{})
	go func() { // ends at the end of the pipe or by the deadline set below
		defer close(copied)
		copyOutput(out, r)
	}()
	exited := make(chan struct{})
	go func() { // ends with the leader
		defer close(exited)
		awaitExit(cmd)
	}()

	x.superviseLeader(ctx, cmd.Process.Pid, mark, exited)
	killGroup(cmd.Process.Pid, syscall.SIGKILL)
	killMarked(mark)
	_ = cmd.Wait() // reaps the leader; its state says all that the error would
	x.drain(r, out, copied)
	return cmd.ProcessState, nil
}

// startPiped starts the command as the leader of its own process group, with standard output and
// standard error in one pipe, in the order they are written. It returns the pipe's reading end.
func startPiped(cmd *exec.Cmd) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the command: %w", err)
	}
	defer w.Close() // the command has its own copy
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = processAttributes()
	if err := cmd.Start(); err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("start the command: %w", err)
	}
	return r, nil
}

// superviseLeader returns when the leader has exited. If ctx ends before, the group is asked to
// stop, and after a grace killed, with whatever carries the mark.
func (x *Exec) superviseLeader(ctx context.Context, pid int, mark string, exited <-chan struct{}) {
	select {
	case <-exited:
		return
	case <-ctx.Done():
	}
	killGroup(pid, syscall.SIGTERM)
	grace := time.NewTimer(x.options.KillGrace)
	defer grace.Stop()
	select {
	case <-exited:
	case <-grace.C:
		killGroup(pid, syscall.SIGKILL)
		killMarked(mark)
		<-exited
	}
}

// drain waits for the end of the output. Something that holds the pipe and could not be found is
// not waited for longer than the grace; what is in the pipe by then is read all the same, since the
// copying may only have been slow.
func (x *Exec) drain(r *os.File, out io.Writer, copied <-chan struct{}) {
	grace := time.NewTimer(x.options.DrainGrace)
	defer grace.Stop()
	select {
	case <-copied:
		return
	case <-grace.C:
	}
	if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		_ = r.Close() // unblocks the reader as well
	}
	<-copied
	copyRest(out, r)
}

// copyRest copies what the pipe holds now, without waiting for more.
func copyRest(out io.Writer, r *os.File) {
	pipe, err := r.SyscallConn()
	if err != nil || r.SetReadDeadline(time.Time{}) != nil {
		return // it was closed
	}
	buf := make([]byte, pipeSize) // one read takes all of it
	_ = pipe.Read(func(fd uintptr) bool {
		if n, err := syscall.Read(int(fd), buf); err == nil {
			_, _ = out.Write(buf[:n])
		}
		return true
	})
}

// copyOutput copies until the pipe ends or nobody wants the output any more. In the second case
// the pipe is read on, so that the command does not hang or die of it while it is being stopped.
func copyOutput(out io.Writer, r io.Reader) {
	buf := make([]byte, pipeSize)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			_, _ = out.Write(buf[:n]) // fails only once the call is over
		}
		if err != nil {
			return
		}
	}
}

// killGroup signals a process group. The leader must not have been reaped yet.
func killGroup(pid int, signal syscall.Signal) {
	if pid <= 1 { // -1 would be everybody
		return
	}
	// A group without processes is what we want; there is nothing to do about other errors.
	if err := syscall.Kill(-pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		_ = syscall.Kill(pid, signal)
	}
}
