package toolrunner

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// guardianScript waits for the end of its input, which comes with the end of the toolrunner,
// however that ends. Then it kills every process that carries the mark given as its argument,
// and looks again until there is none.
const guardianScript = `
trap '' HUP INT QUIT TERM
while read -r _; do :; done
n=0
while [ $n -lt 20 ]; do
	n=$((n + 1))
	found=$(grep -lF -- "$1" /proc/[0-9]*/environ 2>/dev/null)
	[ -n "$found" ] || exit 0
	for f in $found; do
		pid=${f#/proc/}
		kill -KILL "${pid%/environ}" 2>/dev/null
	done
	sleep 0.1
done
`

// guardian is a shell that outlives the toolrunner by a moment. The parent-death signal reaches
// only the commands' shells, not what these started; the guardian ends the rest.
type guardian struct {
	cmd   *exec.Cmd
	alive io.Closer // the other end of its input
}

// startGuardian starts the shell in a session of its own, so that a signal to the toolrunner's
// process group does not end it. Its environment is empty: it must not find itself.
func startGuardian(shell, mark string) (*guardian, error) {
	cmd := exec.Command(shell, "-c", guardianScript, "braid-guardian", mark)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	alive, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the guardian: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the guardian: %w", err)
	}
	return &guardian{cmd: cmd, alive: alive}, nil
}

// stop lets the guardian do its work and waits for its end. A nil guardian has none to do.
func (g *guardian) stop() error {
	if g == nil {
		return nil
	}
	_ = g.alive.Close()
	if err := g.cmd.Wait(); err != nil {
		return fmt.Errorf("stop the guardian: %w", err)
	}
	return nil
}
