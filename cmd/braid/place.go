package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"braid/client"
	"braid/internal/cli"
)

// place is where a command has its work done: on a server, or in this process if none is named.
type place struct {
	stack  stackOptions
	server serverFlags
	logs   cli.LogFlags
}

func (p *place) register(flags *pflag.FlagSet) {
	p.server.register(flags)
	inProcess := pflag.NewFlagSet("", pflag.ContinueOnError)
	p.stack.Register(inProcess, "2s")
	p.logs.Register(inProcess)
	inProcess.Lookup("log-level").DefValue, p.logs.Level = "warn", "warn"
	addFlags(flags, inProcess, helpInProcess)
}

// onPlace makes a command of what is done with a client: it gets the flags that say where.
func onPlace(cmd *cobra.Command, do func(cmd *cobra.Command, c *client.Client, args []string) error) *cobra.Command {
	var p place
	p.register(cmd.Flags())
	cli.Configure(cmd, cli.SectionRun)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if err := p.check(cmd.Flags()); err != nil {
			return err
		}
		c, leave, err := p.reach(cmd.Context(), cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		defer cli.Close(&err, leave)
		return do(cmd, c, args)
	}
	return cmd
}

// check refuses what was asked of an engine that there will not be. A file may say it for engines.
func (p *place) check(flags *pflag.FlagSet) error {
	if p.server.url != "" && flags.Changed("policy") {
		return cli.Usage("--policy is for an engine in this process; give it to the engines behind the server instead")
	}
	if p.server.url != "" && flags.Changed("agents") {
		return cli.Usage("--agents is for a gateway in this process; give it to the one behind the server instead")
	}
	return nil
}

// reach returns a client, and what ends whatever was started for it. Logs go to errOut.
func (p *place) reach(ctx context.Context, errOut io.Writer) (c *client.Client, leave func() error, err error) {
	if c := p.server.client(); c != nil {
		leave = func() error { c.Close(); return nil }
		// A person should not have to wait for a server that is not there.
		if err := c.Ping(ctx); err != nil {
			return nil, nil, errors.Join(err, leave())
		}
		return c, leave, nil
	}
	if p.stack.log, err = cli.Logger(p.logs, errOut); err != nil {
		return nil, nil, err
	}
	p.stack.listen = "127.0.0.1:0"
	s, err := startStack(ctx, p.stack)
	if err != nil {
		return nil, nil, err
	}
	c = s.client()
	return c, func() error { c.Close(); return s.stop(context.WithoutCancel(ctx)) }, nil
}

// openInput opens the file that a command's argument names: standard input for "-" or none.
func openInput(cmd *cobra.Command, args []string) (io.ReadCloser, error) {
	if len(args) == 0 || args[0] == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	return os.Open(args[0])
}
