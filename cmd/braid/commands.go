package main

import (
	"context"
	"fmt"
	"strings"

	"braid/schemas"
)

// This file is what a chat can be told beside prompts.

// chatCommands are the lines that are no prompts. local ones ask the server nothing.
func chatCommands() []chatCommandLine {
	return []chatCommandLine{
		{"abort", "", "abort the running task, as Ctrl-C does", false, (*talk).abort},
		{"retry", "", "try a failed model request again now, without waiting", false, (*talk).retry},
		{"mode", "MODE", "set the approval mode: read-only, always-ask, allow-all or deny-all; show it without MODE", false, (*talk).mode},
		{"usage", "", "show what the session has used", false, (*talk).usage},
		{"help", "", "show this list", true, (*talk).help},
		{"quit", "", "end the chat; the session is kept", true, func(*talk, context.Context, string) (string, error) { return "", errLeave }},
	}
}

// chatCommandLine is one of them; run returns what to say.
type chatCommandLine struct {
	name, argument, does string
	local                bool
	run                  func(t *talk, ctx context.Context, argument string) (string, error)
}

// isCommand reports that a line is one; a prompt that begins with a slash is written with two.
func isCommand(text string) bool {
	return strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//")
}

// isLocal reports that a command asks the server nothing.
func isLocal(text string) bool {
	c, _ := parseCommand(text)
	return c.run == nil || c.local
}

// parseCommand finds the command of a line, and its argument; a zero one if there is no such command.
func parseCommand(text string) (c chatCommandLine, argument string) {
	name, argument, _ := strings.Cut(strings.TrimPrefix(text, "/"), " ")
	for _, c := range chatCommands() {
		if c.name == name {
			return c, strings.TrimSpace(argument)
		}
	}
	return chatCommandLine{name: name}, ""
}

// command carries a command out. It changes nothing of the talk, so that it may do so while the talk
// goes on.
func (t *talk) command(ctx context.Context, text string) (string, error) {
	c, argument := parseCommand(text)
	switch {
	case c.run == nil:
		return "", fmt.Errorf("unknown command /%s; /help lists the commands", c.name)
	case argument != "" && c.argument == "":
		return "", fmt.Errorf("/%s takes no argument", c.name)
	}
	return c.run(t, ctx, argument)
}

func (t *talk) abort(ctx context.Context, _ string) (string, error) {
	return "", t.session.Abort(ctx, "interrupted", false)
}

func (t *talk) retry(ctx context.Context, _ string) (string, error) {
	return "", t.session.RetryNow(ctx)
}

func (t *talk) mode(ctx context.Context, mode string) (string, error) {
	if mode == "" {
		info, err := t.session.Info(ctx)
		return string(info.ApprovalMode), err
	}
	m, err := schemas.ParseApprovalMode(mode)
	if err != nil {
		return "", err
	}
	return "approval mode: " + mode, t.session.SetApprovalMode(ctx, m)
}

func (t *talk) usage(ctx context.Context, _ string) (string, error) {
	info, err := t.session.Info(ctx)
	return usage(info), err
}

func (t *talk) help(context.Context, string) (string, error) {
	var b strings.Builder
	for _, c := range chatCommands() {
		fmt.Fprintf(&b, "/%-12s %s\n", strings.TrimSpace(c.name+" "+c.argument), c.does)
	}
	b.WriteString("Anything else is a prompt. For a prompt that begins with a slash, type two slashes.")
	return b.String(), nil
}
