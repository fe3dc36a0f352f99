//go:build unix

// Command toolrunner runs the tool calls of sessions on this machine: shell commands, and tools that
// read, write and search files, in the directory it is given. Any number of toolrunners may share a pool.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

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

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o cli.ToolrunnerFlags
	cmd := &cobra.Command{
		Use:   "toolrunner",
		Short: "Run the tool calls of sessions on this machine",
		Long: "Offers tools to all sessions of a project: exec_command runs shell commands as the user of this\n" +
			"process, with a short list of its environment variables; read_file, write_file, edit_file,\n" +
			"list_files and search_files reach nothing outside. All work in --dir or the session's workspace.\n\n" +
			"SIGTERM or SIGINT lets running commands go on for --drain, then aborts them. A second signal\n" +
			"ends the process at once; what its commands left running is killed then, too.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), o, cmd.ErrOrStderr())
		},
	}
	o.Register(cmd.Flags())
	cli.Configure(cmd, cli.SectionToolrunner)
	return cli.Execute(ctx, cmd, args, os.Environ(), stdout, stderr)
}

// serve runs until ctx ends, and then until the calls have.
func serve(ctx context.Context, o cli.ToolrunnerFlags, stderr io.Writer) (err error) {
	log, err := cli.Logger(o.Logs, stderr)
	if err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return err
	}
	if err := hideEnvironment(); err != nil {
		return fmt.Errorf("hide the environment from commands: %w", err)
	}
	tools, done, err := o.Tools.Tools(toolrunner.ExecOptions{
		Dir: o.Dir, Environ: os.Environ(), PassEnv: o.PassEnv, Watch: true,
	})
	if err != nil {
		return err
	}
	defer cli.Close(&err, done)
	counted, stopMetrics, err := o.Metrics.Start(log)
	if err != nil {
		return err
	}
	defer cli.Close(&err, stopMetrics)
	drawn, stopSpans, err := o.Spans.Start(ctx, "braid-toolrunner", os.Getenv, log)
	if err != nil {
		return err
	}
	defer stopSpans()
	conn, err := bus.Connect(ctx, o.Broker.Options("braid-toolrunner", log))
	if err != nil {
		return cli.UnlessStopped(ctx, err)
	}
	defer conn.Close()
	counted.Broker("toolrunner", conn)
	return toolrunner.Serve(ctx, conn, toolrunner.ServeOptions{
		Projects: o.Projects, Pool: o.Pool, Volume: o.Volume, Slots: o.Slots, Drain: o.Drain,
		Tools: tools, Events: counted.Toolrunner(conn).And(drawn.Toolrunner()), Log: log,
	})
}
