package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"braid/client"
	"braid/internal/cli"
	"braid/schemas"
)

// sessionOptions say which session a prompt is for: one that there is, or what a new one is like.
type sessionOptions struct {
	agent    string
	model    string
	fallback []string
	approve  string
	system   string
	tools    []string
	limits   schemas.Limits
	// approvalTimeout is how long a call waits for a decision; 0: without end.
	approvalTimeout time.Duration
	session         string // an existing one
	// open reports that a flag was not given, so that the agent says what it would.
	open func(flag string) bool
	// idle is a flag on the command line that is for new sessions; empty if there is none.
	idle func() string
}

func (o *sessionOptions) registerSession(flags *pflag.FlagSet) {
	flags.StringVar(&o.agent, "agent", "", "`NAME` of the agent to run; flags that are given override its settings")
	flags.StringVar(&o.model, "model", "shell/demo", "the model to use, as `PROVIDER/MODEL`; with --agent, the agent's by default")
	flags.StringArrayVar(&o.fallback, "fallback", nil, "a model to continue with if the model can't, as `PROVIDER/MODEL`; can be repeated, in order")
	flags.StringVar(&o.approve, "approve", string(schemas.ApproveReadOnly), "approval `MODE` of tool calls: read-only, always-ask, allow-all or deny-all; with --agent, the agent's by default")
	flags.StringVar(&o.system, "system", "", "the system prompt, as `TEXT`")
	flags.StringArrayVar(&o.tools, "allow-tools", nil, "a tool that may be used, or a `PATTERN` such as read_*; can be repeated (default all)")
	flags.IntVar(&o.limits.MaxTurns, "max-turns", 0, fmt.Sprintf("the maximum number of turns of a task, -1 for no limit (default %d)", schemas.DefaultMaxTurns))
	flags.Int64Var(&o.limits.MaxTokensTask, "max-tokens", 0, "the maximum number of tokens of a task, 0 for no limit; the request that exceeds it is the last")
	flags.Var((*usdFlag)(&o.limits.MaxCostTask), "max-cost", "the maximum cost of a task in `USD`, such as 0.25; the request that exceeds it is the last (needs the model's price)")
	flags.DurationVar(&o.approvalTimeout, "approval-timeout", 0, "deny a tool call if nobody decides within this time; 0 for no limit")
	flags.StringVar(&o.session, "session", "", "continue the session `ID` instead of starting a new one; its settings stay as they are")
	o.idle = func() string {
		for _, name := range []string{"agent", "model", "fallback", "approve", "system", "allow-tools", "max-turns", "max-tokens", "max-cost", "approval-timeout"} {
			if cli.Typed(flags, name) {
				return name
			}
		}
		return ""
	}
	o.open = func(flag string) bool { return o.agent != "" && !cli.Given(flags, flag) }
}

// completeSession has shells complete those flags.
func completeSession(cmd *cobra.Command) {
	completeFlag(cmd, "session", sessionIDs)
	completeFlag(cmd, "agent", agentNames)
	completeFlag(cmd, "model", modelNames)
	completeFlag(cmd, "fallback", modelNames)
	completeFlag(cmd, "approve", approvalModes)
}

// checkSession checks what the flags say of the session.
func (o *sessionOptions) checkSession() error {
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
	if longest := schemas.MaxApprovalTimeout * time.Millisecond; o.approvalTimeout < 0 || o.approvalTimeout > longest {
		return cli.Usage("--approval-timeout must be from 0 to %s", longest)
	}
	if o.approvalTimeout%time.Millisecond != 0 {
		return cli.Usage("--approval-timeout must be whole milliseconds")
	}
	if o.session == "" {
		return o.checkBody()
	}
	if err := schemas.ValidateName("session", o.session); err != nil {
		return cli.Usage("--session: %v", err)
	}
	// Who types --approve deny-all must not be served a session that allows all.
	if flag := o.idle(); flag != "" {
		return cli.Usage("--%s can't be combined with --session: it is for new sessions, and this one keeps its settings", flag)
	}
	return nil
}

// checkBody refuses what no session can be made of, before anything is started to be told so.
func (o *sessionOptions) checkBody() error {
	body := o.body()
	return checkSent(schemas.Command{Type: schemas.CommandCreate, Create: &body})
}

// checkSent refuses what a command line makes of a command that no server takes.
func checkSent(c schemas.Command) error {
	c.ID = "x" // its own, and its session's unless it has one, are not made yet
	c.Session.Project, c.Session.ID = "x", cmp.Or(c.Session.ID, "x")
	if err := c.Validate(); err != nil {
		return cli.Usage("%s%w", atField(err), err)
	}
	return nil
}

// body is the session that the flags ask for.
func (o *sessionOptions) body() schemas.CreateBody {
	b := schemas.CreateBody{
		Agent: o.agent, Model: o.model, FallbackModels: o.fallback, ApprovalMode: schemas.ApprovalMode(o.approve),
		SystemPrompt: o.system, Tools: o.tools, Limits: o.limits, ApprovalTimeoutMS: o.approvalTimeout.Milliseconds(),
	}
	if o.open("model") {
		b.Model = ""
	}
	if o.open("approve") {
		b.ApprovalMode = ""
	}
	return b
}

// handle is the session to use: the one that was given, or a new one, which is told to errOut.
func (o *sessionOptions) handle(ctx context.Context, c *client.Client, errOut io.Writer) (*client.Session, error) {
	if o.session != "" {
		return c.Session(o.session), nil
	}
	s, err := c.Create(ctx, client.CreateOptions{CreateBody: o.body()})
	if err != nil {
		return nil, fmt.Errorf("create a session: %s%w", atField(err), err)
	}
	fmt.Fprintf(errOut, "session %s\n", s.ID())
	return s, nil
}

// awaitTurn waits until the task, which waits for others of its session, begins, and returns where.
// What the others do is neither shown nor decided on.
func (r *promptRun) awaitTurn(ctx context.Context) (cursor string, err error) {
	fmt.Fprintf(r.console.err, "the session is busy; task %s is queued\n", r.task.ID)
	if cursor, err = r.task.Begin(ctx); err != nil {
		return "", fmt.Errorf("wait for the task's turn: %w", err)
	}
	r.waiting.Store(false)
	return cursor, nil
}

// stop ends the task, or takes it back if it still waits: what runs is somebody else's then.
func (r *promptRun) stop(ctx context.Context) error {
	if r.waiting.Load() {
		if err := r.task.Withdraw(ctx); !client.IsCode(err, schemas.CodeNotPending) {
			return err
		}
	}
	return r.session.Abort(ctx, "interrupted", false)
}
