package main

import (
	"context"
	"fmt"
	"io"
	"net/url"

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
			"In a browser it is a page with all sessions; for other commands, it is the server.\n" +
			"With --nats-listen a second URL follows: programs with tools of your own connect to it.",
		Example: "  braid dev --listen 127.0.0.1:7300\n  export BRAID_SERVER='http://127.0.0.1:7300/?token=...'     # what it printed\n" +
			"  braid dev --nats-listen 127.0.0.1:4222\n  export BRAID_NATS=nats://...@127.0.0.1:4222                # the second line",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			o := stackOptions{StackFlags: f.Stack, metrics: f.Metrics, spans: f.Spans, listen: f.Listen, nats: f.NATSListen, token: f.Token}
			if o.log, err = cli.Logger(f.Logs, cmd.ErrOrStderr()); err != nil {
				return err
			}
			s, err := startStack(cmd.Context(), o)
			if err != nil {
				return err
			}
			defer cli.Close(&err, func() error { return s.stop(context.WithoutCancel(cmd.Context())) })
			served := s.url + "/?" + url.Values{"token": {s.token}}.Encode() + "\n"
			if s.nats != "" {
				served += s.nats + "\n"
			}
			if _, err := io.WriteString(cmd.OutOrStdout(), served); err != nil {
				return fmt.Errorf("print where it serves: %w", err)
			}
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
