package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"braid/client"
	"braid/internal/cli"
	"braid/schemas"
)

// importOptions say what becomes of a trace.
type importOptions struct {
	place
	what client.ImportOptions
}

func traceImportCommand() *cobra.Command {
	o := importOptions{place: at("trace import")}
	cmd := &cobra.Command{
		Use:   "import [FILE|-]",
		Short: "Create a session from a trace",
		Long: "Creates a session from a trace (JSON Lines), on a server or in a data directory that no other process is\n" +
			"using, and prints the session's id. The session can be continued like any other. Settings that no flag\n" +
			"gives are the agent's, if --agent is given, or else the trace's, except for the approval mode, which is\n" +
			"never taken from the trace. Without a file, or with -, the trace is read from standard input.",
		Example: "  braid trace import --model shell/demo saved.jsonl",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := errors.Join(o.check(cmd.Flags()), o.checkWhat()); err != nil {
				return err
			}
			in, err := openInput(cmd, args)
			if err != nil {
				return err
			}
			defer in.Close()
			return o.run(cmd.Context(), in, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.what.ID, "session", "", "`ID` of the new session (default: a generated one)")
	flags.StringVar(&o.what.Model, "model", "", "the model to continue with, as `PROVIDER/MODEL`")
	flags.StringVar(&o.what.Agent, "agent", "", "`NAME` of the agent to continue as, with its model, prompt, tools, approval mode and limits")
	flags.StringVar((*string)(&o.what.ApprovalMode), "approve", "", "approval `MODE` of tool calls from now on (default read-only)")
	flags.StringVar(&o.what.Workspace, "workspace", "", "the `DIRECTORY` that file tools work in from now on")
	flags.BoolVar(&o.what.Lenient, "lenient", false, "leave out an incomplete last line")
	for _, name := range []string{"session", "model", "agent", "approve", "workspace", "lenient"} {
		cli.OnlyTyped(flags, name) // what a run is told of its session says nothing about a trace
	}
	cli.Configure(cmd, cli.SectionRun)
	o.register(flags)
	completeFlag(cmd, "agent", agentNames)
	completeFlag(cmd, "model", modelNames)
	completeFlag(cmd, "approve", approvalModes)
	return cmd
}

// checkWhat refuses what no session can be made of.
func (o *importOptions) checkWhat() error {
	return checkSent(schemas.Command{
		Type: schemas.CommandImport, Session: schemas.SessionRef{ID: o.what.ID},
		Import: &schemas.ImportBody{Trace: "x", Model: o.what.Model, Agent: o.what.Agent, ApprovalMode: o.what.ApprovalMode, Workspace: o.what.Workspace},
	})
}

func (o *importOptions) run(ctx context.Context, in io.Reader, out, errOut io.Writer) (err error) {
	trace, err := io.ReadAll(in) // it may have to be sent twice
	if err != nil {
		return fmt.Errorf("read the trace: %w", err)
	}
	c, leave, err := o.reach(ctx, errOut)
	if err != nil {
		return err
	}
	defer cli.Close(&err, leave)
	made, err := c.Import(ctx, trace, o.what)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, made.ID())
	return nil
}
