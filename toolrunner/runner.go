package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"braid/schemas"
)

// Queue is where calls come from.
type Queue interface {
	// Pull waits for calls and returns at most that many; after a while also none. What can't be
	// started at once is given back. An error other than the end of ctx is logged, and the next
	// pull is a while later.
	Pull(ctx context.Context, most int) ([]Delivery, error)
}

// Delivery is one call in the hands of this toolrunner. Each is claimed or given back, once, or
// left to redelivery.
type Delivery interface {
	Request() schemas.ToolRequest
	// Offers reports whether a tool is offered where the call was queued.
	Offers(schemas.ToolDefinition) bool
	// GiveBack returns the call, for whoever pulls next.
	GiveBack()
	// Claim stores the call's started record. False, without an error, means that the call is not
	// ours to run: it was withdrawn, or another toolrunner has it. On an error the call is left to
	// redelivery.
	Claim(ctx context.Context) (bool, error)
	// Fragment sends a piece of output to the session's owner, as well as it can.
	Fragment(schemas.ToolFragment)
	// FullOutput stores a text and returns its name.
	FullOutput(ctx context.Context, text io.ReadSeeker) (name string, err error)
	// Done stores the call's result, trying as long as it makes sense. It may find that the owner
	// has settled the call; the result is then discarded.
	Done(ctx context.Context, result schemas.ToolResult) error
}

// Runner takes calls from queues and runs them.
type Runner struct {
	tools  map[string]Tool
	slots  *Slots
	limits Limits
	events Events
	log    zerolog.Logger
}

// RunnerOptions set up a [Runner].
type RunnerOptions struct {
	Tools []Tool
	// Slots is how many calls run at once; 4.
	Slots int
	// Limits hold for every call. A request's own timeout and output cap replace theirs.
	Limits Limits
	// Events are told of each call; Serving is not used here.
	Events Events
	Log    zerolog.Logger
}

const (
	defaultSlots = 4
	// retryPause is the wait after the queue failed.
	retryPause = time.Second
)

// NewRunner makes a runner. Two tools of one name are an error.
func NewRunner(options RunnerOptions) (*Runner, error) {
	if options.Slots <= 0 {
		options.Slots = defaultSlots
	}
	tools := make(map[string]Tool, len(options.Tools))
	for _, tool := range options.Tools {
		name := tool.Definition.Name
		if err := errors.Join(schemas.ValidateName("tool", name), tool.err); err != nil {
			return nil, fmt.Errorf("make a runner: %w", err)
		}
		if _, ok := tools[name]; ok {
			return nil, fmt.Errorf("make a runner: two tools are named %s", name)
		}
		tools[name] = tool
	}
	return &Runner{
		tools: tools, slots: NewSlots(options.Slots),
		limits: options.Limits, events: options.Events, log: options.Log,
	}, nil
}

// Slots are the runner's slots: what cancels and resends are addressed to.
func (r *Runner) Slots() *Slots { return r.slots }

// Run takes calls from a queue and runs them until ctx ends; then it takes no more and returns.
// Several queues, each with its own Run, share the slots. Calls go on: end them with [Slots.Drain]
// or [Slots.Stop], and the queue's connection after that.
func (r *Runner) Run(ctx context.Context, queue Queue) {
	for {
		free, err := r.slots.AwaitFree(ctx)
		if err != nil {
			return
		}
		calls, err := queue.Pull(ctx, free)
		for _, d := range calls {
			r.start(d)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			continue
		}
		r.log.Warn().Err(err).Msg("the tool queue failed")
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return
		}
	}
}

// start puts a call into a slot. When another queue was faster and none is free, the call goes
// back at once: somebody else may have one.
func (r *Runner) start(d Delivery) {
	if !r.slots.TryReserve() {
		d.GiveBack()
		return
	}
	request := d.Request()
	log := r.log.With().Stringer("session", request.Session).Str("call", request.ToolCallID).
		Int("attempt", request.Attempt).Str("tool", request.Name).Logger()
	tool := r.tool(d)
	e := NewExecution(tool, callOf(request), r.limits.of(request), Outlet{
		Fragment: d.Fragment, FullOutput: d.FullOutput, Log: log,
	})
	err := r.slots.Start(e, func(ctx context.Context) { r.handle(ctx, d, tool, e, log) })
	if err == nil {
		return
	}
	r.slots.Release()
	log.Debug().Err(err).Msg("a call was not started")
	if !errors.Is(err, ErrRunning) { // that one is a second copy, and is taken off the queue by the first
		d.GiveBack()
	}
}

// handle is a call's life in its slot. Records are stored also when the call is being cancelled:
// a cancelled call that was claimed still has a result.
func (r *Runner) handle(ctx context.Context, d Delivery, tool Tool, e *Execution, log zerolog.Logger) {
	whole := context.WithoutCancel(ctx)
	ours, err := d.Claim(whole)
	switch {
	case err != nil:
		log.Warn().Err(err).Msg("a call could not be claimed")
		return
	case !ours:
		log.Debug().Msg("a call is not ours")
		return
	}
	result := r.observed(d.Request(), tool, func() schemas.ToolResult { return e.Run(ctx) })
	log.Debug().Str("stop_reason", string(result.StopReason)).Int("bytes", len(result.Output)).Msg("a call has ended")
	if err := d.Done(whole, result); err != nil {
		log.Warn().Err(err).Msg("a call's result was not stored")
	}
}

// tool is the tool that a call names, or one that says there is none: the call gets a result, so
// that nobody waits for it.
func (r *Runner) tool(d Delivery) Tool {
	tool, ok := r.tools[d.Request().Name]
	if ok && d.Offers(tool.Definition) {
		return tool
	}
	var names []string
	for name, tool := range r.tools {
		if d.Offers(tool.Definition) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return Tool{Run: func(context.Context, Call, *Output) Result {
		return Result{Err: errors.New("no tool of that name runs here; there are: " + strings.Join(names, ", "))}
	}}
}

func callOf(request schemas.ToolRequest) Call {
	return Call{
		Session: request.Session, ToolCallID: request.ToolCallID, Attempt: request.Attempt,
		Name: request.Name, Arguments: request.Arguments, Workspace: request.Workspace,
	}
}

// of is the limits with the bounds a request brings.
func (l Limits) of(request schemas.ToolRequest) Limits {
	if request.TimeoutMS > 0 {
		l.Timeout = milliseconds(request.TimeoutMS)
	}
	if request.OutputCap > 0 {
		l.OutputCap = int(min(request.OutputCap, maxOutputCap))
	}
	return l
}
