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
		Long: "Offers tools to all sessions of a project. exec_command runs shell commands as the user of this process,\n" +
			"with a few of its environment variables. read_file, write_file, edit_file, list_files and search_files\n" +
			"work on files, and reach none outside their directory. All of them work in --dir, or in the session's\n" +
			"workspace.\n\n" +
			"On SIGTERM or SIGINT, running commands may go on for --drain, and are then aborted. A second signal ends\n" +
			"the process at once, and kills what its commands left running.",
		Example: "  toolrunner --nats nats://127.0.0.1:4222 --dir /srv/work --tools read_file,list_files,search_files",
		Args:    cobra.NoArgs,
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
