package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"braid/bus"
	"braid/client"
	"braid/schemas"
)

// This file is "braid agents", "braid models" and "braid tools": what there is to run, on what, and with
// what.

func agentsCommand() *cobra.Command {
	var list *listing
	cmd := onPlace(&cobra.Command{
		Use:   "agents",
		Short: "List the agents that sessions can run",
		Long: "Lists the project's agents, by name: the model they run on, who decides on their tool calls, and the\n" +
			"tools they may use (all, if none are named). They come from configuration files and the HTTP API.",
		Example: "  braid agents\n  braid chat --agent reviewer",
		Args:    cobra.NoArgs,
	}, func(cmd *cobra.Command, c *client.Client, _ []string) error {
		agents, err := c.Agents(cmd.Context())
		if err != nil {
			return err
		}
		for _, a := range agents {
			tools := strings.Join(a.Tools, " ")
			if a.Tools == nil {
				tools = "all"
			}
			mode := cmp.Or(a.ApprovalMode, schemas.ApproveReadOnly)
			if err := list.add(cmd.OutOrStdout(), a, a.Name, a.Model, string(mode), shorten(tools, 80)); err != nil {
				return err
			}
		}
		return list.finish(cmd.OutOrStdout())
	})
	list = newListing(cmd.Flags(), "AGENT", "MODEL", "APPROVAL", "TOOLS")
	return cmd
}

func modelsCommand() *cobra.Command {
	var list *listing
	cmd := onPlace(&cobra.Command{
		Use:   "models",
		Short: "List the models that sessions can run on",
		Long: "Lists models as provider/model, as --model takes them, with what a million tokens cost where a price\n" +
			"is known. A provider may serve more models than it lists; those it does not list stand as provider/*.",
		Example: "  braid models\n  braid models --models providers.yaml --json",
		Args:    cobra.NoArgs,
	}, func(cmd *cobra.Command, c *client.Client, _ []string) error {
		models, err := c.Models(cmd.Context())
		if err != nil {
			return err
		}
		for _, m := range withProviders(models) {
			cells := []string{m.Name}
			if p := m.Price; p != nil {
				cells = append(cells, dollars(p.Input), dollars(p.Output), dollars(p.CacheRead))
			}
			if err := list.add(cmd.OutOrStdout(), m, cells...); err != nil {
				return err
			}
		}
		return list.finish(cmd.OutOrStdout())
	})
	list = newListing(cmd.Flags(), "MODEL", "INPUT", "OUTPUT", "CACHED")
	return cmd
}

// withProviders adds a line for each provider that lists no model.
func withProviders(list bus.ModelList) []bus.ModelInfo {
	all := slices.Clone(list.Models)
	for _, p := range list.Providers {
		if !slices.ContainsFunc(list.Models, func(m bus.ModelInfo) bool { return strings.HasPrefix(m.Name, p+"/") }) {
			all = append(all, bus.ModelInfo{Name: p + "/*"})
		}
	}
	return all
}

func toolsCommand() *cobra.Command {
	var list *listing
	cmd := onPlace(&cobra.Command{
		Use:   "tools",
		Short: "List the tools that models can use",
		Long: "Lists the tools that toolrunners offer now: r may only look, rw may change things. A tool that two\n" +
			"toolrunners define differently is told of on standard error.",
		Example: "  braid tools\n  braid tools --json      # with the schemas of their arguments",
		Args:    cobra.NoArgs,
	}, func(cmd *cobra.Command, c *client.Client, _ []string) error {
		found, err := c.Tools(cmd.Context())
		if err != nil {
			return err
		}
		for _, x := range found.Conflicts {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s is defined differently by %s, whose definition counts, and %s\n", x.Tool, x.Used, x.Ignored)
		}
		for _, t := range found.Tools {
			t = t.WithDefaults()
			if err := list.add(cmd.OutOrStdout(), t, t.Name, string(t.Permission), t.Pool, shorten(t.Description, 80)); err != nil {
				return err
			}
		}
		return list.finish(cmd.OutOrStdout())
	})
	list = newListing(cmd.Flags(), "TOOL", "MAY", "POOL", "DOES")
	return cmd
}
