// Command engine runs sessions: it takes their commands from the broker, calls models and sends
// tool calls to toolrunners. Any number of engines may share a broker.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"braid/bus"
	"braid/engine"
	"braid/internal/cli"
	"braid/trace"
)

func main() {
	ctx, stop := cli.OnSignal(context.Background())
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o cli.EngineFlags
	cmd := &cobra.Command{
		Use:   "engine",
		Short: "Run sessions: call models, ask for approvals, dispatch tools",
		Long: "Runs the sessions on a broker (--nats), together with any other engines there. If an engine is\n" +
			"lost, the others take over its sessions.\n\n" +
			"SIGTERM or SIGINT hands all sessions over to other engines, for at most --drain. A second signal ends\n" +
			"the process at once.",
		Example: "  engine --nats nats://127.0.0.1:4222 --data /var/lib/braid --openai local=http://127.0.0.1:11434/v1",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), o, cmd.ErrOrStderr())
		},
	}
	o.Register(cmd.Flags())
	cli.Configure(cmd, cli.SectionEngine)
	return cli.Execute(ctx, cmd, args, os.Environ(), stdout, stderr)
}

// serve runs until ctx ends, then hands every session over.
func serve(ctx context.Context, o cli.EngineFlags, stderr io.Writer) (err error) {
	log, err := cli.Logger(o.Logs, stderr)
	if err != nil {
		return err
	}
	if o.Data == "" {
		return cli.Usage("--data is required")
	}
	models, err := o.Models.Catalog(os.Getenv, log)
	if err != nil {
		return err
	}
	rules, err := o.Policy.Load()
	if err != nil {
		return err
	}
	prices, err := o.Models.PriceList()
	if err != nil {
		return err
	}
	counted, stopMetrics, err := o.Metrics.Start(log)
	if err != nil {
		return err
	}
	defer cli.Close(&err, stopMetrics)
	drawn, stopSpans, err := o.Spans.Start(ctx, "braid-engine", os.Getenv, log)
	if err != nil {
		return err
	}
	defer stopSpans()
	store, err := trace.Open(filepath.Clean(o.Data), trace.Options{Logger: log})
	if err != nil {
		return err
	}
	defer cli.Close(&err, func() error { return cli.CloseTrace(store) })
	conn, err := bus.Connect(ctx, o.Broker.Options("braid-engine", log))
	if err != nil {
		return cli.UnlessStopped(ctx, err)
	}
	defer conn.Close()
	counted.Broker("engine", conn)
	e, err := engine.Start(ctx, engine.Options{
		Conn: conn, Trace: store, Models: models, Prices: prices, Policy: rules, MaxSessions: o.MaxSessions,
		Events: counted.Engine().And(drawn.Engine()), TraceContext: drawn.TraceContext(), Log: log,
	})
	if err != nil {
		return cli.UnlessStopped(ctx, err)
	}
	counted.Sessions(e)
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Drain)
	defer cancel()
	if err := e.Stop(stopping); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return models.Close(stopping)
}
