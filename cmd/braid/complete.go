package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"braid/client"
	"braid/internal/cli"
	"braid/schemas"
)

// This file is what shells complete besides commands and flags. Names come from the server, if one is
// named; nothing is started to find out, and a server that is slow or gone completes nothing.

// completer proposes what an argument or a flag's value may be.
type completer = cobra.CompletionFunc

// completeBound is how long a person may have to wait for a proposal.
const completeBound = time.Second

// completeFlag registers what a flag's value may be.
func completeFlag(cmd *cobra.Command, flag string, c completer) {
	if err := cmd.RegisterFlagCompletionFunc(flag, c); err != nil {
		panic(err) // there is no such flag
	}
}

// words completes to a fixed choice.
func words(choice ...string) completer {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return choice, cobra.ShellCompDirectiveNoFileComp
	}
}

// wordList completes the last of several words, with commas between them, to those that are not there yet.
func wordList(choice ...string) completer {
	return func(_ *cobra.Command, _ []string, typed string) (all []string, _ cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		for _, word := range choice {
			if !slices.Contains(strings.Split(before, ","), word) {
				all = append(all, before+word)
			}
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

// approvalModes completes to who may decide on tool calls.
func approvalModes(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return words(string(schemas.ApproveReadOnly), string(schemas.ApproveAsk), string(schemas.ApproveAll), string(schemas.ApproveNone))(cmd, args, typed)
}

// firstArgument has only the first argument completed.
func firstArgument(c completer) completer {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c(cmd, args, typed)
	}
}

// fromServer completes to what a server says.
func fromServer(ask func(ctx context.Context, c *client.Client) []string) completer {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		if err := cli.Resolve(cmd, os.Environ()); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		server := serverFlags{url: cmd.Flag("server").Value.String(), token: cmd.Flag("token").Value.String()}
		c := server.client()
		if c == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), completeBound)
		defer cancel()
		return ask(ctx, c), cobra.ShellCompDirectiveNoFileComp
	}
}

// mostProposed bounds how many sessions are proposed: the latest are.
const mostProposed = 50

func sessionIDs(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return fromServer(func(ctx context.Context, c *client.Client) (ids []string) {
		for info, err := range c.Sessions(ctx, client.SessionsOptions{}) {
			if err != nil || len(ids) == mostProposed {
				break
			}
			ids = append(ids, cobra.CompletionWithDesc(info.ID, strings.TrimSpace(string(info.State)+" "+shorten(info.Title, 40))))
		}
		return ids
	})(cmd, args, typed)
}

func modelNames(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return fromServer(func(ctx context.Context, c *client.Client) (names []string) {
		list, err := c.Models(ctx)
		if err != nil {
			return nil
		}
		for _, m := range list.Models {
			names = append(names, m.Name)
		}
		return names
	})(cmd, args, typed)
}

func agentNames(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return fromServer(func(ctx context.Context, c *client.Client) (names []string) {
		agents, err := c.Agents(ctx)
		if err != nil {
			return nil
		}
		for _, a := range agents {
			names = append(names, cobra.CompletionWithDesc(a.Name, a.Model))
		}
		return names
	})(cmd, args, typed)
}
