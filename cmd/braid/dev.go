package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"braid/internal/cli"
)

func devCommand() *cobra.Command {
	var f cli.DevFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in this process and serve the HTTP API",
		Long: "Runs a broker, an engine, a toolrunner for shell commands and files in the current\n" +
			"directory, and a gateway, all in this process, and prints one URL.\n" +
			"In a browser it is a page with all sessions; for other commands, it is the server.",
		Example: "  braid dev --listen 127.0.0.1:7300\n  export BRAID_SERVER='http://127.0.0.1:7300/?token=...'     # what it printed",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			o := stackOptions{StackFlags: f.Stack, metrics: f.Metrics, spans: f.Spans, listen: f.Listen, token: f.Token}
			if o.log, err = cli.Logger(f.Logs, cmd.ErrOrStderr()); err != nil {
				return err
			}
			s, err := startStack(cmd.Context(), o)
			if err != nil {
				return err
			}
			defer cli.Close(&err, func() error { return s.stop(context.WithoutCancel(cmd.Context())) })
			fmt.Fprintf(cmd.OutOrStdout(), "%s/?token=%s\n", s.url, s.token)
			select {
			case <-cmd.Context().Done():
				return nil
			case err := <-s.fail:
				return err
			}
		},
	}
	f.Register(cmd.Flags())
	cli.Configure(cmd, cli.SectionDev)
	return cmd
}
