package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"braid/bus"
	"braid/client"
	"braid/internal/cli"
	"braid/schemas"
)

// This file is "braid sessions".

func sessionsCommand() *cobra.Command {
	var wanted client.SessionsOptions
	var since string
	var ended []string
	var limit int
	var list *listing
	cmd := onPlace("sessions", &cobra.Command{
		Use:   "sessions",
		Short: "List, show, abort and delete sessions",
		Long: "Lists the sessions of a server, or of a data directory that no other process is using, most recently\n" +
			"active first. STATE is idle, running, or waiting (for a person to decide on a tool call). ENDED is how the\n" +
			"last task ended: completed, failed, aborted, timeout, malformed (the model's answer was not valid) or\n" +
			"auth (the provider refused the credentials).",
		Example: "  braid sessions\n" +
			"  braid sessions --state waiting          # those that wait for a person\n" +
			"  braid sessions --task-status failed,timeout,malformed,auth   # those that went wrong\n" +
			"  braid sessions --since 24h --json       # as JSON, one object per line",
		Args: cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) (err error) {
			if wanted.CreatedSince, err = parseSince(since, time.Now()); err != nil {
				return cli.Usage("--since: %v", err)
			}
			for _, status := range ended {
				wanted.TaskStatus = append(wanted.TaskStatus, schemas.StopReason(status))
			}
			if limit < 0 {
				return cli.Usage("--limit must be 0 or more")
			}
			return checkWanted(wanted)
		},
	}, func(cmd *cobra.Command, c *client.Client, _ []string) error {
		return listSessions(cmd, c, wanted, limit, list)
	})
	flags := cmd.Flags()
	flags.StringVar((*string)(&wanted.State), "state", "", "only sessions in this `STATE`: idle, running or waiting")
	flags.StringVar(&wanted.Agent, "agent", "", "only sessions of the agent `NAME`")
	flags.StringVar(&wanted.Model, "model", "", "only sessions created for this model, as `PROVIDER/MODEL`")
	flags.StringSliceVar(&ended, "task-status", nil, "only sessions whose last task ended in one of these ways, such as failed,timeout")
	flags.StringVar(&since, "since", "", "only sessions created since a `TIME`: a day, an RFC 3339 time, or a duration before now, such as 24h")
	flags.IntVar(&limit, "limit", 50, "the maximum number of sessions to list; 0 for all")
	list = newListing(flags, "ID", "STATE", "MODEL", "AGENT", "TASKS", "ENDED", "TOKENS", "COST", "ACTIVE", "TITLE")
	cli.OnlyTyped(flags, "state", "agent", "model", "task-status", "since", "limit")
	completeFlag(cmd, "state", words("idle", "running", "waiting"))
	completeFlag(cmd, "task-status", wordList(statuses()...))
	completeFlag(cmd, "agent", agentNames)
	completeFlag(cmd, "model", modelNames)
	cmd.AddCommand(showSessionCommand(), abortCommand(), deleteCommand())
	return cmd
}

// statuses are all the ways in which tasks end.
func statuses() (all []string) {
	for _, status := range schemas.StopReasons() {
		all = append(all, string(status))
	}
	return all
}

// checkWanted refuses what no session can be.
func checkWanted(wanted client.SessionsOptions) error {
	if wanted.State != "" {
		if _, err := bus.ParseSessionState(string(wanted.State)); err != nil {
			return cli.Usage("--state: %v", err)
		}
	}
	for _, status := range wanted.TaskStatus {
		if !slices.Contains(schemas.StopReasons(), status) {
			return cli.Usage("--task-status must be of %s, not %q", strings.Join(statuses(), ", "), status)
		}
	}
	if wanted.Agent != "" {
		if err := schemas.ValidateName("agent", wanted.Agent); err != nil {
			return cli.Usage("--agent: %v", err)
		}
	}
	if wanted.Model != "" {
		if _, _, err := schemas.SplitModel(wanted.Model); err != nil {
			return cli.Usage("--model: %v", err)
		}
	}
	return nil
}

// sessionNames refuses arguments that are no names of sessions, of which the first are to be some.
func sessionNames(first int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		for _, id := range args[:min(first, len(args))] {
			if err := schemas.ValidateName("session", id); err != nil {
				return err
			}
		}
		return nil
	}
}

// oneSession is the argument of commands on a session.
func oneSession() cobra.PositionalArgs {
	return cobra.MatchAll(cobra.ExactArgs(1), sessionNames(1))
}

// parseSince reads a point in time, which may be told from now back.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	if day, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return day, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	return time.Time{}, fmt.Errorf("%q is neither a day such as 2006-01-31, nor a time such as 2006-01-31T15:04:05Z, nor a duration such as 24h", text)
}

func listSessions(cmd *cobra.Command, c *client.Client, wanted client.SessionsOptions, limit int, list *listing) error {
	return printFirst(cmd, c.Sessions(cmd.Context(), wanted), limit, list, "no sessions", func(info client.Info) []string {
		return []string{
			info.ID, string(info.State), info.Model, info.Agent, strconv.Itoa(info.Tasks), string(info.TaskStatus), strconv.FormatInt(info.TotalTokens, 10),
			dollars(info.TotalCostUSD), localTime(info.LastActivity), shorten(info.Title, 50),
		}
	})
}

func showSessionCommand() *cobra.Command {
	var json bool
	cmd := onPlace("sessions show", &cobra.Command{
		Use:     "show ID",
		Short:   "Show a session's settings, state and usage",
		Long:    "Shows a session's settings, its state, the tasks and tool calls that wait, and what it has used.\nFor its messages, see \"braid trace show ID\".",
		Example: "  braid sessions show 3f0c9a1e",
		Args:    oneSession(),
	}, func(cmd *cobra.Command, c *client.Client, args []string) error {
		info, err := c.Session(args[0]).Info(cmd.Context())
		if err != nil {
			return err
		}
		if json {
			return printObject(cmd.OutOrStdout(), info)
		}
		return showSession(cmd.OutOrStdout(), info)
	})
	cmd.Flags().BoolVar(&json, "json", false, "print a JSON object")
	cmd.ValidArgsFunction = firstArgument(sessionIDs)
	return cmd
}

func showSession(w io.Writer, info client.Info) error {
	f := &table{}
	f.fact("session", info.ID)
	f.fact("title", shorten(info.Title, 100))
	f.fact("state", string(info.State))
	f.fact("model", info.Model)
	f.fact("running on", info.ActiveModel)
	f.fact("fallbacks", strings.Join(info.FallbackModels, ", "))
	f.fact("agent", info.Agent)
	f.fact("approval", string(info.ApprovalMode))
	if info.ApprovalTimeoutMS > 0 {
		f.fact("decided within", (time.Duration(info.ApprovalTimeoutMS) * time.Millisecond).String())
	}
	f.fact("created", localTime(info.Created))
	f.fact("active", localTime(info.LastActivity))
	f.fact("last task", lastTask(info))
	f.fact("used", usage(info))
	for _, p := range info.Pending {
		f.fact("waiting for you", p.ToolCallID+": "+p.Name+" "+p.Arguments)
	}
	for _, q := range info.Queue {
		f.fact("queued", q.TaskID+": "+shorten(q.Prompt, 80))
	}
	return f.write(w)
}

// lastTask tells how the last task ended, and why, unless the one says the other.
func lastTask(info client.Info) string {
	if info.TaskCause == "" || info.TaskCause == schemas.CauseDone {
		return string(info.TaskStatus)
	}
	return fmt.Sprintf("%s (%s)", info.TaskStatus, info.TaskCause)
}

// usage tells in a line what a session used.
func usage(info client.Info) string {
	line := fmt.Sprintf("%s, %s, %s", count(info.Tasks, "task"), count(info.Turns, "turn"), count(info.TotalTokens, "token"))
	if info.TotalCostUSD > 0 {
		line += ", " + dollars(info.TotalCostUSD)
	}
	return line
}

// count is a number of things.
func count[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.FormatInt(int64(n), 10) + " " + thing + "s"
}
