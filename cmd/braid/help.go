package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// This file is what --help prints.

// helpKey annotates flags with the heading that --help puts them under; most have none.
const helpKey = "braid_help"

// helpInProcess is the heading of what matters only without a server.
const helpInProcess = "Flags for running without a server"

// addFlags adds flags to others, under a heading.
func addFlags(to, flags *pflag.FlagSet, heading string) {
	flags.VisitAll(func(f *pflag.Flag) { _ = flags.SetAnnotation(f.Name, helpKey, []string{heading}) }) // they are all there
	to.AddFlagSet(flags)
}

// The groups of commands.
const (
	groupRun   = "run"
	groupLook  = "look"
	groupServe = "serve"
)

// addCommands makes the command line.
func addCommands(root *cobra.Command) {
	root.AddGroup(&cobra.Group{ID: groupRun, Title: "Run agents:"}, &cobra.Group{ID: groupLook, Title: "Inspect and decide:"},
		&cobra.Group{ID: groupServe, Title: "Serve and configure:"})
	for id, commands := range map[string][]*cobra.Command{
		groupRun:   {runCommand(), chatCommand()},
		groupLook:  {sessionsCommand(), traceCommand(), failuresCommand(), checkCommand(), agentsCommand(), modelsCommand(), toolsCommand(), decideCommand("approve"), decideCommand("deny")},
		groupServe: {devCommand(), configCommand()},
	} {
		for _, cmd := range commands {
			cmd.GroupID = id
			root.AddCommand(cmd)
		}
	}
	root.SetCompletionCommandGroupID(groupServe)
	root.SetHelpCommandGroupID(groupServe)
	root.SetUsageFunc(func(cmd *cobra.Command) error { return printUsage(cmd.OutOrStderr(), cmd) })
}

// onlyKey annotates commands that are nothing but the commands below them.
const onlyKey = "braid_only_commands"

// refuseUnknown has commands that are nothing but those below them refuse others: they would print their
// help and succeed, and a script that takes what is printed for what it asked for would run that.
func refuseUnknown(root *cobra.Command) {
	root.InitDefaultCompletionCmd() // else it is added later
	for _, cmd := range root.Commands() {
		if cmd.Runnable() {
			continue
		}
		cmd.Annotations = map[string]string{onlyKey: ""}
		cmd.Args = cobra.NoArgs
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
}

// printUsage prints how a command is used: what it is called with, examples, commands below it, and its
// flags by what they are about.
func printUsage(w io.Writer, cmd *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if _, only := cmd.Annotations[onlyKey]; cmd.Runnable() && !only {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, g := range append(cmd.Groups(), &cobra.Group{Title: "Commands:"}) {
		writeCommands(&b, cmd, g)
	}
	writeFlags(&b, cmd, "Flags", "")
	writeFlags(&b, cmd, helpInProcess, helpInProcess)
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s COMMAND --help\" for more information about a command.\n", cmd.CommandPath())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeCommands(b *strings.Builder, cmd *cobra.Command, g *cobra.Group) {
	title := "\n" + g.Title + "\n"
	for _, sub := range cmd.Commands() {
		if sub.GroupID == g.ID && sub.IsAvailableCommand() {
			fmt.Fprintf(b, "%s  %-*s  %s\n", title, cmd.NamePadding(), sub.Name(), sub.Short)
			title = ""
		}
	}
}

func writeFlags(b *strings.Builder, cmd *cobra.Command, title, heading string) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		of := ""
		if a := f.Annotations[helpKey]; len(a) > 0 {
			of = a[0]
		}
		if of == heading {
			flags.AddFlag(f)
		}
	})
	if flags.HasAvailableFlags() {
		fmt.Fprintf(b, "\n%s:\n%s", title, flags.FlagUsagesWrapped(100))
	}
}
