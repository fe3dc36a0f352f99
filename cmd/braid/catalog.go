package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"braid/bus"
	"braid/client"
	"braid/engine"
	"braid/internal/cli"
	"braid/schemas"
	"braid/toolrunner"
)

// This file is "braid agents", "braid models" and "braid tools": what there is to run, on what, and with
// what.

func agentsCommand() *cobra.Command {
	var list *listing
	var configured cli.AgentFlag
	p := at("agents")
	cmd := p.command(&cobra.Command{
		Use:   "agents",
		Short: "List the agents that sessions can run",
		Long: "Lists the project's agents, sorted by name, each with its model, its approval mode, and the tools it may\n" +
			"use (all, unless it names some). Agents are defined in configuration files or over the HTTP API.",
		Example: "  braid agents\n  braid chat --agent reviewer",
		Args:    cobra.NoArgs,
	}, func(cmd *cobra.Command, c *client.Client, _ []string) error {
		agents, err := c.Agents(cmd.Context())
		if err != nil {
			return err
		}
		if p.server.url == "" { // what is configured is stored when something is run
			stored := agents
			if agents, err = configured.Load(); err != nil {
				return err
			}
			agents = withStored(agents, stored)
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
	}, configured.Register)
	list = newListing(cmd.Flags(), "AGENT", "MODEL", "APPROVAL", "TOOLS")
	return cmd
}

// withStored adds the stored agents to those that take the place of some of them.
func withStored(agents, stored []schemas.Agent) []schemas.Agent {
	for _, s := range stored {
		if !slices.ContainsFunc(agents, func(a schemas.Agent) bool { return a.Name == s.Name }) {
			agents = append(agents, s)
		}
	}
	slices.SortFunc(agents, func(a, b schemas.Agent) int { return cmp.Compare(a.Name, b.Name) })
	return agents
}

// askOr makes a command of a question to the server, if one is named, or else to the flags of a process.
func askOr[T any](cmd *cobra.Command, ask func(*client.Client, context.Context) (T, error), own func(*cobra.Command) (T, error),
	show func(*cobra.Command, T) error, flags func(*pflag.FlagSet),
) *cobra.Command {
	var server serverFlags
	server.register(cmd.Flags())
	inProcess := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags(inProcess)
	addFlags(cmd.Flags(), inProcess, helpInProcess)
	cli.Configure(cmd, cli.SectionRun)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := server.reach(cmd.Context())
		if err != nil {
			return err
		}
		var answer T
		if c == nil {
			answer, err = own(cmd)
		} else {
			defer c.Close()
			answer, err = ask(c, cmd.Context())
		}
		if err != nil {
			return err
		}
		return show(cmd, answer)
	}
	return cmd
}

func modelsCommand() *cobra.Command {
	var list *listing
	var models cli.ModelFlags
	var logs cli.LogFlags
	cmd := askOr(&cobra.Command{
		Use:   "models",
		Short: "List the models that sessions can run on",
		Long: "Lists models in the form that --model takes, provider/model, with their prices per million tokens where\n" +
			"known. A provider that serves more models than it lists is shown as provider/* as well.",
		Example: "  braid models\n  braid models --models providers.yaml --json",
		Args:    cobra.NoArgs,
	}, (*client.Client).Models, func(cmd *cobra.Command) (bus.ModelList, error) {
		return ownModels(cmd, models, logs)
	}, func(cmd *cobra.Command, models bus.ModelList) error {
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
	}, func(flags *pflag.FlagSet) {
		models.Register(flags)
		registerQuietLogs(&logs, flags)
	})
	list = newListing(cmd.Flags(), "MODEL", "INPUT", "OUTPUT", "CACHED")
	return cmd
}

// ownModels are what an engine in this process could run.
func ownModels(cmd *cobra.Command, models cli.ModelFlags, logs cli.LogFlags) (list bus.ModelList, err error) {
	log, err := cli.Logger(logs, cmd.ErrOrStderr())
	if err != nil {
		return list, err
	}
	prices, err := models.PriceList()
	if err != nil {
		return list, err
	}
	catalog, err := models.Catalog(os.Getenv, log)
	if err != nil {
		return list, err
	}
	defer cli.Close(&err, func() error { return catalog.Close(cmd.Context()) })
	return engine.ListModels(catalog, prices), nil
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
	var tools cli.ToolFlag
	cmd := askOr(&cobra.Command{
		Use:   "tools",
		Short: "List the tools that models can use",
		Long: "Lists the tools that toolrunners offer at the moment. Tools marked r only read; those marked rw may\n" +
			"change things. If two toolrunners define a tool differently, a warning goes to standard error.",
		Example: "  braid tools\n  braid tools --json      # with the schemas of their arguments",
		Args:    cobra.NoArgs,
	}, (*client.Client).Tools, func(*cobra.Command) (client.ToolList, error) {
		return ownTools(tools)
	}, func(cmd *cobra.Command, found client.ToolList) error {
		for _, x := range found.Conflicts {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s is defined differently by %s, whose definition is used, and by %s\n", x.Tool, x.Used, x.Ignored)
		}
		for _, t := range found.Tools {
			t = t.WithDefaults()
			if err := list.add(cmd.OutOrStdout(), t, t.Name, string(t.Permission), t.Pool, shorten(t.Description, 80)); err != nil {
				return err
			}
		}
		return list.finish(cmd.OutOrStdout())
	}, tools.Register)
	list = newListing(cmd.Flags(), "TOOL", "MAY", "POOL", "DOES")
	return cmd
}

// ownTools are what a toolrunner in this process would offer.
func ownTools(flag cli.ToolFlag) (list client.ToolList, err error) {
	if err := flag.Check(); err != nil {
		return list, err
	}
	tools, done, err := flag.Tools(toolrunner.ExecOptions{})
	if err != nil {
		return list, err
	}
	for _, t := range tools {
		list.Tools = append(list.Tools, t.Definition)
	}
	slices.SortFunc(list.Tools, func(a, b schemas.ToolDefinition) int { return cmp.Compare(a.Name, b.Name) })
	return list, done()
}
