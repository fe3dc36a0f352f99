package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/bus/bustest"
	"braid/engine/internal/session"
	"braid/llm"
	"braid/llm/shell"
	"braid/schemas"
	"braid/schemas/schematest"
)

// runner waits for the session's runner to be in its loop.
func (h *house) runner(e *Engine) *runner {
	h.t.Helper()
	var r *runner
	h.eventually("no runner", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		r = e.mu.runners[ref]
		return r != nil
	})
	return r
}

// streams creates a session on a model that stops in the middle of its first attempt, and waits
// until it is there.
func (h *house) streams() {
	h.t.Helper()
	h.create("scripted/slow", schemas.ApproveAll)
	h.task("t1", "go")
	h.follow(func(m schemas.Message) bool {
		p, ok := m.Payload.(*schemas.PartialText)
		return ok && strings.Contains(p.Text, "two")
	})
}

// owners renders who took the session over.
func owners(messages []schemas.Message) (out []string) {
	for _, m := range messages {
		if p, ok := m.Payload.(*schemas.OwnerChanged); ok {
			out = append(out, p.From+" "+p.To+" "+p.Cause)
		}
	}
	return out
}

// A session whose loop, or one of whose helpers, panics is lost like that of a killed engine, and
// the engine goes on. Nobody's command rings it any more, so the engine does.
func TestPanicLosesTheSessionOnly(t *testing.T) {
	for name, panics := range map[string]func(*runner){
		"loop":   func(r *runner) { r.onLoop(func() { panic("loop") }) },
		"helper": func(r *runner) { r.spawn(func(context.Context) { panic("helper") }) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, bustest.Single(t), map[string]string{"slow": streaming})
			e := h.engine("e1")
			h.streams()
			panics(h.runner(e))
			if diff := cmp.Diff([]string{"e1 e1 lost"}, owners(h.follow(taskEnded))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// An owner that gets no fresh acknowledgement for a model call hands the session over.
func TestUnconfirmedOwnerHandsOver(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"slow": streaming})
	e := h.engine("e1")
	h.streams()
	r := h.runner(e)
	h.eventually("a frame stays in flight", func() bool {
		injected := make(chan bool, 1)
		r.onLoop(func() {
			quiet := r.quiet()
			if quiet {
				r.flying = true
				r.results <- result{job: job{confirm: &session.CallModel{}}, err: fmt.Errorf("confirm: %w", bus.ErrUnconfirmed)}
			}
			injected <- quiet
		})
		return <-injected
	})
	if diff := cmp.Diff([]string{"e1 e1 handover"}, owners(h.follow(taskEnded))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// boom is a provider that panics when it is asked for a model, as a broken command would.
type boom struct{ asked atomic.Int32 }

func (b *boom) Name() string     { return "boom" }
func (b *boom) Models() []string { return nil }
func (b *boom) Model(string) (llm.Model, error) {
	b.asked.Add(1)
	panic("boom")
}

// A command that one owner after the other does not survive is skipped, with an outcome.
func TestCommandThatKillsItsOwners(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), nil)
	provider := &boom{}
	models, err := llm.NewCatalog(&shell.Provider{}, provider)
	if err != nil {
		t.Fatal(err)
	}
	h.models = models
	h.engine("e1", func(o *Options) { o.Timing.Ring = 20 * time.Millisecond })
	o := h.send(schemas.Command{ID: "k", Type: schemas.CommandCreate, Session: ref, Create: &schemas.CreateBody{Model: "boom/x"}})
	if o.Code != schemas.CodeInternal {
		t.Errorf("outcome %+v", o)
	}
	if n := provider.asked.Load(); n != maxTakeovers {
		t.Errorf("%d owners tried", n)
	}
	// The next one finds a session that works.
	h.create("shell/demo", schemas.ApproveAll)
	h.task("t", "hello")
	h.follow(taskEnded)
}

// The same command twice in the stream, further apart than the broker remembers ids, and neither
// read yet: it is applied once and has one outcome.
func TestRepeatBeforeTheFirstIsStored(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"slow": streaming})
	e := h.engine("e1")
	h.streams()
	r := h.runner(e)
	taken := make(chan error, 1)
	r.onLoop(func() {
		c := bus.StoredCommand{Sequence: r.state.Cursor + 10, Command: schemas.Command{
			ID: "twice", Type: schemas.CommandTask, Session: ref, Task: &schemas.TaskBody{Prompt: "x"},
		}}
		err := r.takeCommand(c)
		c.Sequence++
		taken <- errors.Join(err, r.takeCommand(c))
	})
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
	h.eventually("a repeat waits for ever", func() bool {
		left := make(chan int, 1)
		r.onLoop(func() { left <- len(r.commands) })
		return <-left == 0
	})
	n := 0
	for f, err := range h.conn.ReadFrames(context.Background(), ref, 0, 0, bus.LogOnly) {
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range f.Messages {
			if p, ok := m.Payload.(*schemas.CommandOutcome); ok && p.CommandID == "twice" {
				n++
			}
		}
	}
	if n != 1 {
		t.Errorf("%d outcomes", n)
	}
}

// An engine that is stopped after it has claimed, and goes on when another one owns the session,
// leaves that one's running key alone: it may be all that tells of the session.
func TestFencedWhileLoading(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), nil)
	e := h.engine("e1", withoutWatch) // else it looks after the other's session: that one does not live
	ctx := context.Background()
	r := newRunner(e, ref, bus.Claim{})
	claimed, err := r.takeClaim(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r.tenure = newTenure(ctx, ref, claimed.owner)
	defer r.helpers.Wait()
	defer r.cancel(errTenureEnded)
	if _, err := h.conn.Claim(ctx, ref, bus.ClaimRequest{Instance: "other", After: claimed.owner.Claim()}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.conn.MarkRunning(ctx, "other", ref); err != nil {
		t.Fatal(err)
	}
	if err := r.load(); !errors.Is(err, bus.ErrFenced) {
		t.Fatalf("load: %v", err)
	}
	if keys, err := h.conn.RunningOf(ctx, "other"); err != nil || len(keys) != 1 {
		t.Errorf("the new owner's keys: %v, %v", keys, err)
	}
}

// Marking the end of a session does not touch the owner while a frame is in flight. The race
// detector looks.
func TestTailMarksAmongFrames(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{
		"busy": "turns:\n  - steps:\n      - {text: " + strings.Repeat("word ", 400) + ", deltas: 400, pace: 1ms}\n",
	})
	h.engine("e1", func(o *Options) {
		o.Timing.Tail, o.Timing.Mark = time.Millisecond, time.Millisecond
	})
	h.create("scripted/busy", schemas.ApproveAll)
	h.task("t", "go")
	h.follow(taskEnded)
}

// A clock that is set forward makes no loop look stuck.
func TestStuckGoesByTheMonotonicClock(t *testing.T) {
	r := &runner{born: time.Now()}
	r.touch()
	if r.stuck(time.Hour) {
		t.Error("stuck at once")
	}
	r.born = time.Now().Add(-2 * time.Hour)
	if !r.stuck(time.Hour) {
		t.Error("not stuck after two hours")
	}
}

// A command's body is on its way for as long as it takes: its loop is not given up meanwhile.
func TestReadingACommandIsNotStuck(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), nil)
	e, w := h.wired("e1", func(o *Options) { o.Timing.Rest = time.Hour })
	h.stops(e)
	h.create("shell/demo", schemas.ApproveAll)
	body := w.holdAnswers("$JS.API.DIRECT.GET.OBJ_")
	h.post(schemas.Command{ID: "t", Type: schemas.CommandTask, Session: ref, Task: &schemas.TaskBody{
		Input: []schemas.InputTurn{{Role: schemas.RoleUser, Content: []schemas.InputPart{
			{Type: schemas.KindText, Text: "what is it?"},
			{Type: schemas.KindImageURL, ImageURL: schematest.Image("image/png", 1_200_000)}, // no message holds it
		}}},
	}})
	body.wait()
	r := h.runner(e)
	if r.stuck(0) {
		t.Error("stuck while it reads")
	}
	body.release()
	h.follow(func(m schemas.Message) bool {
		p, ok := m.Payload.(*schemas.CommandOutcome)
		return ok && p.CommandID == "t"
	})
}

// A hand-over leaves effects to the next owner, but for answers: what is stored is so.
func TestHandOverKeepsAnswers(t *testing.T) {
	answer := session.Answer{Outcome: schemas.Outcome{CommandID: "k"}}
	got := answersOnly([]waitingEffects{
		{mark: 1, effects: []session.Effect{session.ListTools{}}},
		{mark: 2, effects: []session.Effect{session.StopModel{}, answer}},
	})
	if len(got) != 1 || got[0].mark != 2 || len(got[0].effects) != 1 || got[0].effects[0] != session.Effect(answer) {
		t.Errorf("kept %+v", got)
	}
}

// closing is a model that closes its segment when it is told to stop, as adapters may.
type closing struct{ closed chan error }

func (c *closing) Name() string                    { return "closing" }
func (c *closing) Models() []string                { return nil }
func (c *closing) Model(string) (llm.Model, error) { return c, nil }
func (c *closing) Info() llm.Info                  { return llm.Info{} }
func (c *closing) Stream(ctx context.Context, _ llm.Request, emit func(schemas.Message) error) llm.Outcome {
	now := time.Now()
	_ = emit(schemas.New(now, schemas.TextFragment(schemas.PhaseStart, "")))
	<-ctx.Done()
	err := emit(schemas.New(now, schemas.TextFragment(schemas.PhaseStop, "")))
	c.closed <- errors.Join(err, emit(schemas.New(now, schemas.AssistantText(""))))
	return llm.Interrupted(ctx)
}

// What a model says after it was stopped is taken without a word, and goes nowhere.
func TestModelClosesItsSegmentLate(t *testing.T) {
	model := &closing{closed: make(chan error, 1)}
	r := &runner{e: &Engine{jitter: func() float64 { return 0 }}}
	r.tenure = newTenure(context.Background(), ref, nil)
	r.stream = make(chan session.Event, 1) // room for the start alone
	ctx, cancel := context.WithCancel(r.ctx)
	var done sync.WaitGroup
	done.Go(func() { r.callModel(ctx, model, "p/m", llm.Request{}, 1) })
	for len(r.stream) == 0 {
		runtime.Gosched()
	}
	cancel()
	if err := <-model.closed; err != nil {
		t.Errorf("emit after the end: %v", err)
	}
	r.cancel(errTenureEnded)
	done.Wait()
}

// An engine that stops removes the proof of its life, also when it could not hand all its sessions
// over: they are rung as if it had been killed.
func TestKeysOfAnEngineThatStopped(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), nil)
	e := h.engine("e1")
	ctx := context.Background()
	beat, err := h.conn.StartBeat(ctx, bus.KindEngine, "e0", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newWatcher(e)
	w.kept = time.Now()
	h.eventually("the other engine is not seen", func() bool { w.look(ctx); return w.seen["e0"] })
	if _, err := h.conn.MarkRunning(ctx, "e0", ref); err != nil {
		t.Fatal(err)
	}
	if err := beat.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	h.eventually("nobody rings", func() bool { w.look(ctx); return !w.rung[ref].IsZero() })
}
