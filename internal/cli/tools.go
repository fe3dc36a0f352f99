package cli

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"braid/toolrunner"
	"braid/toolrunner/files"
)

// ToolFlag says which of the built-in tools to offer.
type ToolFlag struct{ names []string }

// builtIn are the built-in tools, in the order people are told of them.
func builtIn() []string {
	return []string{toolrunner.ExecCommandName, files.ReadName, files.WriteName, files.EditName, files.ListName, files.SearchName}
}

// Register adds the flag to a command.
func (f *ToolFlag) Register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.names, "tools", builtIn(), "the tools to offer, separated by commas")
}

// Check finds names of tools that there are not.
func (f *ToolFlag) Check() error {
	for _, name := range f.names {
		if !slices.Contains(builtIn(), name) {
			return Usage("--tools: there is no tool %q; there are: %s", name, strings.Join(builtIn(), ", "))
		}
	}
	if len(f.names) == 0 {
		return Usage("--tools names no tool")
	}
	return nil
}

// Tools makes the tools that the flag names. All of them work in the directory of the options. The
// function closes them; no call may run then.
func (f *ToolFlag) Tools(options toolrunner.ExecOptions) ([]toolrunner.Tool, func() error, error) {
	all := files.Tools(files.Options{Dir: options.Dir})
	done := func() error { return nil }
	if slices.Contains(f.names, toolrunner.ExecCommandName) {
		exec, err := toolrunner.NewExec(options)
		if err != nil {
			return nil, nil, err
		}
		all, done = append(all, exec.Tool()), exec.Close
	}
	return slices.DeleteFunc(all, func(t toolrunner.Tool) bool {
		return !slices.Contains(f.names, t.Definition.Name)
	}), done, nil
}
