package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"braid/client"
	"braid/internal/cli"
)

// place is where a command has its work done: on a server, or in this process if none is named.
type place struct {
	need   need // of this process
	stack  stackOptions
	server serverFlags
	logs   cli.LogFlags
}

// at makes the place of a command, by its name below braid.
func at(command string) place {
	p := place{need: needs()[command]}
	if p.need != needsTrace && p.need != needsAll {
		panic(command + " starts nothing") // no test can miss it: each makes all commands
	}
	return p
}

// register adds the flags that say where, and more that only matter in this process.
func (p *place) register(flags *pflag.FlagSet, more ...func(*pflag.FlagSet)) {
	p.server.register(flags)
	inProcess := pflag.NewFlagSet("", pflag.ContinueOnError)
	if p.need == needsAll {
		p.stack.Register(inProcess, syncInterval)
	} else {
		p.stack.RegisterStore(inProcess, syncInterval)
	}
	for _, register := range more {
		register(inProcess)
	}
	registerQuietLogs(&p.logs, inProcess)
	addFlags(flags, inProcess, helpInProcess)
}

// syncInterval is the default of --sync for commands that are somebody's, not a service.
const syncInterval = "2s"

// registerQuietLogs adds the flags of logs, of which people want warnings alone.
func registerQuietLogs(logs *cli.LogFlags, flags *pflag.FlagSet) {
	logs.Register(flags)
	flags.Lookup("log-level").DefValue, logs.Level = "warn", "warn"
}

// onPlace makes a command of what is done with a client: it gets the flags that say where.
func onPlace(command string, cmd *cobra.Command, do func(cmd *cobra.Command, c *client.Client, args []string) error) *cobra.Command {
	p := at(command)
	return p.command(cmd, do)
}

// command is onPlace for who has a use for the place.
func (p *place) command(cmd *cobra.Command, do func(cmd *cobra.Command, c *client.Client, args []string) error, more ...func(*pflag.FlagSet)) *cobra.Command {
	p.register(cmd.Flags(), more...)
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
		return cli.Usage("--policy can't be used with a server: give it to the server's engines instead")
	}
	if p.server.url != "" && flags.Changed("agents") {
		return cli.Usage("--agents can't be used with a server: give it to the server's gateway instead")
	}
	return nil
}

// pullWait is how long pulls wait for messages in the process of a command: who leaves waits for them.
const pullWait = 50 * time.Millisecond

// reach returns a client, and what ends whatever was started for it. Logs go to errOut.
func (p *place) reach(ctx context.Context, errOut io.Writer) (c *client.Client, leave func() error, err error) {
	if c, err = p.server.reach(ctx); c != nil || err != nil {
		return c, func() error { c.Close(); return nil }, err
	}
	if p.stack.log, err = cli.Logger(p.logs, errOut); err != nil {
		return nil, nil, err
	}
	p.stack.listen, p.stack.pullWait = "127.0.0.1:0", pullWait
	start := startStack
	if p.need == needsTrace {
		start = startLooking
	}
	s, err := start(ctx, p.stack)
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
