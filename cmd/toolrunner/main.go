//go:build unix

// Command toolrunner runs the tool calls of sessions on this machine: shell commands, in the
// directory it is given. Any number of toolrunners may share a pool.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"braid/bus"
	"braid/internal/cli"
	"braid/toolrunner"
)

func main() {
	ctx, stop := cli.OnSignal(context.Background())
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type options struct {
	broker   cli.BrokerFlags
	logs     cli.LogFlags
	dir      string
	pool     string
	projects []string
	slots    int
	drain    time.Duration
	passEnv  []string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	cmd := &cobra.Command{
		Use:   "toolrunner",
		Short: "Run the tool calls of sessions on this machine",
		Long: "Offers exec_command to all sessions of a project: it runs shell commands as the user of this\n" +
			"process, in --dir or the session's workspace, with a short list of its environment variables.\n\n" +
			"SIGTERM or SIGINT lets running commands go on for --drain, then aborts them. A second signal\n" +
			"ends the process at once; what its commands left running is killed then, too.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), o, cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	o.broker.Register(flags)
	o.logs.Register(flags)
	flags.StringVar(&o.dir, "dir", ".", "where commands run, and what a relative workspace is relative to")
	flags.StringVar(&o.pool, "pool", "default", "the pool to serve; all toolrunners of a pool offer the same tools")
	flags.StringSliceVar(&o.projects, "project", []string{"default"}, "whose calls to run; may be repeated")
	flags.IntVar(&o.slots, "slots", 8, "how many calls run at once")
	flags.DurationVar(&o.drain, "drain", 20*time.Second, "how long running calls may go on when told to stop")
	flags.StringSliceVar(&o.passEnv, "pass-env", nil, "further environment variables that commands get; those of Braid and NATS never pass")
	return cli.Execute(ctx, cmd, args, stdout, stderr)
}

// serve runs until ctx ends, and then until the calls have.
func serve(ctx context.Context, o options, stderr io.Writer) (err error) {
	log, err := cli.Logger(o.logs, stderr)
	if err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	if err := hideEnvironment(); err != nil {
		return fmt.Errorf("hide the environment from commands: %w", err)
	}
	exec, err := toolrunner.NewExec(toolrunner.ExecOptions{
		Dir: o.dir, Environ: os.Environ(), PassEnv: o.passEnv, Watch: true,
	})
	if err != nil {
		return err
	}
	defer cli.Close(&err, exec.Close)
	conn, err := bus.Connect(ctx, o.broker.Options("braid-toolrunner", os.Getenv, log))
	if ctx.Err() != nil {
		return nil // told to stop while it waited for the broker
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	return toolrunner.Serve(ctx, conn, toolrunner.ServeOptions{
		Projects: o.projects, Pool: o.pool, Slots: o.slots, Drain: o.drain,
		Tools: []toolrunner.Tool{exec.Tool()}, Log: log,
	})
}

// check finds what the flags say and can't be, before anything is begun.
func (o options) check() error {
	if info, err := os.Stat(o.dir); err != nil || !info.IsDir() {
		return cli.Usage("--dir %q is no directory", o.dir)
	}
	if o.slots < 1 {
		return cli.Usage("--slots must be 1 or more, not %d", o.slots)
	}
	if o.drain < 0 {
		return cli.Usage("--drain must not be negative")
	}
	return nil
}
