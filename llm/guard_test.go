package llm_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"braid/llm"
	"braid/llm/llmtest"
	"braid/schemas"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// modelFunc is a model that does what a test wants it to.
type modelFunc func(context.Context, llm.Request, func(schemas.Message) error) llm.Outcome

func (f modelFunc) Info() llm.Info { return llm.Info{} }

func (f modelFunc) Stream(ctx context.Context, req llm.Request, emit func(schemas.Message) error) llm.Outcome {
	return f(ctx, req, emit)
}

// saying is a model that emits the payloads, whatever emit says, and ends as told.
func saying(o llm.Outcome, payloads ...schemas.Payload) llm.Model {
	return modelFunc(func(_ context.Context, _ llm.Request, emit func(schemas.Message) error) llm.Outcome {
		for _, p := range payloads {
			_ = emit(schemas.New(noon, p))
		}
		return o
	})
}

func textPart(phase schemas.Phase, s string) schemas.Payload { return schemas.TextFragment(phase, s) }

func callPart(phase schemas.Phase, id, name, args string) schemas.Payload {
	return schemas.ToolCallFragment(phase, id, name, args)
}

const (
	begin = schemas.PhaseStart
	delta = schemas.PhaseDelta
	stop  = schemas.PhaseStop
)

func TestGuardMisbehaviour(t *testing.T) {
	done := llm.Completed(&schemas.TokenCounts{Total: 7})
	broken := llm.Outcome{Status: schemas.StopFailed, Error: &llm.Error{Message: "broken"}}
	marked := func(p schemas.Payload, reason schemas.StopReason) schemas.Payload {
		switch p := p.(type) {
		case *schemas.Text:
			p.StopReason = reason
		case *schemas.ToolCall:
			p.StopReason = reason
		case *schemas.Thinking:
			p.StopReason = reason
		}
		return p
	}
	aText := func(reason schemas.StopReason) schemas.Payload { return marked(schemas.AssistantText("a"), reason) }
	wrong := schemas.UserText("a")
	scoped := schemas.AssistantText("a")
	tests := []struct {
		name   string
		model  llm.Model
		status schemas.StopReason
		says   string // in the error's message
		want   []schemas.Payload
	}{
		{"what is right passes", saying(done, textPart(begin, ""), textPart(delta, "a"), textPart(stop, ""), aText("")), schemas.StopCompleted, "", []schemas.Payload{aText("")}},
		{"saying nothing is right", saying(done), schemas.StopCompleted, "", nil},
		{"messages without fragments get them", saying(done, aText(""), schemas.AssistantThinking(""), schemas.NewToolCall("c", "t", "{}")), schemas.StopCompleted, "", []schemas.Payload{aText(""), schemas.AssistantThinking(""), schemas.NewToolCall("c", "t", "{}")}},
		{"pictures need none", saying(done, &schemas.ImageURL{Role: schemas.RoleAssistant}, &schemas.InlineData{Role: schemas.RoleAssistant}, &schemas.InlineThinking{Role: schemas.RoleAssistant}), schemas.StopCompleted, "", []schemas.Payload{&schemas.ImageURL{Role: schemas.RoleAssistant}, &schemas.InlineData{Role: schemas.RoleAssistant}, &schemas.InlineThinking{Role: schemas.RoleAssistant}}},
		{"a segment left open", saying(done, textPart(begin, ""), textPart(delta, "a")), schemas.StopMalformed, "in the middle of a text", []schemas.Payload{aText("malformed")}},
		{"a segment left open by a failure", saying(broken, textPart(begin, ""), textPart(delta, "a")), schemas.StopFailed, "broken", []schemas.Payload{aText("failed")}},
		{"a stop without its message", saying(done, textPart(begin, ""), textPart(delta, "a"), textPart(stop, "")), schemas.StopMalformed, "in the middle", []schemas.Payload{aText("malformed")}},
		{"a message that differs from its fragments", saying(done, textPart(begin, ""), textPart(delta, "a"), textPart(stop, ""), schemas.AssistantText("b")), schemas.StopMalformed, "text differs from its 1 bytes", []schemas.Payload{aText("malformed")}},
		{"a message before the stop", saying(done, textPart(begin, ""), textPart(delta, "a"), aText("")), schemas.StopMalformed, "wrong place", []schemas.Payload{aText("malformed")}},
		{"a delta after the stop", saying(done, textPart(begin, ""), textPart(delta, "a"), textPart(stop, ""), textPart(delta, "b")), schemas.StopMalformed, "wrong place", []schemas.Payload{aText("malformed")}},
		{"a delta without a start", saying(done, textPart(delta, "a")), schemas.StopMalformed, "without a start", nil},
		{"a second start", saying(done, textPart(begin, ""), textPart(delta, "a"), textPart(begin, "")), schemas.StopMalformed, "while another text is open", []schemas.Payload{aText("malformed")}},
		{"segments that interleave", saying(done, textPart(begin, ""), textPart(delta, "a"), callPart(begin, "c", "t", "")), schemas.StopMalformed, "while another text is open", []schemas.Payload{aText("malformed")}},
		{"calls that interleave", saying(done, callPart(begin, "c", "t", ""), callPart(delta, "d", "", "{}")), schemas.StopMalformed, "while another tool_call", []schemas.Payload{marked(schemas.NewToolCall("c", "t", ""), "malformed")}},
		{"a picture inside of a segment", saying(done, textPart(begin, ""), textPart(delta, "a"), &schemas.ImageURL{Role: schemas.RoleAssistant}), schemas.StopMalformed, "while another text is open", []schemas.Payload{aText("malformed")}},
		{"a call that changes its name", saying(done, callPart(begin, "c", "t", ""), callPart(stop, "c", "", ""), schemas.NewToolCall("c", "u", "")), schemas.StopMalformed, "another name", []schemas.Payload{marked(schemas.NewToolCall("c", "t", ""), "malformed")}},
		{"a start with content", saying(done, textPart(begin, "a")), schemas.StopMalformed, "carries content", nil},
		{"a stop with content", saying(done, textPart(begin, ""), textPart(stop, "a")), schemas.StopMalformed, "carries content", []schemas.Payload{marked(schemas.AssistantText(""), "malformed")}},
		{"an unknown phase", saying(done, textPart("middle", "a")), schemas.StopMalformed, "nothing a model says", nil},
		{"an event", saying(done, &schemas.RequestEnd{}), schemas.StopMalformed, "request_end is nothing a model says", nil},
		{"the user's words", saying(done, wrong), schemas.StopMalformed, `role "user"`, nil},
		{"no payload", saying(done, nil), schemas.StopMalformed, "nothing a model says", nil},
		{"text that is not UTF-8", saying(done, textPart(begin, ""), textPart(delta, "\xe2\x82")), schemas.StopMalformed, "not valid UTF-8", []schemas.Payload{marked(schemas.AssistantText(""), "malformed")}},
		{"a scope", modelFunc(func(_ context.Context, _ llm.Request, emit func(schemas.Message) error) llm.Outcome {
			_ = emit(schemas.NewTraceOnly(noon, scoped))
			return done
		}), schemas.StopMalformed, "origin or a scope", nil},
		{"nothing gets through after a fault", saying(done, textPart(delta, "a"), aText("")), schemas.StopMalformed, "without a start", nil},
		{"no status", saying(llm.Outcome{}), schemas.StopMalformed, "unknown status", nil},
		{"an unknown status", saying(llm.Outcome{Status: "fine"}), schemas.StopMalformed, `unknown status "fine"`, nil},
		{"a failure without a reason", saying(llm.Outcome{Status: schemas.StopAuth}), schemas.StopAuth, "gave no reason", nil},
		{"completed, with an error", saying(llm.Outcome{Status: schemas.StopCompleted, Error: &llm.Error{}}), schemas.StopCompleted, "", nil},
		{"a panic in a segment", modelFunc(func(_ context.Context, _ llm.Request, emit func(schemas.Message) error) llm.Outcome {
			_ = emit(schemas.New(noon, textPart(begin, "")))
			_ = emit(schemas.New(noon, textPart(delta, "a")))
			panic("boom")
		}), schemas.StopFailed, "panicked: boom", []schemas.Payload{aText("failed")}},
		{"a goroutine that ends", modelFunc(func(context.Context, llm.Request, func(schemas.Message) error) llm.Outcome {
			runtime.Goexit()
			return done
		}), schemas.StopFailed, "ended its goroutine", nil},
	}
	for _, tt := range tests {
		// The model that is told of its fault has all the time it needs to say what it used.
		t.Run(tt.name, inBubble(func(t *testing.T) {
			r := llmtest.Run(t, t.Context(), llm.Guard(tt.model), llm.Request{})
			if r.Status != tt.status {
				t.Errorf("status %s (%v), want %s", r.Status, r.Error, tt.status)
			}
			if r.Error != nil && (tt.says == "" || !strings.Contains(r.Error.Message, tt.says)) {
				t.Errorf("error %q does not say %q", r.Error.Message, tt.says)
			}
			var got []schemas.Payload
			for _, m := range r.Complete() {
				got = append(got, m.Payload)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("complete messages (-want +got)\n%s", diff)
			}
			if tt.status == schemas.StopMalformed && strings.Contains(r.Error.Message, "protocol") && r.Usage == nil {
				t.Error("the usage is lost")
			}
		}))
	}
}

// inBubble is the test on a clock of its own, which stands still as long as anything is left to do.
func inBubble(f func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, f) }
}

// A model that does not hear that it was cancelled ends all the same; it is counted until it
// returns, and nothing it says later gets through.
func TestCase_C27_ModelIgnoresCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var late error
		m := modelFunc(func(_ context.Context, _ llm.Request, emit func(schemas.Message) error) llm.Outcome {
			e := llm.NewEmitter(emit, nil)
			_ = e.Text("a")
			<-release
			late = emit(schemas.New(noon, textPart(delta, "late")))
			return llm.Completed(nil)
		})
		g := llm.Guard(m)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		begun := time.Now()
		r := llmtest.Run(t, ctx, g, llm.Request{})
		if d := time.Since(begun) - time.Minute; d > 200*time.Millisecond {
			t.Errorf("it ended %s after the cancellation", d)
		}
		if r.Status != schemas.StopAborted || r.Text() != "a" {
			t.Errorf("%s, %q; want aborted with what was said", r.Status, r.Text())
		}
		if g.Abandoned() != 1 {
			t.Errorf("%d abandoned, want 1", g.Abandoned())
		}
		soon, stopWaiting := context.WithTimeout(t.Context(), time.Second)
		defer stopWaiting()
		if err := g.Close(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close while it hangs: %v", err)
		}
		close(release)
		if err := g.Close(t.Context()); err != nil || g.Abandoned() != 0 {
			t.Errorf("Close: %v, %d abandoned", err, g.Abandoned())
		}
		if late == nil {
			t.Error("a late message was taken")
		}
	})
}

// A model that is told at the first fault but goes on does not hold its caller up.
func TestGuardLeavesAModelThatIgnoresErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := modelFunc(func(_ context.Context, _ llm.Request, emit func(schemas.Message) error) llm.Outcome {
			_ = emit(schemas.New(noon, textPart(delta, "no start")))
			time.Sleep(time.Hour)
			return llm.Completed(nil)
		})
		g := llm.Guard(m)
		begun := time.Now()
		r := llmtest.Run(t, t.Context(), g, llm.Request{})
		if d := time.Since(begun); r.Status != schemas.StopMalformed || d > time.Second {
			t.Errorf("%s after %s", r.Status, d)
		}
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestGuardKeepsLateUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := modelFunc(func(ctx context.Context, _ llm.Request, emit func(schemas.Message) error) llm.Outcome {
			e := llm.NewEmitter(emit, nil)
			_ = e.Text("a")
			<-ctx.Done()
			time.Sleep(100 * time.Millisecond) // the provider takes a moment
			return e.End(llm.Completed(&schemas.TokenCounts{Total: 42}))
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r := llmtest.Run(t, ctx, llm.Guard(m), llm.Request{})
		if r.Status != schemas.StopTimeout || r.Usage == nil || r.Usage.Total != 42 {
			t.Errorf("%s, usage %+v; want timeout with the usage", r.Status, r.Usage)
		}
	})
}

// A goroutine that a model leaves running can't say anything once the request is over.
func TestNothingAfterTheEnd(t *testing.T) {
	over, late := make(chan struct{}), make(chan error, 1)
	m := modelFunc(func(_ context.Context, _ llm.Request, emit func(schemas.Message) error) llm.Outcome {
		go func() {
			<-over
			late <- emit(schemas.New(noon, schemas.AssistantText("late")))
		}()
		return llm.Completed(nil)
	})
	s := &sink{room: -1}
	llm.Guard(m).Stream(t.Context(), llm.Request{}, s.emit)
	close(over)
	if err := <-late; err == nil || len(s.messages) != 0 {
		t.Errorf("it was taken: %v, %d messages", err, len(s.messages))
	}
}

// An answer that is complete only after its request ended is not completed.
func TestCase_D28_LateAnswer(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("somebody pressed stop")
	m := modelFunc(func(_ context.Context, _ llm.Request, emit func(schemas.Message) error) llm.Outcome {
		cancel(why)
		if err := emit(schemas.New(noon, schemas.AssistantText("late"))); !errors.Is(err, why) && err == nil {
			t.Error("a late message was taken")
		}
		return llm.Completed(nil)
	})
	r := llmtest.Run(t, ctx, llm.Guard(m), llm.Request{})
	if r.Status != schemas.StopAborted || !errors.Is(r.Error, why) || len(r.Messages) != 0 {
		t.Errorf("%s, %v, %d messages", r.Status, r.Error, len(r.Messages))
	}
	if r = llmtest.Run(t, ctx, llm.Guard(m), llm.Request{}); r.Status != schemas.StopAborted {
		t.Errorf("begun after the end: %s", r.Status)
	}
}

func TestGuardEmitFails(t *testing.T) {
	payloads := []schemas.Payload{textPart(begin, ""), textPart(delta, "a"), textPart(stop, ""), schemas.AssistantText("a"), schemas.NewToolCall("c", "t", "{}")}
	for n := range 8 {
		s := &sink{room: n}
		o := llm.Guard(saying(llm.Completed(nil), payloads...)).Stream(t.Context(), llm.Request{}, s.emit)
		if o.Status != schemas.StopAborted || !errors.Is(o.Error, errFull) || s.refused != 1 {
			t.Errorf("after %d messages: %s, %v, emit refused %d times", n, o.Status, o.Error, s.refused)
		}
	}
	// It fails only when the guard closes what the model left open.
	s := &sink{room: 2}
	o := llm.Guard(saying(llm.Completed(nil), payloads[:2]...)).Stream(t.Context(), llm.Request{}, s.emit)
	if o.Status != schemas.StopAborted || s.refused != 1 {
		t.Errorf("at the guard's own stop: %s, refused %d times", o.Status, s.refused)
	}
}

func TestGuardEmitPanics(t *testing.T) {
	calls := 0
	o := llm.Guard(saying(llm.Completed(nil), schemas.AssistantText("a"))).Stream(t.Context(), llm.Request{},
		func(schemas.Message) error { calls++; panic("mine") })
	if o.Status == schemas.StopCompleted || calls != 1 {
		t.Errorf("%s after %d calls", o.Status, calls)
	}
}

// What a guarded model emits is legal whatever the model emits, and completed only if all of it
// came through.
func TestGuardAlwaysLegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.Custom(func(t *rapid.T) schemas.Payload {
			phase := rapid.SampledFrom([]schemas.Phase{begin, delta, stop, ""}).Draw(t, "phase")
			s := rapid.SampledFrom([]string{"", "a"}).Draw(t, "text")
			switch rapid.IntRange(0, 6).Draw(t, "kind") {
			case 0:
				return textPart(phase, s)
			case 1:
				return schemas.ThinkingFragment(phase, s)
			case 2:
				return callPart(phase, s, s, s)
			case 3:
				return schemas.AssistantText(s)
			case 4:
				return schemas.AssistantThinking(s)
			case 5:
				return schemas.NewToolCall(s, s, s)
			}
			return &schemas.ImageURL{Role: schemas.RoleAssistant}
		})
		payloads := rapid.SliceOfN(part, 0, 12).Draw(t, "payloads")
		s := &sink{room: -1}
		o := llm.Guard(saying(llm.Completed(nil), payloads...)).Stream(t.Context(), llm.Request{}, s.emit)
		if err := llmtest.Check(s.messages); err != nil {
			t.Fatalf("%v\n%s", err, llmtest.Describe(s.messages))
		}
		complete := 0
		for _, p := range payloads {
			switch p.(type) {
			case *schemas.PartialText, *schemas.PartialThinking, *schemas.PartialToolCall:
			default:
				complete++
			}
		}
		got := len((llmtest.Result{Messages: s.messages}).Complete())
		if o.Status == schemas.StopCompleted && got != complete {
			t.Fatalf("completed with %d of %d messages", got, complete)
		}
	})
}

// What an emitter says passes the guard unchanged.
func TestGuardIsTransparent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		deltas := rapid.SliceOf(rapid.SampledFrom([]string{"a", "é", ""})).Draw(t, "deltas")
		var direct sink
		direct.room = -1
		m := modelFunc(func(_ context.Context, _ llm.Request, emit func(schemas.Message) error) llm.Outcome {
			e := llm.NewEmitter(emit, atNoon)
			for i, d := range deltas {
				switch i % 3 {
				case 0:
					_ = e.Text(d)
				case 1:
					_ = e.Thinking(d)
				case 2:
					_ = e.ToolCallStart("c", d)
				}
			}
			return e.End(llm.Completed(nil))
		})
		m.Stream(t.Context(), llm.Request{}, direct.emit)
		guarded := sink{room: -1}
		o := llm.Guard(m).Stream(t.Context(), llm.Request{}, guarded.emit)
		if diff := cmp.Diff(direct.messages, guarded.messages); diff != "" || o.Status != schemas.StopCompleted {
			t.Fatalf("%s (-direct +guarded)\n%s", o.Status, diff)
		}
	})
}

func TestGuardConcurrently(t *testing.T) {
	g := llm.Guard(saying(llm.Completed(nil), schemas.AssistantText("a")))
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if r := llmtest.Run(t, t.Context(), g, llm.Request{}); r.Text() != "a" {
				t.Errorf("text %q", r.Text())
			}
		})
	}
	wg.Wait()
	if err := g.Close(t.Context()); err != nil || g.Abandoned() != 0 {
		t.Errorf("%v, %d abandoned", err, g.Abandoned())
	}
}

func TestGuardOnce(t *testing.T) {
	g := llm.Guard(saying(llm.Completed(nil)))
	if llm.Guard(g) != g {
		t.Error("a guarded model was guarded again")
	}
}

// A request that was stopped has no usage of its provider, yet its estimate is not zero.
func TestCase_A33_EstimateOfAnAbortedRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := modelFunc(func(ctx context.Context, _ llm.Request, emit func(schemas.Message) error) llm.Outcome {
		e := llm.NewEmitter(emit, nil)
		for range 200 {
			_ = e.Text("chunk ")
		}
		cancel()
		return e.End(llm.Interrupted(ctx))
	})
	req := llm.Request{Input: []schemas.Message{schemas.New(noon, schemas.UserText("count to a thousand"))}}
	r := llmtest.Run(t, ctx, llm.Guard(m), req)
	if r.Status != schemas.StopAborted || r.Usage != nil {
		t.Fatalf("%s, usage %+v", r.Status, r.Usage)
	}
	got, estimated := llm.Used(req, r.Outcome, r.Messages)
	if !estimated {
		t.Error("it is not marked as an estimate")
	}
	if want := (schemas.TokenCounts{Output: 4 + 300, Total: 4 + 300 + 4 + 5}); got.Output != want.Output || got.Total != want.Total {
		t.Errorf("estimate %+v, want %+v", got, want)
	}
}
