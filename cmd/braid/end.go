package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"braid/client"
	"braid/internal/cli"
	"braid/schemas"
)

// This file is "braid sessions abort" and "braid sessions delete".

func abortCommand() *cobra.Command {
	var reason string
	var all bool
	cmd := onPlace("sessions abort", &cobra.Command{
		Use:   "abort ID",
		Short: "Abort the running task of a session",
		Long: "Aborts the task that a session is running, as interrupting \"braid run\" does, and returns when it has\n" +
			"ended. The next queued task then starts, unless --drop-queue withdraws those as well. If no task is\n" +
			"running, the command fails.",
		Example: "  braid sessions abort 3f0c9a1e --reason 'wrong directory'",
		Args:    oneSession(),
	}, func(cmd *cobra.Command, c *client.Client, args []string) error {
		if err := abortTask(cmd.Context(), c.Session(args[0]), reason, all); err != nil {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), "aborted", args[0])
		return nil
	})
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the session's record")
	cmd.Flags().BoolVar(&all, "drop-queue", false, "also withdraw all queued tasks")
	cli.OnlyTyped(cmd.Flags(), "reason", "drop-queue")
	cmd.ValidArgsFunction = firstArgument(sessionIDs)
	return cmd
}

// abortTask ends the running task, and returns when it has ended: whoever leaves before leaves it to the
// next engine, and without a server that may be long.
func abortTask(ctx context.Context, s *client.Session, reason string, all bool) error {
	asked, aborting := false, false
	for event, err := range s.Stream(ctx, client.WatchOptions{}) {
		if err != nil {
			return err
		}
		switch e := event.(type) {
		case client.State: // the first event; what comes of the abort comes behind it
			if !asked {
				if err := s.Abort(ctx, reason, all); err != nil {
					return err
				}
			}
			asked = true
		case client.Message:
			switch e.Payload.(type) {
			case *schemas.Abort:
				aborting = true
			case *schemas.TaskEnd:
				if aborting && len(e.Origin) == 0 {
					return nil
				}
			}
		}
	}
	return ctx.Err()
}

func deleteCommand() *cobra.Command {
	var force bool
	cmd := onPlace("sessions delete", &cobra.Command{
		Use:   "delete ID...",
		Short: "Delete sessions permanently",
		Long: "Deletes sessions and everything recorded about them. This can't be undone; to keep a copy, run\n" +
			"\"braid trace export\" first. A session that is running a task is deleted only with --force, which aborts\n" +
			"the task.",
		Example: "  braid trace export 3f0c9a1e > saved.jsonl && braid sessions delete 3f0c9a1e",
		Args:    cobra.MatchAll(cobra.MinimumNArgs(1), func(cmd *cobra.Command, args []string) error { return sessionNames(len(args))(cmd, args) }),
	}, func(cmd *cobra.Command, c *client.Client, args []string) error {
		for _, id := range args {
			if err := deleteSession(cmd.Context(), c.Session(id), force); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "deleted", id)
		}
		return nil
	})
	cmd.Flags().BoolVar(&force, "force", false, "delete sessions that are running a task, too")
	cli.OnlyTyped(cmd.Flags(), "force")
	cmd.ValidArgsFunction = sessionIDs
	return cmd
}

// deleteSession deletes a session, and returns when it is gone.
func deleteSession(ctx context.Context, s *client.Session, force bool) error {
	err := s.Delete(ctx, force)
	if err == nil {
		err = awaitGone(ctx, s)
	}
	if client.IsCode(err, schemas.CodeTaskInProgress) {
		return fmt.Errorf("delete %s: %w (--force aborts it first)", s.ID(), err)
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", s.ID(), err)
	}
	return nil
}

// lookAgain is how long to wait before another look at what is to change, at first and at most.
const lookAgain, lookAgainAtMost = 20 * time.Millisecond, time.Second

// awaitGone returns when a session is no more for anybody who asks. It is asked for, not followed: a stream
// ends with the session's last word, and what is recorded is removed after that.
func awaitGone(ctx context.Context, s *client.Session) error {
	for wait := lookAgain; ; wait = min(2*wait, lookAgainAtMost) {
		_, err := s.Info(ctx)
		switch {
		case client.IsCode(err, schemas.CodeDeleted) || client.IsCode(err, schemas.CodeUnknownSession):
			return nil
		case err != nil:
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
