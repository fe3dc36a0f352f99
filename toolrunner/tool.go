package toolrunner

import (
	"context"
	"time"

	"braid/schemas"
)

// Tool is one thing a toolrunner can do. [Func] makes one of a Go function; a Tool made by hand reads
// its own arguments.
type Tool struct {
	Definition schemas.ToolDefinition
	// Run does it. It writes its output as it comes, and returns soon after ctx is done: the
	// cause is an abort, the call's timeout or the end of the toolrunner. A Run that does not is
	// left behind after [Limits.Grace]. A panic in Run fails the call and nothing else.
	Run func(ctx context.Context, call Call, out *Output) Result

	// err is why this is no tool, see [Func].
	err error
}

// Call is one use of a tool.
type Call struct {
	Session    schemas.SessionRef
	ToolCallID string
	// Attempt is 1, or higher when a call that is safe to repeat runs again.
	Attempt int
	Name    string
	// Arguments is the JSON text exactly as the model wrote it; see [DecodeArguments].
	Arguments string
	// Workspace is the session's working directory; empty if it has none of its own.
	Workspace string
}

// Result is how a tool ended, in its own view. The zero value says that all went well.
type Result struct {
	// StopReason is how the call ended; empty means completed.
	StopReason schemas.StopReason
	// Note is a last line for the model, such as "[exit code: 3]". It is outside the output cap.
	Note string
	// Images are references or data URLs of pictures, outside the output cap as well.
	Images []string
	// Err fails the call; its text is shown to the model.
	Err error
}

// Limits bound one execution. A zero field means its default.
type Limits struct {
	// Timeout bounds the run; 120 s.
	Timeout time.Duration
	// Grace is how long a stopped tool may take to return; 800 ms. [Execute] returns at most
	// this long after an abort or timeout, plus what the [Outlet] takes.
	Grace time.Duration
	// OutputCap bounds the text the model sees, in bytes, before notes; 32 KiB.
	OutputCap int
	// FullCap bounds the untruncated text that is kept beside it, in bytes; 64 MiB.
	FullCap int64
	// Pause is the least time between two fragments, so that small writes share one; 1 ms. The
	// first byte after a quiet time never waits.
	Pause time.Duration
	// FragmentSize bounds a fragment, in bytes; 16 KiB. That much output waits for no pause.
	FragmentSize int
	// SpillDir is where the untruncated text is kept while the tool runs; the system's default.
	SpillDir string
}

// The defaults of [Limits].
const (
	defaultGrace        = 800 * time.Millisecond
	defaultFullCap      = 64 << 20
	defaultPause        = time.Millisecond
	defaultFragmentSize = 16 << 10
	// minFragmentSize leaves room for any rune.
	minFragmentSize = 4
	// maxOutputCap bounds what a request can ask for: the text is kept in memory.
	maxOutputCap = 16 << 20
)

func (l Limits) withDefaults() Limits {
	if l.Timeout <= 0 {
		l.Timeout = schemas.DefaultToolTimeoutMS * time.Millisecond
	}
	if l.Grace <= 0 {
		l.Grace = defaultGrace
	}
	if l.OutputCap <= 0 {
		l.OutputCap = schemas.DefaultOutputCap
	}
	if l.FullCap <= 0 {
		l.FullCap = defaultFullCap
	}
	if l.Pause <= 0 {
		l.Pause = defaultPause
	}
	if l.FragmentSize <= 0 {
		l.FragmentSize = defaultFragmentSize
	}
	l.FragmentSize = max(l.FragmentSize, minFragmentSize)
	return l
}

// milliseconds is a duration that does not overflow.
func milliseconds(ms int64) time.Duration {
	return time.Duration(min(ms, int64(24*time.Hour/time.Millisecond))) * time.Millisecond
}
