package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"braid/schemas"
)

// recorder is an outlet that remembers.
type recorder struct {
	mu        sync.Mutex
	fragments []schemas.ToolFragment
	full      string
	fullErr   error
}

func (r *recorder) outlet() Outlet {
	return Outlet{
		Fragment: func(f schemas.ToolFragment) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.fragments = append(r.fragments, f)
		},
		FullOutput: func(_ context.Context, text io.ReadSeeker) (string, error) {
			b, err := io.ReadAll(text)
			r.full = string(b)
			return "blob", errors.Join(err, r.fullErr)
		},
	}
}

func (r *recorder) texts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var texts []string
	for _, f := range r.fragments {
		texts = append(texts, f.Text)
	}
	return texts
}

// joined adds the fragments up and fails when their offsets leave a gap or overlap.
func joined(t interface{ Errorf(string, ...any) }, fragments []schemas.ToolFragment) string {
	var b strings.Builder
	for _, f := range fragments {
		if f.Offset != int64(b.Len()) {
			t.Errorf("fragment at %d, the text so far ends at %d", f.Offset, b.Len())
		}
		if f.Text == "" || !utf8.ValidString(f.Text) {
			t.Errorf("bad fragment %q", f.Text)
		}
		b.WriteString(f.Text)
	}
	return b.String()
}

var testCall = Call{
	Session: schemas.SessionRef{Project: "p", ID: "s"}, ToolCallID: "c1", Attempt: 1, Name: "test",
}

func toolFunc(run func(ctx context.Context, call Call, out *Output) Result) Tool {
	return Tool{Definition: schemas.ToolDefinition{Name: "test"}, Run: run}
}

// run executes a tool and checks what holds for every execution: the fragments are the output.
func run(t *testing.T, ctx context.Context, limits Limits, tool func(ctx context.Context, out *Output) Result) (schemas.ToolResult, *recorder) {
	t.Helper()
	rec := &recorder{}
	result := Execute(ctx, toolFunc(func(ctx context.Context, _ Call, out *Output) Result {
		return tool(ctx, out)
	}), testCall, limits, rec.outlet())
	if got := joined(t, rec.fragments); got != result.Output {
		t.Errorf("the fragments add up to %q, the output is %q", got, result.Output)
	}
	return result, rec
}

func wantResult(t *testing.T, got schemas.ToolResult, reason schemas.StopReason, output string) {
	t.Helper()
	if got.StopReason != reason || got.Output != output {
		t.Errorf("result is %s %q, want %s %q", got.StopReason, got.Output, reason, output)
	}
}

func write(s string, r Result) func(context.Context, *Output) Result {
	return func(_ context.Context, out *Output) Result {
		_, _ = out.WriteString(s)
		return r
	}
}

func TestEndings(t *testing.T) {
	tests := []struct {
		why    string
		tool   func(context.Context, *Output) Result
		reason schemas.StopReason
		output string
	}{
		{"plain", write("hi\n", Result{}), schemas.StopCompleted, "hi\n"},
		{"an empty output says so", write("", Result{}), schemas.StopCompleted, "[no output]"},
		{"blank is as good as empty", write(" \n\x1b[0m", Result{}), schemas.StopCompleted, " \n[no output]"},
		{"a note gets its own line", write("hi", Result{Note: "[exit code: 3]", StopReason: schemas.StopFailed}), schemas.StopFailed, "hi\n[exit code: 3]"},
		{"a note does not hide that there was no output", write("", Result{Note: "[exit code: 3]"}), schemas.StopCompleted, "[no output]\n[exit code: 3]"},
		{"notes are made safe", write("x\n", Result{Note: "\x1b[1mn\xff\x00\n"}), schemas.StopCompleted, "x\nn\uFFFD"},
		{"an error is shown", write("x", Result{Err: errors.New("disk full")}), schemas.StopFailed, "x\n[failed: disk full]"},
		{"an error outranks the tool's word", write("x", Result{Err: errors.New("e"), StopReason: schemas.StopCompleted}), schemas.StopFailed, "x\n[failed: e]"},
		{"a panic is a failed call", func(context.Context, *Output) Result { panic("boom") }, schemas.StopFailed, "[no output]\n[failed: the tool crashed: boom]"},
		{"Goexit is a failed call", func(context.Context, *Output) Result { runtime.Goexit(); return Result{} }, schemas.StopFailed, "[no output]\n[failed: the tool's goroutine ended without a result]"},
		{"a rune cut off by the end", write("a\xf0\x9f", Result{}), schemas.StopCompleted, "a\uFFFD"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			got, _ := run(t, t.Context(), Limits{}, tt.tool)
			wantResult(t, got, tt.reason, tt.output)
		})
	}
}

func TestImagesPass(t *testing.T) {
	got, _ := run(t, t.Context(), Limits{OutputCap: 1}, write("abc", Result{Images: []string{"data:image/png;base64,AAAA"}}))
	if len(got.Images) != 1 {
		t.Errorf("images %v", got.Images)
	}
}

func TestStopReasonPriority(t *testing.T) {
	untilDone := func(r Result) func(context.Context, *Output) Result {
		return func(ctx context.Context, out *Output) Result { <-ctx.Done(); return r }
	}
	crash := func(ctx context.Context, out *Output) Result { <-ctx.Done(); panic("boom") }
	tests := []struct {
		why    string
		abort  time.Duration
		tool   func(context.Context, *Output) Result
		reason schemas.StopReason
		output string
	}{
		{"abort over the tool's own", time.Second, untilDone(Result{StopReason: schemas.StopCompleted}), schemas.StopAborted, "[no output]\n[aborted: by the user]"},
		{"abort over crash", time.Second, crash, schemas.StopAborted, "[no output]\n[aborted: by the user]"},
		{"timeout over error", time.Hour, untilDone(Result{Err: errors.New("e")}), schemas.StopTimeout, "[no output]\n[timed out after 2s]"},
		{"timeout over crash", time.Hour, crash, schemas.StopTimeout, "[no output]\n[timed out after 2s]"},
		{"abort over timeout", 2*time.Second + time.Millisecond, func(ctx context.Context, out *Output) Result {
			<-ctx.Done()
			time.Sleep(10 * time.Millisecond)
			return Result{}
		}, schemas.StopAborted, "[no output]\n[aborted: by the user]"},
		{"the tool's note stays", time.Second, untilDone(Result{Note: "[half done]"}), schemas.StopAborted, "[no output]\n[half done]\n[aborted: by the user]"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), tt.abort, errors.New("by the user"))
				defer cancel()
				got, _ := run(t, ctx, Limits{Timeout: 2 * time.Second}, tt.tool)
				wantResult(t, got, tt.reason, tt.output)
			})
		})
	}
}

func TestAbortedBeforeStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, _ := run(t, ctx, Limits{}, func(context.Context, *Output) Result {
		t.Error("the tool was run")
		return Result{}
	})
	wantResult(t, got, schemas.StopAborted, "[no output]\n[aborted before it started]")
}

// A tool that does not end is left behind after the grace, and what it writes later is discarded.
func TestCase_D06_HungToolIsLeftBehind(t *testing.T) {
	for _, abort := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if abort {
				time.AfterFunc(time.Second, cancel)
			}
			release, wrote := make(chan struct{}), make(chan error, 1)
			began := time.Now()
			got, rec := run(t, ctx, Limits{Timeout: 3 * time.Second, Grace: 500 * time.Millisecond}, func(_ context.Context, out *Output) Result {
				_, _ = out.WriteString("early\n")
				<-release
				_, err := out.WriteString("late\n")
				wrote <- err
				return Result{}
			})
			want, reason := "early\n[timed out after 3s; it did not stop within 500ms and may still be running]", schemas.StopTimeout
			after := 3500 * time.Millisecond
			if abort {
				want, reason = "early\n[aborted; it did not stop within 500ms and may still be running]", schemas.StopAborted
				after = 1500 * time.Millisecond
			}
			wantResult(t, got, reason, want)
			if took := time.Since(began); took != after { // a fake clock: exact
				t.Errorf("returned after %v, want %v", took, after)
			}
			close(release)
			if err := <-wrote; !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("a late write returned %v", err)
			}
			if joined(t, rec.fragments) != want {
				t.Error("late output was sent")
			}
		})
	}
}

func TestSmallWritesShareAFragment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rec := run(t, t.Context(), Limits{Pause: 5 * time.Millisecond}, func(_ context.Context, out *Output) Result {
			_, _ = out.WriteString("first")
			synctest.Wait() // without the clock moving, the first byte is out
			for _, s := range []string{" a", " b", " c"} {
				_, _ = out.WriteString(s)
				time.Sleep(time.Millisecond)
			}
			time.Sleep(20 * time.Millisecond)
			_, _ = out.WriteString(" quiet before")
			synctest.Wait()
			_, _ = out.WriteString(" end")
			return Result{}
		})
		want := []string{"first", " a b c", " quiet before", " end"}
		if got := rec.texts(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("fragments %q, want %q", got, want)
		}
	})
}

func TestAFragmentsWorthDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var during []string
		rec := &recorder{}
		Execute(t.Context(), toolFunc(func(_ context.Context, _ Call, out *Output) Result {
			_, _ = out.WriteString("x")
			synctest.Wait()
			_, _ = out.WriteString("0123456789é") // é would straddle the size
			synctest.Wait()
			during = rec.texts()
			return Result{}
		}), testCall, Limits{Pause: time.Hour, FragmentSize: 11}, rec.outlet())
		want := []string{"x", "0123456789", "é"}
		if fmt.Sprint(during) != fmt.Sprint(want) {
			t.Errorf("fragments %q, want %q", during, want)
		}
	})
}

// The cut is at a rune boundary, says what it kept, and the whole text is handed over.
func TestCase_D01_CapCutsAtARune(t *testing.T) {
	const limit = 64
	long := strings.Repeat("x", limit-1) + "🌍" + "tail"
	got, rec := run(t, t.Context(), Limits{OutputCap: limit}, write(long, Result{Note: "[exit code: 1]"}))
	want := strings.Repeat("x", limit-1) + fmt.Sprintf("\n[output truncated: kept the first %d of %d bytes]\n[exit code: 1]", limit-1, len(long))
	wantResult(t, got, schemas.StopCompleted, want)
	if got.FullOutput != "blob" || rec.full != long {
		t.Errorf("full output %q: %q", got.FullOutput, rec.full)
	}
	if last := rec.fragments[len(rec.fragments)-1].Text; !strings.HasPrefix(last, "\n[output truncated") && len(rec.fragments) > 1 {
		t.Errorf("the marker is not the last fragment: %q", last)
	}

	got, rec = run(t, t.Context(), Limits{OutputCap: limit}, write(strings.Repeat("x", limit), Result{}))
	wantResult(t, got, schemas.StopCompleted, strings.Repeat("x", limit))
	if got.FullOutput != "" || rec.full != "" {
		t.Error("an output that fits was handed over")
	}

	got, _ = run(t, t.Context(), Limits{}, write("\xff\xfe\x00\x1b", Result{}))
	wantResult(t, got, schemas.StopCompleted, "\uFFFD")
	if line, err := schemas.EncodeJSON(got); err != nil || !utf8.Valid(line) {
		t.Errorf("encode %q: %v", line, err)
	}
}

func TestFullOutputIsBounded(t *testing.T) {
	_, rec := run(t, t.Context(), Limits{OutputCap: 4, FullCap: 10, SpillDir: t.TempDir()}, write("0123456789abcdef", Result{}))
	if rec.full != "0123456789" {
		t.Errorf("kept %q", rec.full)
	}
}

func TestFullOutputThatCannotBeKept(t *testing.T) {
	got, _ := run(t, t.Context(), Limits{OutputCap: 4, SpillDir: t.TempDir() + "/missing"}, write("0123456789", Result{}))
	if got.FullOutput != "" || got.StopReason != schemas.StopCompleted {
		t.Errorf("result %+v", got)
	}
}

func TestAbortHandsNothingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got, rec := run(t, ctx, Limits{OutputCap: 4}, func(ctx context.Context, out *Output) Result {
			_, _ = out.WriteString("0123456789")
			<-ctx.Done()
			return Result{}
		})
		if got.FullOutput != "" || rec.full != "" {
			t.Errorf("handed over %q", rec.full)
		}
	})
}

// Whatever the writes, the fragments are the output, and the output depends on the bytes alone.
func TestOutputDoesNotDependOnWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		atoms := rapid.SampledFrom([]string{"\x1b[1m", "\x1b]0;", "\x07", "\r", "\n", "é", "🌍", "\xf0\x9f", "\xff", "\x00", "words and words "})
		input := strings.Join(rapid.SliceOfN(atoms, 0, 40).Draw(t, "input"), "")
		limits := Limits{
			OutputCap:    rapid.IntRange(1, 80).Draw(t, "cap"),
			FragmentSize: rapid.IntRange(1, 20).Draw(t, "fragment size"),
			Pause:        time.Nanosecond,
		}
		sizes := rapid.SliceOfN(rapid.IntRange(0, 9), 0, 40).Draw(t, "sizes")
		once := executeWrites(t, limits, input, nil)
		if pieces := executeWrites(t, limits, input, sizes); pieces != once {
			t.Fatalf("in pieces %q, at once %q", pieces, once)
		}
	})
}

// executeWrites runs a tool that writes the input in pieces, and checks the fragments and every
// resend.
func executeWrites(t *rapid.T, limits Limits, input string, sizes []int) string {
	rec := &recorder{}
	e := NewExecution(toolFunc(func(_ context.Context, _ Call, out *Output) Result {
		rest := input
		for _, size := range sizes {
			n := min(size, len(rest))
			_, _ = out.WriteString(rest[:n])
			rest = rest[n:]
		}
		_, _ = out.WriteString(rest)
		return Result{Note: "[end]"}
	}), testCall, limits, rec.outlet())
	result := e.Run(context.Background())
	if got := joined(t, rec.fragments); got != result.Output {
		t.Fatalf("fragments %q, output %q", got, result.Output)
	}
	for _, f := range rec.fragments {
		if len(f.Text) > max(limits.FragmentSize, minFragmentSize) {
			t.Fatalf("a fragment of %d bytes", len(f.Text))
		}
	}
	for offset := range len(result.Output) + 2 {
		checkResend(t, e, result.Output, offset)
	}
	return result.Output
}

func checkResend(t *rapid.T, e *Execution, output string, offset int) {
	again := e.From(int64(offset))
	if offset >= len(output) {
		if len(again) > 0 {
			t.Fatalf("From(%d) past the end: %v", offset, again)
		}
		return
	}
	at := int(again[0].Offset)
	if at > offset || at < offset-3 || (utf8.RuneStart(output[offset]) && at != offset) {
		t.Fatalf("From(%d) begins at %d", offset, at)
	}
	var b strings.Builder
	for _, f := range again {
		b.WriteString(f.Text)
	}
	if b.String() != output[at:] {
		t.Fatalf("From(%d) = %q, want %q", offset, b.String(), output[at:])
	}
}

// A gap in the fragments is visible by the offsets, and what is missing comes again on request,
// under the attempt that made it.
func TestCase_B02_B04_ResendWhileRunning(t *testing.T) {
	wrote, release := make(chan struct{}), make(chan struct{})
	call := testCall
	call.Attempt = 3
	e := NewExecution(toolFunc(func(_ context.Context, _ Call, out *Output) Result {
		for i := range 1000 {
			fmt.Fprintf(out, "line %d\n", i)
		}
		close(wrote)
		<-release
		return Result{}
	}), call, Limits{}, Outlet{}) // an outlet that loses everything
	done := make(chan schemas.ToolResult)
	go func() { done <- e.Run(t.Context()) }()
	<-wrote
	all := joined(t, e.From(0))
	if !strings.HasSuffix(all, "line 999\n") {
		t.Errorf("the text so far ends in %q", all[len(all)-20:])
	}
	for _, f := range e.From(0) {
		if f.Attempt != 3 || f.ToolCallID != "c1" {
			t.Errorf("fragment of %s, attempt %d", f.ToolCallID, f.Attempt)
		}
	}
	close(release)
	if result := <-done; result.Output != all {
		t.Error("the result is another text")
	}
}

func TestConcurrentWriters(t *testing.T) {
	got, _ := run(t, t.Context(), Limits{OutputCap: 1 << 20}, func(_ context.Context, out *Output) Result {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 200 {
					_, _ = out.WriteString("line é\n")
				}
			})
		}
		wg.Wait()
		return Result{}
	})
	if want := strings.Repeat("line é\n", 1600); got.Output != want {
		t.Errorf("%d bytes, want %d", len(got.Output), len(want))
	}
}

func BenchmarkExecution(b *testing.B) {
	for _, size := range []int{1, 80, 32 << 10} {
		b.Run(fmt.Sprintf("writes_of_%d", size), func(b *testing.B) {
			piece := []byte(strings.Repeat("x", size))
			const total = 1 << 20
			b.SetBytes(total)
			b.ReportAllocs()
			tool := toolFunc(func(_ context.Context, _ Call, out *Output) Result {
				for n := 0; n < total; n += size {
					_, _ = out.Write(piece)
				}
				return Result{}
			})
			fragments := 0
			outlet := Outlet{Fragment: func(schemas.ToolFragment) { fragments++ }}
			for b.Loop() {
				Execute(context.Background(), tool, testCall, Limits{OutputCap: total}, outlet)
			}
			b.ReportMetric(float64(fragments)/float64(b.N), "fragments/op")
		})
	}
}
