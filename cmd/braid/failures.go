package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"braid/bus"
	"braid/client"
	"braid/internal/cli"
)

// This file is "braid failures".

func failuresCommand() *cobra.Command {
	var wanted client.FailuresOptions
	var since string
	var kinds []string
	var limit int
	var list *listing
	cmd := onPlace("failures", &cobra.Command{
		Use:   "failures",
		Short: "List what failed: tasks, model requests, tool calls",
		Long: "Lists what failed in the sessions of a server, or of a data directory that no other process is using, most\n" +
			"recent first. WHAT is a task, a model request (which is usually tried again), a tool call or a compaction, and\n" +
			"the tool or the session's model. What a person aborted or denied is not listed, nor are failures of deleted\n" +
			"sessions.",
		Example: "  braid failures --since 24h\n" +
			"  braid failures --kind task              # only tasks\n" +
			"  braid trace show ID                     # what happened in that session",
		Args: cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) (err error) {
			if wanted.Since, err = parseSince(since, time.Now()); err != nil {
				return cli.Usage("--since: %v", err)
			}
			for _, kind := range kinds {
				if !slices.Contains(failureKinds(), kind) {
					return cli.Usage("--kind must be of %s, not %q", strings.Join(failureKinds(), ", "), kind)
				}
				wanted.Kinds = append(wanted.Kinds, bus.FailureKind(kind))
			}
			if limit < 0 {
				return cli.Usage("--limit must be 0 or more")
			}
			return nil
		},
	}, func(cmd *cobra.Command, c *client.Client, _ []string) error {
		return listFailures(cmd, c, wanted, limit, list)
	})
	flags := cmd.Flags()
	flags.StringSliceVar(&kinds, "kind", nil, "only failures of these kinds: "+strings.Join(failureKinds(), ", "))
	flags.StringVar(&since, "since", "", "only failures since a `TIME`: a day, an RFC 3339 time, or a duration before now, such as 24h")
	flags.IntVar(&limit, "limit", 50, "the maximum number of failures to list; 0 for all")
	list = newListing(flags, "TIME", "SESSION", "WHAT", "", "STATUS", "MESSAGE")
	cli.OnlyTyped(flags, "kind", "since", "limit")
	completeFlag(cmd, "kind", wordList(failureKinds()...))
	return cmd
}

// failureKinds are the kinds of failures, as words.
func failureKinds() (all []string) {
	for _, kind := range bus.FailureKinds() {
		all = append(all, string(kind))
	}
	return all
}

func listFailures(cmd *cobra.Command, c *client.Client, wanted client.FailuresOptions, limit int, list *listing) error {
	return printFirst(cmd, c.Failures(cmd.Context(), wanted), limit, list, "no failures", func(f bus.Failure) []string {
		return []string{localTime(f.Time), f.Session, string(f.Kind), cmp.Or(f.Tool, f.Model), string(f.Status), shorten(f.Message, 80)}
	})
}
