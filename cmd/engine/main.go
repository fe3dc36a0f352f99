// Command engine runs sessions: it takes their commands from the broker, calls models and sends
// tool calls to toolrunners. Any number of engines may share a broker.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

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

type options struct {
	broker  cli.BrokerFlags
	logs    cli.LogFlags
	models  cli.ModelFlags
	policy  cli.PolicyFlag
	data    string
	room    int
	handing time.Duration
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	cmd := &cobra.Command{
		Use:   "engine",
		Short: "Run sessions: call models, ask for approvals, dispatch tools",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), o, cmd.ErrOrStderr())
		},
	}
	o.broker.Register(cmd.Flags())
	o.logs.Register(cmd.Flags())
	o.models.Register(cmd.Flags())
	o.policy.Register(cmd.Flags())
	cmd.Flags().StringVar(&o.data, "data", "", "directory of this engine's trace; no other process may use it (required)")
	cmd.Flags().IntVar(&o.room, "max-sessions", 0, "sessions in motion here at once (default 1024)")
	cmd.Flags().DurationVar(&o.handing, "drain", 10*time.Second, "how long to hand sessions over when told to stop")
	return cli.Execute(ctx, cmd, args, stdout, stderr)
}

// serve runs until ctx ends, then hands every session over.
func serve(ctx context.Context, o options, stderr io.Writer) (err error) {
	log, err := cli.Logger(o.logs, stderr)
	if err != nil {
		return err
	}
	if o.data == "" {
		return cli.Usage("--data is required")
	}
	models, err := o.models.Catalog(os.Getenv, log)
	if err != nil {
		return err
	}
	rules, err := o.policy.Load()
	if err != nil {
		return err
	}
	prices, err := o.models.PriceList()
	if err != nil {
		return err
	}
	store, err := trace.Open(filepath.Clean(o.data), trace.Options{Logger: log})
	if err != nil {
		return err
	}
	defer cli.Close(&err, store.Close)
	conn, err := bus.Connect(ctx, o.broker.Options("braid-engine", os.Getenv, log))
	if err != nil {
		return err
	}
	defer conn.Close()
	e, err := engine.Start(ctx, engine.Options{
		Conn: conn, Trace: store, Models: models, Prices: prices, Policy: rules, MaxSessions: o.room, Log: log,
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.handing)
	defer cancel()
	if err := e.Stop(stopping); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return models.Close(stopping)
}
