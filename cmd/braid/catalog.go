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
	var json bool
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
		rows := newTable("AGENT", "MODEL", "APPROVAL", "TOOLS")
		for _, a := range agents {
			if json {
				if err := printObject(cmd.OutOrStdout(), a); err != nil {
					return err
				}
				continue
			}
			tools := strings.Join(a.Tools, " ")
			if a.Tools == nil {
				tools = "all"
			}
			rows.row(a.Name, a.Model, cmp.Or(string(a.ApprovalMode), string(schemas.ApproveReadOnly)), shorten(tools, 80))
		}
		if json {
			return nil
		}
		return rows.print(cmd.OutOrStdout())
	})
	cmd.Flags().BoolVar(&json, "json", false, "print one JSON object a line")
	return cmd
}

func modelsCommand() *cobra.Command {
	var json bool
	cmd := onPlace(&cobra.Command{
		Use:   "models",
		Short: "List the models that sessions can run on",
		Long: "Lists models as provider/model, as --model takes them, with what a million tokens cost where a price\n" +
			"is known. A provider may serve more models than it lists; those it does not list stand as provider/*.",
		Example: "  braid models\n  braid models --models providers.yaml --json",
		Args:    cobra.NoArgs,
	}, func(cmd *cobra.Command, c *client.Client, _ []string) error {
		list, err := c.Models(cmd.Context())
		if err != nil {
			return err
		}
		if json {
			return printModels(cmd, list)
		}
		rows := newTable("MODEL", "INPUT", "OUTPUT", "CACHED")
		for _, m := range withProviders(list) {
			if p := m.Price; p != nil {
				rows.row(m.Name, dollars(p.Input), dollars(p.Output), dollars(p.CacheRead))
			} else {
				rows.row(m.Name)
			}
		}
		return rows.print(cmd.OutOrStdout())
	})
	cmd.Flags().BoolVar(&json, "json", false, "print one JSON object a line")
	return cmd
}

func printModels(cmd *cobra.Command, list bus.ModelList) error {
	for _, m := range withProviders(list) {
		if err := printObject(cmd.OutOrStdout(), m); err != nil {
			return err
		}
	}
	return nil
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
	var json bool
	cmd := onPlace(&cobra.Command{
		Use:   "tools",
		Short: "List the tools that models can use",
		Long: "Lists the tools that toolrunners offer now: r may only look, rw may change things. A tool that two\n" +
			"toolrunners define differently is told of on standard error.",
		Example: "  braid tools\n  braid tools --json      # with the schemas of their arguments",
		Args:    cobra.NoArgs,
	}, func(cmd *cobra.Command, c *client.Client, _ []string) error {
		list, err := c.Tools(cmd.Context())
		if err != nil {
			return err
		}
		for _, x := range list.Conflicts {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s is defined differently by %s, whose definition counts, and %s\n", x.Tool, x.Used, x.Ignored)
		}
		rows := newTable("TOOL", "MAY", "POOL", "DOES")
		for _, t := range list.Tools {
			if t = t.WithDefaults(); json {
				if err := printObject(cmd.OutOrStdout(), t); err != nil {
					return err
				}
				continue
			}
			rows.row(t.Name, string(t.Permission), t.Pool, shorten(t.Description, 80))
		}
		if json {
			return nil
		}
		return rows.print(cmd.OutOrStdout())
	})
	cmd.Flags().BoolVar(&json, "json", false, "print one JSON object a line")
	return cmd
}
