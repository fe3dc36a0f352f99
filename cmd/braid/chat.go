package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"braid/client"
	"braid/internal/cli"
	"braid/schemas"
)

// This file is "braid chat": prompts one after another in one session. What happens while a task runs is
// in work.go.

type chatOptions struct {
	place
	sessionOptions
	json bool
}

func chatCommand() *cobra.Command {
	o := chatOptions{place: at("chat")}
	cmd := &cobra.Command{
		Use:   "chat [--session ID] [--agent NAME] [--model P/M] [--approve MODE] [--json] [--server URL]",
		Short: "Chat with an agent in one session",
		Long: "Reads prompts, runs them one after another in a session, and shows what happens as it happens. The\n" +
			"session is a new one, unless --session continues an earlier one. For each tool call that needs a\n" +
			"decision you are asked whether it may run; answer y or n.\n\n" +
			"While a task runs, Ctrl-C aborts it, and a line that you type is added to it. Otherwise Ctrl-C twice,\n" +
			"Ctrl-D or /quit ends the chat; the session is kept. /help lists all commands.\n\n" +
			"When reading from a pipe, each line is a prompt, and tool calls that need a decision are denied. The\n" +
			"exit code is 1 if a task did not complete. Without a server, everything runs in this process.",
		Example: "  braid chat --model shell/demo\n" +
			"  braid chat --session 3f0c9a1e                       # continue a session\n" +
			"  printf '$ date\\n$ uptime\\n' | braid chat --approve allow-all",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(o.check(cmd.Flags()), o.checkSession()); err != nil {
				return err
			}
			return o.run(cmd)
		},
	}
	o.place.register(cmd.Flags())
	o.registerSession(cmd.Flags())
	cmd.Flags().BoolVar(&o.json, "json", false, "print every message of the stream as JSON, one object per line")
	cli.Configure(cmd, cli.SectionRun)
	completeSession(cmd)
	return cmd
}

func (o *chatOptions) run(cmd *cobra.Command) (err error) {
	ctx := cmd.Context()
	c, leave, err := o.reach(ctx, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer cli.Close(&err, leave)
	session, err := o.handle(ctx, c, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	keyboard := openKeyboard(cmd.InOrStdin(), echoOf(cmd))
	defer keyboard.close()
	if keyboard.interactive() { // it takes signals
		ctx = cli.WithoutSignals(ctx)
	}
	t := &talk{session: session, keyboard: keyboard, show: newRenderer(cmd.OutOrStdout(), o.json), notes: newScreen(cmd.ErrOrStderr())}
	t.show.most = shownLines
	if o.session != "" {
		err = t.resume(ctx)
	}
	if err == nil {
		err = t.run(ctx)
	}
	return t.end(err)
}

// echoOf is where lines are edited; nil if nobody is at a terminal.
func echoOf(cmd *cobra.Command) io.Writer {
	if !isTerminal(cmd.InOrStdin()) {
		return nil
	}
	for _, w := range []io.Writer{cmd.OutOrStdout(), cmd.ErrOrStderr()} {
		if isTerminal(w) {
			return w
		}
	}
	return nil
}

// shownLines is how many lines of a tool call's output a chat shows.
const shownLines = 12

// talk is a person, or a pipe, and a session.
type talk struct {
	session  *client.Session
	keyboard *keyboard
	show     *renderer
	notes    screen // what is said about the talk itself
	// prompts counts those that were given, failed those of them whose task did not complete.
	prompts, failed int
}

// errLeave says that the person leaves.
var errLeave = errors.New("left")

// end is what remains to be said: how to go on, and whether all went well.
func (t *talk) end(err error) error {
	t.show.finish()
	switch {
	case errors.Is(err, context.Canceled):
		return errInterrupted
	case !errors.Is(err, errLeave):
		return err
	}
	if t.keyboard.interactive() {
		t.note("session %s is kept; continue with: braid chat --session %s", t.session.ID(), t.session.ID())
		return nil
	}
	if t.failed > 0 {
		return fmt.Errorf("%d of %s did not complete", t.failed, count(t.prompts, "task"))
	}
	return nil
}

// note says something about the talk, on a line of its own.
func (t *talk) note(format string, args ...any) {
	t.show.newline()
	t.show.speaker = ""
	fmt.Fprintln(t.notes, t.notes.paint(dim, t.notes.safe(fmt.Sprintf(format, args...))))
}

// run takes line after line until somebody leaves, which is errLeave.
func (t *talk) run(ctx context.Context) error {
	for interrupted := false; ; {
		t.show.finish()
		line, err := t.keyboard.line(ctx, "> ")
		switch {
		case errors.Is(err, errInterrupted) && !interrupted:
			interrupted = true
			t.note("Ctrl-C again leaves")
			continue
		case errors.Is(err, io.EOF), errors.Is(err, errInterrupted):
			return errLeave
		case err != nil:
			return err
		}
		interrupted = false
		if err := t.heard(ctx, line); err != nil {
			return err
		}
	}
}

// heard does what a line at rest says.
func (t *talk) heard(ctx context.Context, line string) error {
	text := strings.TrimSpace(line)
	switch {
	case text == "":
		return nil
	case isCommand(text):
		said, err := t.command(ctx, text)
		return t.answer(said, err)
	}
	return t.prompt(ctx, strings.TrimPrefix(text, "/")) // "//" begins a prompt with a slash
}

// answer tells what became of a command; that it failed ends nothing.
func (t *talk) answer(said string, err error) error {
	switch {
	case errors.Is(err, errLeave):
		return err
	case err != nil:
		t.note("%v", err)
	case said != "":
		t.note("%s", said)
	}
	return nil
}

// prompt runs a prompt and shows what happens until its task ends.
func (t *talk) prompt(ctx context.Context, text string) error {
	t.prompts++
	task, err := t.session.Start(ctx, schemas.TaskBody{Prompt: text, WhenBusy: schemas.BusyQueue})
	if err != nil {
		err = fmt.Errorf("start the task: %s%w", atField(err), err)
		if !t.keyboard.interactive() || ctx.Err() != nil {
			return err
		}
		t.note("%v", err)
		return nil
	}
	w := newWork(t)
	w.add(task.ID, task)
	if task.Taken == schemas.TakenQueued {
		t.note("the session is busy; task %s is queued", task.ID)
	}
	return w.follow(ctx, task.Cursor)
}
