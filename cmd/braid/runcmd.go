package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"braid/bus"
	"braid/client"
	"braid/internal/cli"
	"braid/schemas"
)

// This file is "braid run": one prompt, on a server or with everything in this process, followed until
// its task ends. Who sits at a terminal is asked about tool calls; an interrupt aborts the task.

type runOptions struct {
	place
	sessionOptions
	view     string
	json     bool
	whenBusy string
	input    inputFlags
}

// The views of a run.
const (
	viewStream = "stream"
	viewTurns  = "turns"
)

func runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [--agent NAME] [--model P/M] [--fallback P/M]... [--approve MODE] [--view stream|turns] [--json] [--server URL] PROMPT|-",
		Short: "Run one prompt and show what happens",
		Long: "Runs the prompt in a new session, or in that of --session, and shows what happens until the task ends.\n" +
			"If PROMPT is -, it is read from standard input. Without a server, everything runs in this process. The\n" +
			"exit code is 0 if the task completed.\n\n" +
			"For each tool call that needs a decision you are asked on the terminal; without a terminal, such calls\n" +
			"are denied.\n\n" +
			"If the environment has TRACEPARENT (and TRACESTATE), a W3C trace context, the task is part of that trace.",
		Example: "  braid run --model shell/demo --approve allow-all '$ ls -l\n$ date'\n" +
			"  braid run --session 3f0c9a1e --when-busy queue 'Now run the tests.'\n" +
			"  git diff | braid run --session 3f0c9a1e -",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			prompt, err := readPrompt(args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			if err := o.check(cmd.Flags()); err != nil {
				return err
			}
			return o.run(cmd.Context(), prompt, console{
				in: bufio.NewReader(cmd.InOrStdin()), out: cmd.OutOrStdout(), err: cmd.ErrOrStderr(),
				interactive: args[0] != "-" && isTerminal(cmd.InOrStdin()),
			})
		},
	}
	o.register(cmd.Flags())
	cli.Configure(cmd, cli.SectionRun)
	completeSession(cmd)
	completeFlag(cmd, "view", words(viewStream, viewTurns))
	completeFlag(cmd, "when-busy", words("reject", "queue", "steer"))
	return cmd
}

func (o *runOptions) register(flags *pflag.FlagSet) {
	o.place = at("run")
	o.place.register(flags)
	o.registerSession(flags)
	o.input.register(flags)
	flags.StringVar(&o.whenBusy, "when-busy", string(schemas.BusyReject), "if the session is running another task: reject, queue (run it afterwards) or steer (add it to that task)")
	flags.StringVar(&o.view, "view", viewStream, "stream (everything, as it happens) or turns (the results of each turn)")
	flags.BoolVar(&o.json, "json", false, "print every message, or every event of --view turns, as JSON, one object per line")
}

// usdFlag is an amount of money; empty for none.
type usdFlag schemas.USD

// Set implements [pflag.Value].
func (u *usdFlag) Set(s string) error {
	amount, err := schemas.ParseUSD(s)
	*u = usdFlag(amount)
	return err
}

// String implements [pflag.Value].
func (u *usdFlag) String() string {
	if *u == 0 {
		return ""
	}
	return schemas.USD(*u).String()
}

// Type implements [pflag.Value].
func (u *usdFlag) Type() string { return "USD" }

// readPrompt is the argument itself, or standard input for "-". What is over the limit is cut off
// here, and refused by the server.
func readPrompt(arg string, in io.Reader) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	text, err := io.ReadAll(io.LimitReader(in, schemas.MaxPrompt+1))
	if err != nil {
		return "", fmt.Errorf("read the prompt: %w", err)
	}
	return strings.TrimSuffix(string(text), "\n"), nil
}

// console is where a run talks to a person.
type console struct {
	in          *bufio.Reader
	out, err    io.Writer
	interactive bool
}

func (o *runOptions) run(ctx context.Context, prompt string, screen console) (err error) {
	if err := o.checkSession(); err != nil {
		return err
	}
	if _, err := schemas.ParseWhenBusy(o.whenBusy); err != nil {
		return cli.Usage("--when-busy: %v", err)
	}
	if o.view != viewStream && o.view != viewTurns {
		return cli.Usage("--view must be stream or turns")
	}
	task, err := o.input.task(prompt)
	if err != nil {
		return err
	}
	if prompt == "" && len(o.input.images) == 0 {
		return cli.Usage("the prompt is empty")
	}
	task.WhenBusy = schemas.WhenBusy(o.whenBusy)
	c, leave, err := o.reach(ctx, screen.err)
	if err != nil {
		return err
	}
	defer cli.Close(&err, leave)
	r := &promptRun{console: screen, show: newRenderer(screen.out, o.json), turns: o.view == viewTurns}
	return r.run(ctx, c, o, task)
}

// promptRun is one prompt from its session's creation to the end of its task.
type promptRun struct {
	session *client.Session
	console console
	show    *renderer
	turns   bool            // the view
	decided map[string]bool // the calls this run has decided on, in the view of turns
	// failure says why the task did not complete; empty if it did.
	failure string
	task    *client.Task
	// waiting is set while it has not begun.
	waiting atomic.Bool
}

// ours reports that the task is the one to follow: that of the prompt, or whichever it joined.
func (r *promptRun) ours(task string) bool {
	return r.task.Taken == schemas.TakenSteering || task == "" || task == r.task.ID
}

// abortBound is how long an interrupted run waits for its task to end.
const abortBound = 5 * time.Second

func (r *promptRun) run(ctx context.Context, c *client.Client, o *runOptions, task *schemas.TaskBody) (err error) {
	if r.session, err = o.handle(ctx, c, r.console.err); err != nil {
		return err
	}
	traced := client.Traced(os.Getenv("TRACEPARENT"), os.Getenv("TRACESTATE"))
	if r.task, err = r.session.Start(ctx, *task, traced); err != nil {
		return fmt.Errorf("start the task: %s%w", atField(err), err)
	}
	r.waiting.Store(r.task.Taken == schemas.TakenQueued)
	// Interrupted, the task is aborted and its end awaited; only a second signal ends the process.
	following, cancel := context.WithCancel(context.WithoutCancel(ctx))
	aborted := make(chan struct{})
	stopAbort := context.AfterFunc(ctx, func() {
		defer close(aborted)
		r.abort(following, cancel)
	})
	defer func() {
		cancel()
		if !stopAbort() {
			<-aborted
		}
	}()
	cursor := r.task.Cursor
	if r.waiting.Load() {
		if cursor, err = r.awaitTurn(following); err != nil {
			return err
		}
	}
	if err := r.follow(following, cursor); err != nil {
		return fmt.Errorf("follow the session: %w", err)
	}
	r.show.finish()
	if r.failure != "" {
		return fmt.Errorf("the task ended: %s", r.failure)
	}
	return nil
}

// follow shows what happens, and answers what is asked, until the task ends.
func (r *promptRun) follow(ctx context.Context, cursor string) error {
	events := r.session.Stream
	if r.turns {
		events = r.session.Turns
	}
	for event, err := range events(ctx, client.WatchOptions{After: cursor}) {
		if err != nil {
			return err
		}
		over := false
		switch e := event.(type) {
		case client.Gap:
			err = r.gap(e)
		case client.State:
			err = r.takeState(ctx, e)
		case client.Message:
			over, err = r.take(ctx, e.Message)
		case client.Turn:
			over, err = r.takeTurn(e.TurnEvent)
		}
		if over || err != nil {
			return err
		}
	}
	return nil
}

// why says why a task did not complete; nothing if it did.
func why(end *schemas.TaskEnd) string {
	switch {
	case end.Status == schemas.StopCompleted:
		return ""
	case end.ErrorInfo != nil && end.ErrorInfo.Message != "":
		return string(end.Status) + ": " + end.ErrorInfo.Message
	case end.Cause == schemas.CauseMaxTurns:
		return noTurns
	case end.Cause == schemas.CauseLoop:
		return inLoop
	}
	return string(end.Status)
}

// errLost says that what was shown can't be gone on with.
var errLost = errors.New("the stream was lost, and begins anew; the trace has what there is")

// gap tells that something is missing in what is shown.
func (r *promptRun) gap(g client.Gap) error {
	if g.Reset {
		return errLost
	}
	fmt.Fprintf(r.console.err, "some of what was streamed came too late to be shown (%s); complete messages follow\n", g.Reason)
	return nil
}

func (r *promptRun) abort(ctx context.Context, giveUp context.CancelFunc) {
	fmt.Fprintln(r.console.err, "aborting")
	// That it has ended meanwhile is seen in what is followed.
	if err := unless(r.stop(ctx), schemas.CodeNotRunning); err != nil && ctx.Err() == nil {
		fmt.Fprintf(r.console.err, "abort: %v\n", err)
	}
	select {
	case <-time.After(abortBound):
		giveUp()
	case <-ctx.Done():
	}
}

// take shows one message, and answers what is asked. over says that the task has ended.
func (r *promptRun) take(ctx context.Context, m schemas.Message) (over bool, err error) {
	if err := r.show.message(m); err != nil || len(m.Origin) > 0 {
		return false, err
	}
	switch p := m.Payload.(type) {
	case *schemas.ApprovalRequest:
		return false, r.decide(ctx, bus.PendingFor(p))
	case *schemas.TaskEnd:
		if over = r.ours(p.TaskID); over {
			r.failure = why(p)
		}
	}
	return over, nil
}

// decide asks about a tool call, or denies it when there is nobody to ask.
func (r *promptRun) decide(ctx context.Context, p bus.PendingApproval) error {
	answer := r.session.Deny
	if p.Rule != "" {
		fmt.Fprintf(r.console.err, "the policy can't tell whether its rule %s forbids this\n", p.Rule)
	}
	if r.console.interactive {
		fmt.Fprintf(r.console.err, "\nallow %s %s ? [y/N] ", p.Name, escapeControls(p.Arguments, ""))
		line, err := r.console.in.ReadString('\n')
		if err != nil && line == "" {
			fmt.Fprintln(r.console.err, "denied")
		}
		if a := strings.ToLower(strings.TrimSpace(line)); a == "y" || a == "yes" {
			answer = r.session.Approve
		}
	} else {
		fmt.Fprintf(r.console.err, "denied, because nobody can be asked: %s %s (see --approve)\n", p.Name, escapeControls(p.Arguments, ""))
	}
	err := answer(ctx, p.ToolCallID, p.Hash)
	if client.IsCode(err, schemas.CodeNotPending) {
		return nil // somebody else was faster
	}
	return err
}
