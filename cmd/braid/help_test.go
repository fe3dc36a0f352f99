package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"braid/internal/cli"
)

// noJSON are the commands without --json, and why.
var noJSON = map[string]string{
	"braid":                 "it does nothing itself",
	"braid trace":           "it does nothing itself",
	"braid trace export":    "a trace is JSON Lines",
	"braid trace import":    "it prints an id",
	"braid dev":             "it prints a URL",
	"braid config":          "it prints a configuration file",
	"braid approve":         "it prints what it did",
	"braid deny":            "it prints what it did",
	"braid sessions abort":  "it prints what it did",
	"braid sessions delete": "it prints what it did",
}

// Whoever asks a command for help learns what it is for and sees it used; what prints data prints it
// for programs as well.
func TestEveryCommandIsExplained(t *testing.T) {
	root := newRoot()
	root.SetArgs([]string{})
	root.SetOut(io.Discard)
	if _, err := root.ExecuteC(); err != nil { // cobra adds its own commands now
		t.Fatal(err)
	}
	seen := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		if cmd.Name() == "help" || cmd.Name() == "completion" || cmd.Hidden { // cobra's
			return
		}
		seen++
		if cmd.Short == "" || cmd.Long == "" || cmd.Example == "" {
			t.Errorf("%s lacks its line, its explanation or an example", path)
		}
		for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
			if len([]rune(line)) > 121 {
				t.Errorf("%s: a line of %d characters: %s", path, len(line), line)
			}
		}
		for line := range strings.Lines(cmd.Example) {
			if line = strings.TrimSpace(line); !strings.Contains(cmd.Example, "braid ") {
				t.Errorf("%s: the example is of something else: %s", path, line)
			}
		}
		reason, exempt := noJSON[path]
		if parent := cmd.Parent(); parent != nil && parent.CommandPath() == "braid config" {
			return // its flags are settings to tell of
		}
		if has := cmd.Flags().Lookup("json") != nil; has == exempt {
			t.Errorf("%s: has --json: %t; the reason to have none: %q", path, has, reason)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
	if seen < 15 {
		t.Errorf("only %d commands were looked at", seen)
	}
}

// The flags of a process that there may not be stand apart, below those that always count.
func TestHelpSortsFlags(t *testing.T) {
	code, help, _ := braid(t, "sessions", "--help")
	first, rest, found := strings.Cut(help, helpInProcess+":")
	if code != cli.ExitOK || !found || !strings.Contains(first, "--server") || !strings.Contains(rest, "--data") || strings.Contains(first, "--data") {
		t.Errorf("%d: %s", code, help)
	}
	if !strings.Contains(first, "Examples:\n  braid sessions\n") || !strings.Contains(first, "\n  abort ") {
		t.Errorf("no examples, or no commands below it: %s", first)
	}
}

func TestUnknownCommandsAreRefused(t *testing.T) {
	for _, above := range []string{"trace", "completion", "sessions", "config"} {
		if code, stdout, stderr := braid(t, above, "nonsense"); code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, `unknown command "nonsense"`) {
			t.Errorf("%s: %d %q %q", above, code, stdout, stderr)
		}
		if above == "trace" || above == "completion" {
			if code, stdout, _ := braid(t, above); code != cli.ExitOK || !strings.Contains(stdout, "Usage:\n  braid "+above+" COMMAND\n") {
				t.Errorf("%s alone: %d %q", above, code, stdout)
			}
		}
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, script, stderr := braid(t, "completion", shell); code != cli.ExitOK || !strings.Contains(script, "__complete") {
			t.Errorf("%s: %d %.200s %s", shell, code, script, stderr)
		}
	}
}
