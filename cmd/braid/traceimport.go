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
		Short: "Make a session of a trace",
		Long: "Makes a session of a trace, JSON Lines, that can go on like any other: on a server, or in a data\n" +
			"directory that no process uses. Prints the session's id. What is left out is as the agent, if one is\n" +
			"named, or else the trace has it; the approval mode is not taken from the trace.",
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
	flags.StringVar(&o.what.ID, "session", "", "id of the session (default: a new one)")
	flags.StringVar(&o.what.Model, "model", "", "provider/model to go on with")
	flags.StringVar(&o.what.Agent, "agent", "", "agent to go on as: its model, prompt, tools, mode and limits")
	flags.StringVar((*string)(&o.what.ApprovalMode), "approve", "", "who decides on tool calls from now on (default read-only)")
	flags.StringVar(&o.what.Workspace, "workspace", "", "where tools that touch files run from now on")
	flags.BoolVar(&o.what.Lenient, "lenient", false, "leave out a last line that is torn")
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
