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
		Short: "Run a complete server in this process",
		Long: "Runs a broker, an engine, a toolrunner (for shell commands and files in the current directory) and a\n" +
			"gateway, all in this process, and prints a URL. In a browser, the URL opens a page with all sessions;\n" +
			"other commands take it as --server. With --nats-listen a second URL is printed, to which toolrunners\n" +
			"with tools of your own can connect.",
		Example: "  braid dev --listen 127.0.0.1:7300\n  export BRAID_SERVER='http://127.0.0.1:7300/?token=...'     # the URL it printed\n" +
			"  braid dev --nats-listen 127.0.0.1:4222\n  export BRAID_NATS=nats://...@127.0.0.1:4222                # the second URL",
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
