package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/engine/internal/session"
	"braid/llm"
	"braid/llm/scripted"
	"braid/schemas"
)

// Who owns a session and does not get on with it is left alone: claiming it away would only move
// the load.
func TestSlowOwnerIsLeftAlone(t *testing.T) {
	for name, slow := range map[string]func(*Engine, *wire, *runner) (goOn func()){
		"its loop is busy": func(_ *Engine, _ *wire, r *runner) func() {
			busy, done := make(chan struct{}), make(chan struct{})
			r.onLoop(func() { close(busy); <-done })
			<-busy
			return func() { close(done) }
		},
		"its answers do not come": func(_ *Engine, w *wire, _ *runner) func() { return w.hold("_INBOX.").release },
		"it can't be asked":       func(e *Engine, _ *wire, _ *runner) func() { e.closers[0](); return func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, bustest.Listening(t), map[string]string{"slow": streaming})
			first, w := h.wired("e1")
			h.streams()
			second := h.killable("e2")
			h.stops(second)
			h.eventually("nobody can be judged", func() bool {
				gone, err := second.beat.Gone(context.Background(), bus.KindEngine, "never")
				return err == nil && gone
			})
			goOn := slow(first, w, h.runner(first))
			second.route(context.Background(), stray)
			if now := h.claim(); second.runs(ref) || now.Instance != "e1" {
				t.Errorf("%s owns the session", now.Instance)
			}
			goOn()
			crash(first, w)
		})
	}
	t.Run("it is still loading", func(t *testing.T) {
		t.Parallel()
		h := newHouse(t, bustest.Listening(t), oneWrite)
		first, w := h.wired("e1")
		hands := h.toolrunner("r1")
		ask := h.asks()
		h.stops(first)
		reads := w.hold("$JS.API.DIRECT.GET.SESSIONS")
		second, forwards := h.wired("e2")
		h.stops(second)
		forwards.stopsPulling(bus.LaneControl)
		h.eventually("nobody can be judged", func() bool {
			gone, err := second.beat.Gone(context.Background(), bus.KindEngine, "never")
			return err == nil && gone
		})
		h.post(allow(ask.ToolCallID))
		reads.wait()
		second.route(context.Background(), stray)
		if now := h.claim(); second.runs(ref) || now.Instance != "e1" {
			t.Errorf("%s owns the session", now.Instance)
		}
		reads.release()
		h.runsOnce(hands)
	})
}

// A call is allowed and its owner stopped before it is queued. Another owner has it run; the old
// one goes on, and its call runs no second time.
func TestOldOwnerQueuesLate(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), oneWrite)
	first, w := h.wired("e1")
	h.stops(first)
	hands := h.toolrunner("r1")
	h.create("scripted/m", schemas.ApproveAll)
	record := w.hold("braid.p.output.")
	h.task("t", "go")
	record.wait()
	h.answered()
	all := w.hold("") // it says nothing more at all
	h.engine("e2")
	hands.call(`{}`)
	all.release()
	record.release()
	call := hands.call(`{}`)
	call.say("written") // the old owner hears it too, and learns that it is none
	h.eventually("the old owner stays", func() bool { return !first.runs(ref) })
	if err := call.end(schemas.StopCompleted); err != nil {
		t.Fatal(err)
	}
	expect(t, transcript(h.follow(taskEnded)),
		"call write {}", "allow", "end completed", "owner lost", "output written", "end completed", "task completed")
	hands.startedOnce()
}

// The same, and the other owner has withdrawn the call: what the old one queues can't start.
func TestOldOwnerQueuesWhatWasWithdrawn(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), map[string]string{"m": callScript([2]string{"nobody", `{}`})})
	first, w := h.wired("e1")
	h.stops(first)
	h.toolrunner("r1")
	h.create("scripted/m", schemas.ApproveAll)
	record := w.hold("braid.p.output.")
	h.task("t", "go")
	record.wait()
	h.answered()
	all := w.hold("")
	h.engine("e2")
	h.follow(taskEnded) // nobody took the call
	all.release()
	record.release()
	h.eventually("the old owner stays", func() bool { return !first.runs(ref) })
	queue, err := h.conn.ToolQueue(context.Background(), ref.Project, "empty", bus.ToolQueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	calls, err := queue.Pull(context.Background(), 8)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		_, err := h.conn.WriteRecord(context.Background(), ref, c.Request.ToolCallID, c.Request.Queued, schemas.ToolRecord{
			State: schemas.RecordStarted, Attempt: 1, Toolrunner: "r", Nonce: "n",
		})
		if err == nil {
			t.Error("a withdrawn call starts")
		}
	}
}

// counted counts the calls of its models.
type counted struct {
	llm.Provider
	calls atomic.Int32
}

type countedModel struct {
	llm.Model
	calls *atomic.Int32
}

func (c *counted) Model(name string) (llm.Model, error) {
	m, err := c.Provider.Model(name)
	return countedModel{m, &c.calls}, err
}

func (m countedModel) Stream(ctx context.Context, r llm.Request, emit func(schemas.Message) error) llm.Outcome {
	m.calls.Add(1)
	return m.Model.Stream(ctx, r, emit)
}

// counts has the house's one model, "m", say what the script does, and count its calls.
func (h *house) counts(text string) *counted {
	h.t.Helper()
	script, err := scripted.Parse([]byte(text))
	if err != nil {
		h.t.Fatal(err)
	}
	provider := &counted{Provider: scripted.New(map[string]*scripted.Script{"m": script})}
	if h.models, err = llm.NewCatalog(provider); err != nil {
		h.t.Fatal(err)
	}
	return provider
}

// The broker's answer to the frame that begins a request comes late. The owner asks once more
// before it calls the model: if the session is another one's by now it makes no call.
func TestLateAnswerStartsNoModel(t *testing.T) {
	for name, want := range map[string]int32{"fenced": 0, "still the owner": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, bustest.Listening(t), nil)
			provider := h.counts("turns:\n  - steps: [{text: hello}]\n")
			e, w := h.wired("e1")
			h.stops(e)
			h.create("scripted/m", schemas.ApproveAll)
			late := w.holdAnswers("braid.p.session.", "request_begin")
			h.post(taskCommand("t"))
			late.wait()
			r := h.runner(e)
			if want == 0 {
				h.takes("e2", 0)
			}
			<-time.After(1100 * time.Millisecond) // an acknowledgement stays fresh for a second
			late.release()
			if want == 0 {
				h.eventually("the old owner goes on", func() bool { return !e.runs(ref) })
				r.helpers.Wait()
			} else {
				h.follow(taskEnded)
			}
			if n := provider.calls.Load(); n != want {
				t.Errorf("the model was called %d times, want %d", n, want)
			}
		})
	}
}

// The task is aborted before the broker has answered the frame that begins its request: the model is never
// asked, and has used nothing.
func TestAbortBeforeTheModelIsCalled(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), nil)
	provider := h.counts("turns:\n  - steps: [{text: hello}]\n")
	e, w := h.wired("e1")
	h.stops(e)
	h.create("scripted/m", schemas.ApproveAll)
	late := w.holdAnswers("braid.p.session.", "request_begin")
	h.post(taskCommand("t"))
	late.wait()
	r := h.runner(e)
	h.post(schemas.Command{ID: "abort", Type: schemas.CommandAbort, Session: ref})
	h.eventually("the abort is not read", func() bool {
		var aborting bool
		h.onLoop(r, func() { aborting = r.state.Task != nil && r.state.Task.Aborting })
		return aborting
	})
	late.release()
	messages := h.follow(taskEnded)
	expect(t, transcript(messages), "end aborted", "abort ", "task aborted")
	for _, m := range messages {
		if p, ok := m.Payload.(*schemas.TokenUsage); ok {
			t.Errorf("a request that never left has used %+v", p.Request)
		}
	}
	if n := provider.calls.Load(); n != 0 {
		t.Errorf("the model was called %d times", n)
	}
}

// Five owners in a row are lost without getting anything done: the task is given up. One of them
// that did get something done begins the count anew.
func TestFiveOwnersLost(t *testing.T) {
	for name, want := range map[string]schemas.StopReason{"with nothing done": schemas.StopFailed, "with something done": schemas.StopCompleted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, bustest.Single(t), map[string]string{"slow": streaming})
			first := h.killable("e1")
			h.streams()
			first.kill()
			o := h.takes("e0", maxTakeovers-1)
			if want == schemas.StopCompleted {
				more := h.post(taskCommand("more"))
				s := session.New(ref)
				for f, err := range o.Replay(context.Background(), bus.Point{}, bus.LogAndLive) {
					if err != nil {
						t.Fatal(err)
					}
					for _, m := range f.Messages {
						s.Apply(m)
					}
				}
				s.Own(o.Fence())
				out := s.Step(time.Now(), session.TakenOver{From: "e1", To: "e0", Cause: "lost"})
				out.Messages = append(out.Messages, s.Step(time.Now(), session.CommandReceived{Sequence: more.Sequence, Command: taskCommand("more")}).Messages...)
				if _, err := o.Append(context.Background(), out.Messages, more.Sequence); err != nil {
					t.Fatal(err)
				}
			}
			h.engine("e2")
			if err := h.conn.Wake(context.Background(), ref); err != nil {
				t.Fatal(err)
			}
			all := h.follow(taskEnded)
			if end := all[len(all)-1].Payload.(*schemas.TaskEnd); end.Status != want {
				t.Errorf("the task ended %+v", end)
			}
			h.task("next", "the session is free")
		})
	}
}

// A tool prints for long, and engines are lost meanwhile. An owner that took its output up got something
// done, although all of it is fragments; one that only waited did not.
func TestFiveOwnersOfOneCall(t *testing.T) {
	for name, want := range map[string]schemas.StopReason{"that is silent": schemas.StopFailed, "that prints": schemas.StopCompleted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, bustest.Single(t), oneWrite)
			first := h.killable("e1")
			hands := h.toolrunner("r1")
			h.create("scripted/m", schemas.ApproveAll)
			h.task("t", "go")
			call := hands.call(`{}`)
			h.follow(func(m schemas.Message) bool { _, ok := m.Payload.(*schemas.RequestEnd); return ok })
			first.kill()
			o := h.takes("e0", maxTakeovers-1)
			s := session.New(ref)
			for f, err := range o.Replay(context.Background(), bus.Point{}, bus.LogAndLive) {
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range f.Messages {
					s.Apply(m)
				}
			}
			s.Own(o.Fence())
			s.Step(time.Now(), session.TakenOver{From: "e1", To: "e0", Cause: "lost"})
			if want == schemas.StopCompleted {
				call.text = "line\n"
				out := s.Step(time.Now(), session.ToolOutput{Fragment: schemas.ToolFragment{
					ToolCallID: call.request.ToolCallID, Attempt: 1, Text: call.text,
				}})
				if _, err := o.Append(context.Background(), out.Messages, s.Cursor); err != nil {
					t.Fatal(err)
				}
			}
			h.engine("e2")
			if err := h.conn.Wake(context.Background(), ref); err != nil {
				t.Fatal(err)
			}
			h.follow(func(m schemas.Message) bool {
				_, taken := m.Payload.(*schemas.OwnerChanged)
				_, ended := m.Payload.(*schemas.TaskEnd)
				return taken || ended
			})
			_ = call.end(schemas.StopCompleted) // refused if the engine has ended it
			all := h.follow(taskEnded)
			if end := all[len(all)-1].Payload.(*schemas.TaskEnd); end.Status != want {
				t.Errorf("the task ended %+v", end)
			}
		})
	}
}

// An owner that has nothing to append, since a tool takes its time, finds out that the session is
// another one's.
func TestQuietOwnerLearnsThatItIsNone(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), oneWrite)
	e := h.engine("e1", func(o *Options) { o.Timing.Mark = 50 * time.Millisecond })
	hands := h.toolrunner("r1")
	h.create("scripted/m", schemas.ApproveAll)
	h.task("t", "go")
	hands.call(`{}`)
	h.takes("e2", 0)
	h.eventually("the old owner stays", func() bool { return !e.runs(ref) })
}
