//go:build unix

package toolrunner

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"braid/schemas"
)

// ExecCommandName is the name of the built-in tool that runs shell commands.
const ExecCommandName = "exec_command"

// ExecOptions set up the exec_command tool. The zero value of a field means its default.
type ExecOptions struct {
	// Dir is where commands of sessions without a workspace run, and what a relative workspace
	// is relative to; the toolrunner's working directory.
	Dir string
	// Environ is the environment to choose from, usually [os.Environ]; empty. Commands get an
	// allow-list of it, see environment.go.
	Environ []string
	// PassEnv names further variables that commands get. Those of Braid and NATS never pass.
	PassEnv []string
	// KillGrace is how long a stopped command may take to end after SIGTERM, before it is
	// killed; 400 ms. It should be below [Limits.Grace].
	KillGrace time.Duration
	// DrainGrace is how long to wait for the end of the output when something that could not be
	// found or killed keeps the pipe open; 500 ms.
	DrainGrace time.Duration
	// Watch has a small process beside the toolrunner that kills what commands left running,
	// should the toolrunner be killed itself. Linux only; elsewhere it does nothing.
	Watch bool
}

func (o ExecOptions) withDefaults() (ExecOptions, error) {
	if o.KillGrace <= 0 {
		o.KillGrace = 400 * time.Millisecond
	}
	if o.DrainGrace <= 0 {
		o.DrainGrace = 500 * time.Millisecond
	}
	dir, err := filepath.Abs(o.Dir)
	o.Dir = dir
	return o, err
}

// Exec runs shell commands. Make it with [NewExec], end it with [Exec.Close].
type Exec struct {
	options ExecOptions
	shell   string
	// runner marks the processes of this Exec among all of the machine.
	runner   string
	guardian *guardian
}

// NewExec prepares the exec_command tool. Commands are run by sh, which every system has, rather
// than by whatever shell a machine's user likes best: the model need not guess which it is.
func NewExec(options ExecOptions) (*Exec, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", ExecCommandName, err)
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", ExecCommandName, err)
	}
	x := &Exec{options: options, shell: shell, runner: rand.Text()}
	if options.Watch {
		if x.guardian, err = startGuardian(shell, x.markPrefix()); err != nil {
			return nil, fmt.Errorf("prepare %s: %w", ExecCommandName, err)
		}
	}
	return x, nil
}

// Close ends the process that watches over this one. No command may be running.
func (x *Exec) Close() error { return x.guardian.stop() }

const execParameters = `{
"type":"object",
"properties":{
"command":{"type":"string","minLength":1,"description":"The command line, run by sh -c."},
"timeout_ms":{"type":"integer","minimum":1,"description":"Stop the command after this many milliseconds, if that is sooner than the tool's own limit."}
},
"required":["command"],
"additionalProperties":false
}`

// Tool is the tool, for a toolrunner to offer.
func (x *Exec) Tool() Tool {
	parameters, err := schemas.CompactRaw([]byte(execParameters))
	if err != nil { // the constant above is not JSON
		panic(err)
	}
	return Tool{
		Definition: schemas.ToolDefinition{
			Name: ExecCommandName,
			Description: "Runs a shell command (sh) in the session's workspace and returns what it prints, " +
				"standard output and standard error together. Standard input is empty. When the shell exits, " +
				"everything it started and left running is killed.",
			Parameters: parameters,
			Permission: schemas.PermissionReadWrite,
			Retry:      schemas.RetryNever,
			Workspace:  true,
		},
		Run: x.run,
	}
}

type execArguments struct {
	Command   string `json:"command"`
	TimeoutMS *int64 `json:"timeout_ms"`
}

func decodeExecArguments(text string) (execArguments, error) {
	var a execArguments
	if err := DecodeArguments(text, &a); err != nil {
		return a, err
	}
	refuse := func(field, message string) (execArguments, error) {
		return a, &schemas.Error{Code: schemas.CodeInvalid, Field: field, Message: message}
	}
	switch {
	case strings.TrimSpace(a.Command) == "":
		return refuse("command", "the arguments can't be used: command is missing or empty")
	case strings.IndexByte(a.Command, 0) >= 0:
		return refuse("command", "the arguments can't be used: command holds a NUL character")
	case a.TimeoutMS != nil && *a.TimeoutMS < 1:
		return refuse("timeout_ms", "the arguments can't be used: timeout_ms must be 1 or more")
	}
	return a, nil
}

// run is the tool's Run.
func (x *Exec) run(ctx context.Context, call Call, out *Output) Result {
	args, err := decodeExecArguments(call.Arguments)
	if err != nil {
		return Result{Err: err}
	}
	dir, err := WorkspaceDir(x.options.Dir, call.Workspace)
	if err != nil {
		return Result{Err: err}
	}
	bounded := ctx
	if args.TimeoutMS != nil {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, milliseconds(*args.TimeoutMS))
		defer cancel()
	}
	mark := x.mark(call)
	cmd := exec.Command(x.shell, "-c", args.Command)
	cmd.Dir = dir
	cmd.Env = environment(x.options.Environ, x.options.PassEnv, dir, mark)
	state, err := x.execute(bounded, cmd, mark, out)
	switch {
	case err != nil:
		return Result{Err: err}
	case ctx.Err() != nil:
		return Result{} // the execution knows why, and says so
	case bounded.Err() != nil:
		return Result{
			StopReason: schemas.StopTimeout,
			Note:       fmt.Sprintf("[timed out after %v]", milliseconds(*args.TimeoutMS)),
		}
	}
	return exitResult(state)
}

// exitResult is how a command that nobody stopped has ended.
func exitResult(state *os.ProcessState) Result {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Result{StopReason: schemas.StopFailed, Note: fmt.Sprintf("[killed by signal: %v]", status.Signal())}
	}
	if code := state.ExitCode(); code != 0 {
		return Result{StopReason: schemas.StopFailed, Note: fmt.Sprintf("[exit code: %d]", code)}
	}
	return Result{}
}

// markPrefix begins the marks of this Exec and of no other.
func (x *Exec) markPrefix() string { return markName + "=" + x.runner + "." }

// mark is the environment variable by which a call's processes are found wherever they went.
func (x *Exec) mark(call Call) string {
	return x.markPrefix() + strings.Join([]string{call.Session.Project, call.Session.ID, call.ToolCallID, rand.Text()}, ".")
}
