package toolrunner

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"braid/schemas"
)

// inSlot runs a tool in a slot, inside a synctest bubble, and returns where its result will come.
func inSlot(t *testing.T, s *Slots, call Call, limits Limits, run func(ctx context.Context, out *Output) Result) <-chan schemas.ToolResult {
	t.Helper()
	if err := s.Reserve(t.Context()); err != nil {
		t.Fatal(err)
	}
	e := NewExecution(toolFunc(func(ctx context.Context, _ Call, out *Output) Result { return run(ctx, out) }), call, limits, Outlet{})
	result := make(chan schemas.ToolResult, 1)
	if err := s.Start(e, func(ctx context.Context) { result <- e.Run(ctx) }); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // the tool has begun
	return result
}

func untilStopped(ctx context.Context, out *Output) Result {
	_, _ = out.WriteString("begun\n")
	<-ctx.Done()
	return Result{}
}

func numbered(id string, attempt int) Call {
	call := testCall
	call.ToolCallID, call.Attempt = id, attempt
	return call
}

func TestSlotsBoundWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(2)
		first := inSlot(t, s, numbered("a", 1), Limits{}, untilStopped)
		inSlot(t, s, numbered("b", 1), Limits{}, untilStopped)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Reserve(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a third slot: %v", err)
		}
		s.Cancel(testCall.Session, "a", errors.New("by the user"))
		wantResult(t, <-first, schemas.StopAborted, "begun\n[aborted: by the user]")
		if err := s.Reserve(t.Context()); err != nil {
			t.Errorf("the freed slot: %v", err)
		}
		s.Release()
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Reserve(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("a slot after the stop: %v", err)
		}
	})
}

func TestSlotsFindCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(2)
		call := numbered("a", 2)
		result := inSlot(t, s, call, Limits{}, untilStopped)
		synctest.Wait()
		if frags, ok := s.From(call.Key(), 2); !ok || joined2(frags) != "gun\n" {
			t.Errorf("From: %v %v", frags, ok)
		}
		if _, ok := s.From(numbered("a", 1).Key(), 0); ok {
			t.Error("another attempt was found")
		}
		other := schemas.SessionRef{Project: "p", ID: "other"}
		if s.Cancel(other, "a", nil) || s.Cancel(testCall.Session, "b", nil) {
			t.Error("another call was cancelled")
		}
		if !s.Cancel(testCall.Session, "a", nil) {
			t.Error("the call was not found")
		}
		wantResult(t, <-result, schemas.StopAborted, "begun\n[aborted]")
		synctest.Wait()
		if s.Cancel(testCall.Session, "a", nil) {
			t.Error("an ended call was found")
		}
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func joined2(fragments []schemas.ToolFragment) string {
	var b strings.Builder
	for _, f := range fragments {
		b.WriteString(f.Text)
	}
	return b.String()
}

// The same attempt never runs twice at once; a newer one ends an older one that was thought lost.
func TestCase_B04_AttemptsOfOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(3)
		first := inSlot(t, s, numbered("a", 1), Limits{}, untilStopped)
		if err := s.Reserve(t.Context()); err != nil {
			t.Fatal(err)
		}
		e := NewExecution(toolFunc(nil), numbered("a", 1), Limits{}, Outlet{})
		if err := s.Start(e, func(context.Context) { t.Error("it ran twice") }); !errors.Is(err, ErrRunning) {
			t.Errorf("the same attempt again: %v", err)
		}
		s.Release()
		second := inSlot(t, s, numbered("a", 2), Limits{}, untilStopped)
		wantResult(t, <-first, schemas.StopAborted, "begun\n[aborted: attempt 2 has begun]")
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		wantResult(t, <-second, schemas.StopAborted, "begun\n[aborted: the toolrunner is shutting down]")
	})
}

func TestDrainLetsCallsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1)
		result := inSlot(t, s, testCall, Limits{}, func(context.Context, *Output) Result {
			time.Sleep(10 * time.Second)
			return Result{}
		})
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		wantResult(t, <-result, schemas.StopCompleted, "[no output]")
	})
}

// A tool that will not end gives its slot back, is counted, and bounds nobody's stop.
func TestStrayTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1)
		release := make(chan struct{})
		result := inSlot(t, s, testCall, Limits{Timeout: time.Second, Grace: time.Second}, func(context.Context, *Output) Result {
			<-release
			return Result{}
		})
		if got := <-result; got.StopReason != schemas.StopTimeout {
			t.Errorf("result %+v", got)
		}
		if err := s.Reserve(t.Context()); err != nil {
			t.Errorf("the slot is gone: %v", err)
		}
		s.Release()
		bound, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := s.Stop(bound)
		if err == nil || !strings.Contains(err.Error(), "0 calls and 1 tools") {
			t.Errorf("stop: %v", err)
		}
		close(release)
		if err := s.Stop(t.Context()); err != nil {
			t.Errorf("stop again: %v", err)
		}
	})
}
