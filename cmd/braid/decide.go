package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"braid/bus"
	"braid/client"
	"braid/internal/cli"
)

// This file is "braid approve" and "braid deny": a decision from outside of the program that shows the
// session.

// decideCommand makes the command of a name, approve or deny.
func decideCommand(name string) *cobra.Command {
	verb, done := "Let a tool call run", "approved"
	if name == "deny" {
		verb, done = "Forbid a tool call", "denied"
	}
	var server serverFlags
	cmd := &cobra.Command{
		Use:   name + " SESSION CALL",
		Short: verb + " that waits for a decision",
		Long: verb + " that waits for a person's decision, and print the call. \"braid sessions show SESSION\"\n" +
			"lists the calls that wait. This command needs a server; without one, use \"braid chat --session\".",
		Example: "  braid sessions --state waiting\n  braid sessions show 3f0c9a1e\n  braid " + name + " 3f0c9a1e 3f0c9a1e-1",
		Args:    cobra.MatchAll(cobra.ExactArgs(2), sessionNames(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := server.client()
			if c == nil {
				return cli.Usage("--server is required: without a server, no session is running that could wait for a decision")
			}
			defer c.Close()
			call, err := decideOn(cmd.Context(), c.Session(args[0]), args[1], name == "approve")
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), done, call.Name, escapeControls(call.Arguments, ""))
			return nil
		},
	}
	server.register(cmd.Flags())
	cli.Configure(cmd, cli.SectionRun)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return sessionIDs(cmd, args, typed)
		case 1:
			return pendingCalls(args[0])(cmd, args, typed)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// decideOn decides on a call as it is now, and returns what it was.
func decideOn(ctx context.Context, s *client.Session, id string, allow bool) (bus.PendingApproval, error) {
	info, err := s.Info(ctx)
	if err != nil {
		return bus.PendingApproval{}, err
	}
	call := bus.PendingApproval{ToolCallID: id} // if it does not wait the server says so
	if i := slices.IndexFunc(info.Pending, func(p bus.PendingApproval) bool { return p.ToolCallID == id }); i >= 0 {
		call = info.Pending[i]
	}
	if allow {
		return call, s.Approve(ctx, id, call.Hash)
	}
	return call, s.Deny(ctx, id, call.Hash)
}

// pendingCalls completes to the calls of a session that wait.
func pendingCalls(session string) completer {
	return fromServer(func(ctx context.Context, c *client.Client) (ids []string) {
		info, err := c.Session(session).Info(ctx)
		if err != nil {
			return nil
		}
		for _, p := range info.Pending {
			ids = append(ids, cobra.CompletionWithDesc(p.ToolCallID, p.Name+" "+shorten(p.Arguments, 60)))
		}
		return ids
	})
}
