// Command gateway is the HTTP edge: it puts commands of clients on the broker and streams
// sessions to them. Any number of gateways may share a broker.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/spf13/cobra"

	"braid/bus"
	"braid/gateway"
	"braid/internal/cli"
)

func main() {
	ctx, stop := cli.OnSignal(context.Background())
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type options struct {
	broker  cli.BrokerFlags
	logs    cli.LogFlags
	listen  string
	token   string
	project string
	hosts   []string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Serve the HTTP API and the event streams",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.broker.Register(cmd.Flags())
	o.logs.Register(cmd.Flags())
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:7300", "address to serve on")
	cmd.Flags().StringVar(&o.token, "token", "", "bearer token clients must send; better given as env "+cli.EnvToken)
	cmd.Flags().StringVar(&o.project, "project", "default", "project whose sessions are served")
	cmd.Flags().StringSliceVar(&o.hosts, "host", nil, "host names, besides loopback, that requests may name")
	return cli.Execute(ctx, cmd, args, stdout, stderr)
}

// serve runs until ctx ends.
func serve(ctx context.Context, o options, stdout, stderr io.Writer) error {
	log, err := cli.Logger(o.logs, stderr)
	if err != nil {
		return err
	}
	token := cmp.Or(o.token, os.Getenv(cli.EnvToken))
	if token == "" {
		return cli.Usage("a token is required: --token or %s", cli.EnvToken)
	}
	conn, err := bus.Connect(ctx, o.broker.Options("braid-gateway", os.Getenv, log))
	if err != nil {
		return err
	}
	defer conn.Close()
	g, err := gateway.New(gateway.Options{Conn: conn, Token: token, Project: o.project, Hosts: o.hosts, Log: log})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	fmt.Fprintf(stdout, "http://%s\n", listener.Addr())
	return g.Serve(ctx, listener)
}
