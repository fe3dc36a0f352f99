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

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"braid/internal/cli"
	"braid/schemas"
)

type runOptions struct {
	place
	model    string
	fallback []string
	approve  string
	system   string
	view     string
	json     bool
	limits   schemas.Limits
	// approvalTimeout is how long a call waits for a decision; 0: without end.
	approvalTimeout time.Duration
	session         string // an existing one
	whenBusy        string
	input           inputFlags
}

// The views of a run.
const (
	viewStream = "stream"
	viewTurns  = "turns"
)

func runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [--model P/M] [--fallback P/M]... [--approve MODE] [--view stream|turns] [--json] [--server URL] PROMPT|-",
		Short: "Run one prompt and stream what happens",
		Long: "Creates a session, runs the prompt in it and streams what happens until the task ends; the\n" +
			"prompt - is read from standard input. Without a server everything runs in this process.\n" +
			"Exit code 0 if the task completed.\n\n" +
			"Tool calls that need a decision are asked about on a terminal, and denied without one.",
		Example: "  braid run --model shell/demo --approve allow-all '$ ls -l\n$ date'",
		Args:    cobra.ExactArgs(1),
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
				interactive: args[0] != "-" && interactive(cmd.InOrStdin()),
			})
		},
	}
	o.register(cmd.Flags())
	cli.Configure(cmd, cli.SectionRun)
	return cmd
}

func (o *runOptions) register(flags *pflag.FlagSet) {
	o.place.register(flags)
	flags.StringVar(&o.model, "model", "shell/demo", "what to run on, as provider/model")
	flags.StringArrayVar(&o.fallback, "fallback", nil, "what goes on when the model can't, as provider/model; repeat it for more, in order")
	flags.StringVar(&o.approve, "approve", string(schemas.ApproveReadOnly), "read-only, always-ask, allow-all or deny-all")
	o.input.register(flags)
	flags.StringVar(&o.system, "system", "", "system prompt")
	flags.IntVar(&o.limits.MaxTurns, "max-turns", 0, fmt.Sprintf("turns the task may take, -1 for any number (default %d)", schemas.DefaultMaxTurns))
	flags.Int64Var(&o.limits.MaxTokensTask, "max-tokens", 0, "tokens the task may use, 0 for any number; the request that goes over is the last")
	flags.Var((*usdFlag)(&o.limits.MaxCostTask), "max-cost", "`USD` the task may cost, such as 0.25; the request that goes over is the last (needs a price of the model)")
	flags.DurationVar(&o.approvalTimeout, "approval-timeout", 0, "deny a tool call that nobody decides on in that time; 0: wait without end")
	flags.StringVar(&o.session, "session", "", "run the prompt in this session of the server instead of a new one, which --model, --approve, --system and limits would be for")
	flags.StringVar(&o.whenBusy, "when-busy", string(schemas.BusyReject), "while the session runs another task: reject, queue (wait for its end) or steer (join it)")
	flags.StringVar(&o.view, "view", viewStream, "stream shows everything as it comes, turns what each turn came to")
	flags.BoolVar(&o.json, "json", false, "print every message of the stream, or event of the turns, one JSON object a line")
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

func interactive(in io.Reader) bool {
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (o *runOptions) run(ctx context.Context, prompt string, c console) (err error) {
	if _, err := schemas.ParseApprovalMode(o.approve); err != nil {
		return cli.Usage("--approve: %v", err)
	}
	if _, _, err := schemas.SplitModel(o.model); err != nil {
		return cli.Usage("--model: %v", err)
	}
	for _, f := range o.fallback {
		if _, _, err := schemas.SplitModel(f); err != nil {
			return cli.Usage("--fallback: %v", err)
		}
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
	if err := o.checkSession(); err != nil {
		return err
	}
	api, leave, err := o.reach(ctx, c.err)
	if err != nil {
		return err
	}
	defer cli.Close(&err, leave)
	r := &promptRun{api: api, console: c, show: newRenderer(c.out, o.json), log: zerolog.Nop()}
	return r.run(ctx, o, task)
}

// promptRun is one prompt from its session's creation to the end of its task.
type promptRun struct {
	api     *apiClient
	console console
	show    *renderer
	log     zerolog.Logger
	session string
	decided map[string]bool // the calls this run has decided on, in the view of turns
	// failure says why the task did not complete; empty if it did.
	failure string
	// task is the one to follow; empty: whichever ends first.
	task string
	// waiting is set while it has not begun.
	waiting atomic.Bool
}

// ours reports that the task is the one to follow.
func (r *promptRun) ours(task string) bool { return r.task == "" || task == "" || task == r.task }

// abortBound is how long an interrupted run waits for its task to end.
const abortBound = 5 * time.Second

func (r *promptRun) run(ctx context.Context, o *runOptions, task *schemas.TaskBody) error {
	if err := r.open(ctx, o); err != nil {
		return err
	}
	var started struct {
		Cursor    string        `json:"cursor"`
		CommandID string        `json:"command_id"`
		Taken     schemas.Taken `json:"taken"`
	}
	if err := r.api.call(ctx, r.path("tasks"), task, &started); err != nil {
		return fmt.Errorf("start the task: %s%w", atField(err), err)
	}
	if started.Taken != schemas.TakenSteering {
		r.task = started.CommandID
	}
	r.waiting.Store(started.Taken == schemas.TakenQueued)
	// Interrupted, the task is aborted and its end awaited; only a second signal ends the process.
	following, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stopAbort := context.AfterFunc(ctx, func() { r.abort(following, cancel) })
	defer stopAbort()
	if r.waiting.Load() {
		if err := r.awaitTurn(following, &started.Cursor); err != nil {
			return err
		}
	}
	path, take := r.path("stream"), r.take
	if o.view == viewTurns {
		path, take = path+"?view="+viewTurns, r.takeTurns
	}
	if err := r.api.follow(following, path, started.Cursor, func(e event) error { return take(following, e) }); err != nil {
		return fmt.Errorf("follow the session: %w", err)
	}
	r.show.finish()
	if r.failure != "" {
		return fmt.Errorf("the task ended: %s", r.failure)
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
var errLost = errors.New("part of the stream was lost; the trace has it all")

func (r *promptRun) path(what string) string { return "/v1/sessions/" + r.session + "/" + what }

func (r *promptRun) abort(ctx context.Context, giveUp context.CancelFunc) {
	fmt.Fprintln(r.console.err, "aborting")
	if err := r.stop(ctx); err != nil {
		fmt.Fprintf(r.console.err, "abort: %v\n", err)
	}
	select {
	case <-time.After(abortBound):
		giveUp()
	case <-ctx.Done():
	}
}

// take shows one event, answers what is asked, and ends with the task.
func (r *promptRun) take(ctx context.Context, e event) error {
	if e.name != "" {
		if e.name == eventResync {
			return errLost
		}
		return nil
	}
	m, err := schemas.Decode(e.data)
	if err != nil {
		return err
	}
	r.show.message(e.data, m)
	if len(m.Origin) > 0 {
		return nil
	}
	switch p := m.Payload.(type) {
	case *schemas.ApprovalRequest:
		return r.decide(ctx, pendingCall{ToolCallID: p.ToolCallID, Name: p.Name, Arguments: p.Arguments, Hash: p.Hash, Rule: p.Rule})
	case *schemas.TaskEnd:
		if !r.ours(p.TaskID) {
			return nil
		}
		r.failure = why(p)
		return errStop
	}
	return nil
}

// pendingCall is a tool call that waits for a decision.
type pendingCall struct {
	ToolCallID string `json:"tool_call_id"`
	Name       string `json:"name"`
	Arguments  string `json:"arguments"`
	Hash       string `json:"hash"`
	Rule       string `json:"rule"` // of the policy, if that is why a person is asked
}

// decide asks about a tool call, or denies it when there is nobody to ask.
func (r *promptRun) decide(ctx context.Context, p pendingCall) error {
	decision := schemas.DecisionDeny
	if p.Rule != "" {
		fmt.Fprintf(r.console.err, "the policy can't tell whether its rule %s forbids this\n", p.Rule)
	}
	if r.console.interactive {
		fmt.Fprintf(r.console.err, "\nallow %s %s ? [y/N] ", p.Name, p.Arguments)
		answer, err := r.console.in.ReadString('\n')
		if err != nil && answer == "" {
			fmt.Fprintln(r.console.err, "denied")
		}
		if a := strings.ToLower(strings.TrimSpace(answer)); a == "y" || a == "yes" {
			decision = schemas.DecisionAllow
		}
	} else {
		fmt.Fprintf(r.console.err, "denied, since nobody can be asked: %s %s (see --approve)\n", p.Name, p.Arguments)
	}
	err := r.api.call(ctx, r.path("approvals/"+p.ToolCallID), map[string]any{"decision": decision, "hash": p.Hash}, nil)
	var refused *schemas.Error
	if errors.As(err, &refused) && refused.Code == schemas.CodeNotPending {
		return nil // somebody else was faster
	}
	return err
}
