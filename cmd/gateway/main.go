// Command gateway is the HTTP edge: it puts commands of clients on the broker and streams
// sessions to them. Any number of gateways may share a broker.
package main

import (
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

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o cli.GatewayFlags
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Serve the HTTP API, the event streams and the web page",
		Long: "Serves the sessions of a project over HTTP: the API, event streams, and a web page at /. It keeps no state,\n" +
			"so any number of gateways can serve the same project.\n\n" +
			"It serves HTTP without TLS. To serve more than loopback, put a proxy with TLS in front, and name its host\n" +
			"with --host.",
		Example: "  BRAID_TOKEN=secret gateway --nats nats://127.0.0.1:4222 --listen 127.0.0.1:7300",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.Register(cmd.Flags())
	cli.Configure(cmd, cli.SectionGateway)
	return cli.Execute(ctx, cmd, args, os.Environ(), stdout, stderr)
}

// serve runs until ctx ends.
func serve(ctx context.Context, o cli.GatewayFlags, stdout, stderr io.Writer) (err error) {
	log, err := cli.Logger(o.Logs, stderr)
	if err != nil {
		return err
	}
	if o.Token == "" {
		return cli.Usage("a token is required: --token or %s", cli.EnvName("token"))
	}
	agents, err := o.Agents.Load()
	if err != nil {
		return err
	}
	counted, stopMetrics, err := o.Metrics.Start(log)
	if err != nil {
		return err
	}
	defer cli.Close(&err, stopMetrics)
	conn, err := bus.Connect(ctx, o.Broker.Options("braid-gateway", log))
	if err != nil {
		return cli.UnlessStopped(ctx, err)
	}
	defer conn.Close()
	counted.Broker("gateway", conn)
	if err := cli.PutAgents(ctx, conn, o.Project, agents); err != nil {
		return cli.UnlessStopped(ctx, err)
	}
	g, err := gateway.New(gateway.Options{
		Conn: conn, Token: o.Token, Project: o.Project, Hosts: o.Hosts, Events: counted.Gateway(), Log: log,
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	fmt.Fprintf(stdout, "http://%s\n", listener.Addr())
	return g.Serve(ctx, listener)
}
