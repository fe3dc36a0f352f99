package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"braid/schemas"
	"braid/toolrunner/internal/safetext"
)

// ErrShutdown is the cause of an abort because the toolrunner ends.
var ErrShutdown = errors.New("the toolrunner is shutting down")

// errTimeout tells the call's own bound from an abort.
var errTimeout = errors.New("timeout")

// handOverBound limits how long a full output may take to be stored.
const handOverBound = 30 * time.Second

// Outlet is where an execution's output goes. Its functions are called one at a time, by the
// goroutine of [Execution.Run]; a slow one delays the result, never the tool. Any may be nil.
type Outlet struct {
	// Fragment gets the output piece by piece. The pieces add up to the result's output.
	Fragment func(schemas.ToolFragment)
	// FullOutput stores the untruncated text of a call whose output was cut, and returns a name
	// for it. It is not called for an aborted call, since somebody waits for that one's end.
	FullOutput func(ctx context.Context, text io.ReadSeeker) (name string, err error)
	// Log gets what the people who run the toolrunner should know: the stack of a panic, a full
	// output that could not be kept.
	Log zerolog.Logger
}

// Execution is one call being executed under the execution contract (see the package comment).
type Execution struct {
	tool   Tool
	call   Call
	limits Limits
	outlet Outlet
	out    *Output
	// toolDone is closed when the tool's Run has returned, or will not be called.
	toolDone chan struct{}
	// begun says that Run was called, and so that toolDone will be closed if the tool ends.
	begun atomic.Bool
}

// NewExecution prepares a call. Nothing runs until [Execution.Run].
func NewExecution(tool Tool, call Call, limits Limits, outlet Outlet) *Execution {
	limits = limits.withDefaults()
	return &Execution{
		tool: tool, call: call, limits: limits, outlet: outlet,
		out:      newOutput(limits, outlet.FullOutput != nil),
		toolDone: make(chan struct{}),
	}
}

// Execute runs a call to its end: [NewExecution] and [Execution.Run] in one.
func Execute(ctx context.Context, tool Tool, call Call, limits Limits, outlet Outlet) schemas.ToolResult {
	return NewExecution(tool, call, limits, outlet).Run(ctx)
}

// From returns the output from a byte offset on, as fragments, also those already handed to the
// outlet: what an owner that missed some asks for. It may be called at any time.
func (e *Execution) From(offset int64) []schemas.ToolFragment {
	text, at := e.out.from(offset)
	var fragments []schemas.ToolFragment
	for len(text) > 0 {
		piece := safetext.Cut(text, e.limits.FragmentSize)
		fragments = append(fragments, e.fragment(string(piece), at))
		text, at = text[len(piece):], at+len(piece)
	}
	return fragments
}

func (e *Execution) fragment(text string, offset int) schemas.ToolFragment {
	return schemas.ToolFragment{
		ToolCallID: e.call.ToolCallID, Attempt: e.call.Attempt,
		Offset: int64(offset), Text: text,
	}
}

// Run executes the call and returns its result, which is never an error: whatever went wrong is
// in it. It is called once. The end of ctx aborts the call; the context's cause, if it has one of
// its own, is named in the output.
//
// Run returns when the tool has, or [Limits.Grace] after it was told to stop. In the second case
// the tool's goroutine is left behind; [Execution.ToolDone] says when it has ended.
func (e *Execution) Run(ctx context.Context) schemas.ToolResult {
	e.begun.Store(true)
	if ctx.Err() != nil {
		close(e.toolDone)
		return e.finish(ctx, verdict{StopReason: schemas.StopAborted, Note: abortNote(ctx, " before it started")})
	}
	bounded, cancel := context.WithTimeoutCause(ctx, e.limits.Timeout, errTimeout)
	defer cancel()
	returned := make(chan Result, 1)
	go func() { // ends with the tool; see ToolDone
		defer close(e.toolDone)
		e.runTool(bounded, returned)
	}()
	own, stray := e.attend(bounded, returned)
	return e.finish(ctx, e.judge(ctx, bounded, own, stray))
}

// ToolDone is closed when the tool's goroutine has ended, after [Execution.Run] was called.
func (e *Execution) ToolDone() <-chan struct{} { return e.toolDone }

// runTool calls the tool and delivers exactly one result, whatever the tool does.
func (e *Execution) runTool(ctx context.Context, returned chan<- Result) {
	own := Result{Err: errors.New("the tool's goroutine ended without a result")}
	defer func() {
		if p := recover(); p != nil {
			own = Result{Err: fmt.Errorf("the tool crashed: %v", p)}
			e.outlet.Log.Error().Str("tool", e.call.Name).Str("call", e.call.ToolCallID).
				Bytes("stack", debug.Stack()).Msg("a tool panicked")
		}
		returned <- own
	}()
	own = e.tool.Run(ctx, e.call, e.out)
}

// attend passes output on until the tool returns, or is left behind as a stray.
func (e *Execution) attend(ctx context.Context, returned <-chan Result) (own Result, stray bool) {
	pause := stoppedTimer()
	defer pause.Stop()
	grace := stoppedTimer()
	defer grace.Stop()
	stopped := ctx.Done()
	paused := false
	for {
		select {
		case <-e.out.ready:
			if paused && e.out.waiting() < e.limits.FragmentSize {
				continue // the end of the pause will take it along
			}
			e.send()
			paused = true
			pause.Reset(e.limits.Pause)
		case <-pause.C:
			if paused = e.send(); paused {
				pause.Reset(e.limits.Pause)
			}
		case <-stopped:
			stopped = nil
			grace.Reset(e.limits.Grace)
		case <-grace.C:
			return Result{}, true
		case own := <-returned:
			return own, false
		}
	}
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// send hands all waiting text to the outlet and reports whether there was any.
func (e *Execution) send() bool {
	sent := false
	for {
		text, offset := e.out.take()
		if text == "" {
			return sent
		}
		sent = true
		if e.outlet.Fragment != nil {
			e.outlet.Fragment(e.fragment(text, offset))
		}
	}
}

// finish closes the output and makes the result. What a stray tool writes later is discarded.
func (e *Execution) finish(ctx context.Context, v verdict) schemas.ToolResult {
	text, full := e.out.end(v.Notes())
	defer full.close()
	e.send()
	result := schemas.ToolResult{Output: text, Images: v.Images, StopReason: v.StopReason}
	if full != nil && v.StopReason != schemas.StopAborted {
		result.FullOutput = e.handOver(ctx, full)
	}
	return result
}

// handOver stores the full text. Without it the call's result is as good as it was, so a failure
// is logged and no more.
func (e *Execution) handOver(ctx context.Context, full *spill) string {
	ctx, cancel := context.WithTimeout(ctx, handOverBound)
	defer cancel()
	text, err := full.reader()
	var name string
	if err == nil {
		name, err = e.outlet.FullOutput(ctx, text)
	}
	if err != nil {
		e.outlet.Log.Warn().Err(err).Str("call", e.call.ToolCallID).Msg("the full output was not kept")
		return ""
	}
	return name
}
