package engine

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"braid/bus/bustest"
	"braid/llm"
	"braid/schemas"
)

// paced is a model that speaks after each wait, then completes.
type paced struct {
	waits []time.Duration
	pings bool // instead of speaking
}

func (paced) Info() llm.Info { return llm.Info{} }

func (m paced) Stream(ctx context.Context, req llm.Request, emit func(schemas.Message) error) llm.Outcome {
	for _, wait := range m.waits {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return llm.Interrupted(ctx)
		}
		if m.pings {
			req.Alive()
			continue
		}
		if err := emit(schemas.New(time.Now(), schemas.AssistantText("x"))); err != nil {
			return llm.Interrupted(ctx)
		}
	}
	return llm.Completed(nil)
}

func TestTimeouts(t *testing.T) {
	const second = time.Second
	twice := []time.Duration{2 * second, 2 * second}
	limits := schemas.Limits{RequestTimeoutMS: 10_000, IdleTimeoutMS: 3_000}
	for _, c := range []struct {
		why    string
		model  llm.Model
		slow   time.Duration // how long the session takes for a message
		status schemas.StopReason
		failed string
		took   time.Duration
	}{
		{"fast enough", paced{waits: twice}, 0, schemas.StopCompleted, "", 4 * second},
		{"nothing but pings", paced{waits: twice, pings: true}, 0, schemas.StopCompleted, "", 4 * second},
		{"silent from the first", paced{waits: []time.Duration{time.Hour}}, 0, schemas.StopTimeout, "the model said nothing for 3s", 3 * second},
		{"silent after a word", paced{waits: []time.Duration{second, time.Hour}}, 0, schemas.StopTimeout, "the model said nothing for 3s", 4 * second},
		{"a word every other second, without end", paced{waits: slices.Repeat(twice, 3)}, 0,
			schemas.StopTimeout, "the model did not finish within 10s", 10 * second},
		{"the session is slow, not the model", paced{waits: []time.Duration{second, second}}, 4 * second, schemas.StopCompleted, "", 10 * second},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limits
				if c.slow > 0 {
					l.RequestTimeoutMS = 0
				}
				begun := time.Now()
				o := newImpatient(c.model, "pro", l).Stream(t.Context(), llm.Request{}, func(schemas.Message) error {
					time.Sleep(c.slow)
					return nil
				})
				if took := time.Since(begun); took != c.took {
					t.Errorf("took %s, want %s", took, c.took)
				}
				if o.Status != c.status {
					t.Errorf("status %s", o.Status)
				}
				if c.failed != "" && (o.Error == nil || o.Error.Message != c.failed || !o.Error.Retryable || o.Error.Provider != "pro") {
					t.Errorf("error %+v, want %q", o.Error, c.failed)
				}
			})
		})
	}
}

// late answers when its time is over, as if nothing were wrong.
type late struct{}

func (late) Info() llm.Info { return llm.Info{} }

func (late) Stream(ctx context.Context, _ llm.Request, _ func(schemas.Message) error) llm.Outcome {
	<-ctx.Done()
	return llm.Completed(nil)
}

// An answer that comes too late is none, whoever aborts or not.
func TestCase_D28_LateAnswerIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newImpatient(late{}, "pro", schemas.Limits{RequestTimeoutMS: 1000}).Stream(t.Context(), llm.Request{}, nil)
		if o.Status != schemas.StopTimeout || o.Error == nil {
			t.Errorf("outcome %+v", o)
		}
	})
}

// limited creates a session within limits.
func (h *house) limited(model string, l schemas.Limits) {
	h.t.Helper()
	o := h.send(schemas.Command{ID: "create", Type: schemas.CommandCreate, Session: ref, Create: &schemas.CreateBody{
		Model: model, ApprovalMode: schemas.ApproveAll, Limits: l,
	}})
	if o.Code != schemas.CodeApplied {
		h.t.Fatalf("create: %+v", o)
	}
}

// A provider sends a word and falls silent: the request times out and is tried again; what it
// had said is taken back.
func TestCase_F05_SilentProvider(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{
		"m": "turns:\n  - attempts:\n      - steps: [{text: [one, {wait: never}]}]\n      - steps: [{text: done}]\n",
	})
	h.engine("e1", func(o *Options) { o.Timing.Retry = 0.01 })
	h.limited("scripted/m", schemas.Limits{IdleTimeoutMS: 200})
	h.task("t", "go")
	var ends []*schemas.RequestEnd
	for _, m := range h.follow(taskEnded) {
		if p, ok := m.Payload.(*schemas.RequestEnd); ok {
			ends = append(ends, p)
		}
	}
	for i, end := range ends[:max(len(ends)-1, 1)] { // a machine may be too slow for the next attempt as well
		if end.Status != schemas.StopTimeout || end.ErrorMessage != "the model said nothing for 200ms" || end.RetryInMS == 0 {
			t.Errorf("request %d ended %+v", i+1, end)
		}
	}
	if last := ends[len(ends)-1]; last.Status != schemas.StopCompleted {
		t.Errorf("the last one ended %+v", last)
	}
}

// The model keeps talking past its time, at every attempt: the task fails as timed out, and says so.
func TestCase_D28_TimeoutIsNoSuccess(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{
		"m": "turns:\n  - steps: [{text: [one, {wait: never}, two]}]\n",
	})
	h.engine("e1", func(o *Options) { o.Timing.Retry = 0.001 })
	h.limited("scripted/m", schemas.Limits{RequestTimeoutMS: 50})
	h.task("t", "go")
	log := h.follow(taskEnded)
	end := log[len(log)-1].Payload.(*schemas.TaskEnd)
	if end.Status != schemas.StopTimeout || end.ErrorInfo == nil || end.ErrorInfo.Message != "the model did not finish within 50ms" {
		t.Errorf("the task ended %+v", end)
	}
}
