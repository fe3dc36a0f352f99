package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"braid/internal/cli"
)

func configCommand() *cobra.Command {
	cmd := configOf(cli.SectionDev, new(cli.DevFlags).Register)
	cmd.Use, cmd.Short = "config [COMMAND] [flags of the command]", "Print the settings in force and where each comes from"
	cmd.Long = "Prints the settings that a command would run with, given the same flags, environment and configuration\n" +
		"file. COMMAND is engine, toolrunner, gateway, dev (the default) or run. The output is a configuration\n" +
		"file, including agents, models and rules; secrets are masked. Nothing is started, and only the types of\n" +
		"values are checked."
	cmd.Example = "  braid config gateway --config /etc/braid.yaml"
	cmd.AddCommand(
		configOf(cli.SectionEngine, new(cli.EngineFlags).Register),
		configOf(cli.SectionToolrunner, new(cli.ToolrunnerFlags).Register),
		configOf(cli.SectionGateway, new(cli.GatewayFlags).Register),
		configOf(cli.SectionDev, new(cli.DevFlags).Register),
		configOf(cli.SectionRun, new(runOptions).register),
	)
	return cmd
}

// configOf prints the settings of one command.
func configOf(section string, register func(*pflag.FlagSet)) *cobra.Command {
	cmd := &cobra.Command{
		Use:     section,
		Short:   "Print the settings of " + section,
		Long:    "Prints the settings that " + section + " would run with, given the same flags, environment and configuration file.",
		Example: "  braid config " + section + " --config braid.yaml",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cli.InForce(cmd, cmd.OutOrStdout()) },
	}
	register(cmd.Flags())
	cli.Configure(cmd, section)
	return cmd
}
