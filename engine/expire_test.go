package engine

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// witness watches the session live from now on until its task ends, and holds all it sees to all
// the rules.
func (h *house) witness() (wait func() []schemas.Message) {
	h.t.Helper()
	type seen struct {
		messages []schemas.Message
		problem  any
	}
	done := make(chan seen, 1)
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	f, err := h.conn.Follow(ctx, ref, bus.FollowOptions{Beginning: true})
	if err != nil {
		h.t.Fatal(err)
	}
	go func() {
		defer cancel()
		defer f.Close()
		var s seen
		checker := schemas.NewChecker(schemas.ViewFeed)
		for s.problem == nil {
			ev, err := f.Next(ctx)
			if err != nil {
				s.problem = err
				break
			}
			frame, ok := ev.(bus.Frame)
			if !ok {
				continue
			}
			if frame.AfterGap {
				checker.Gap()
			}
			for _, e := range frame.Entries() {
				s.messages = append(s.messages, e.Message)
				if v := checker.Add(e); len(v) > 0 {
					s.problem = v
				}
				if taskEnded(e.Message) {
					done <- s
					return
				}
			}
		}
		done <- s
	}()
	return func() []schemas.Message {
		h.t.Helper()
		s := <-done
		if s.problem != nil {
			h.t.Fatalf("%v\n%s", s.problem, dump(s.messages))
		}
		return s.messages
	}
}

// expired waits until no fragment of the session is left in the stream.
func (h *house) expired() {
	h.t.Helper()
	h.eventually("fragments do not expire", func() bool {
		for f, err := range h.conn.ReadFrames(context.Background(), ref, 0, 0, bus.LogAndLive) {
			if err != nil || !f.Header.Recorded {
				return false
			}
		}
		return true
	})
}

// checkpointed waits for a checkpoint that holds the text.
func (h *house) checkpointed(text string) {
	h.t.Helper()
	h.eventually("no checkpoint", func() bool {
		for f, err := range h.conn.ReadFrames(context.Background(), ref, 0, 0, bus.LogOnly) {
			if err != nil {
				return false
			}
			for _, m := range f.Messages {
				p, ok := m.Payload.(*schemas.Checkpoint)
				if ok && (p.Segment != nil && p.Segment.Text == text || len(p.Outputs) > 0 && p.Outputs[0].Text == text) {
					return true
				}
			}
		}
		return false
	})
}

// brief is a broker on which fragments expire soon.
func brief(t *testing.T, ttl time.Duration) *bustest.Broker {
	return bustest.Custom(t, bus.ServerOptions{}, bus.Topology{LiveTTL: ttl})
}

// inTime plays a takeover on brokers on which fragments live longer and longer, until its play says that
// the next owner came in time. It has a quarter of that life, from the last of the four checkpoints in it:
// after it nobody can know what is missing.
func inTime(t *testing.T, play func(*house) bool, scripts map[string]string) {
	for ttl := 5 * time.Second; ; ttl *= 2 {
		if play(newHouse(t, brief(t, ttl), scripts)) {
			return
		}
		if ttl >= 40*time.Second {
			t.Fatal("a hole is seen where there is none")
		}
	}
}

// gap reports whether an owner has said that fragments are missing.
func gap(messages []schemas.Message) bool {
	return slices.ContainsFunc(messages, func(m schemas.Message) bool {
		p, ok := m.Payload.(*schemas.OwnerChanged)
		return ok && p.Gap
	})
}

// Fragments have expired while the engine lived, and a checkpoint holds them: the next owner closes what was open, and
// who watched all along sees that it adds up.
func TestTakeoverFromACheckpoint(t *testing.T) {
	t.Parallel()
	inTime(t, takeoverFromACheckpoint, map[string]string{"slow": streaming})
}

func takeoverFromACheckpoint(h *house) bool {
	first := h.killable("e1")
	h.create("scripted/slow", schemas.ApproveAll)
	wait := h.witness()
	h.task("t1", "go")
	h.checkpointed("one two")
	h.expired()
	h.engine("e2")
	if err := first.Stop(context.Background()); err != nil {
		h.t.Fatal(err)
	}
	var texts []string
	all := wait()
	if gap(all) {
		return false
	}
	for _, m := range all {
		switch p := m.Payload.(type) {
		case *schemas.Text:
			texts = append(texts, p.Text)
		case *schemas.OwnerChanged:
			texts = append(texts, "owner")
		}
	}
	if got := strings.Join(texts, ", "); got != "go, owner, one two, done" {
		h.t.Errorf("texts %s\n%s", got, dump(all))
	}
	return true
}

// The same of a tool's output.
func TestTakeoverOfAnOutputFromACheckpoint(t *testing.T) {
	t.Parallel()
	inTime(t, takeoverOfAnOutputFromACheckpoint, map[string]string{"m": callScript([2]string{"write", `{}`})})
}

func takeoverOfAnOutputFromACheckpoint(h *house) bool {
	first := h.killable("e1")
	hands := h.toolrunner("r1")
	h.create("scripted/m", schemas.ApproveAll)
	wait := h.witness()
	h.task("t", "go")
	h.answered()
	call := hands.call(`{}`)
	call.say("before ")
	h.checkpointed("before ")
	h.expired()
	h.engine("e2")
	if err := first.Stop(context.Background()); err != nil {
		h.t.Fatal(err)
	}
	call.say("after")
	if err := call.end(schemas.StopCompleted); err != nil {
		h.t.Fatal(err)
	}
	all := wait()
	if gap(all) {
		return false
	}
	expect(h.t, transcript(all),
		"call write {}", "allow", "end completed", "owner handover", "output before after", "end completed", "task completed")
	return true
}

// streamsUnsaved brings a session to the middle of its first attempt, on an engine that dies there, with its
// first checkpoint on the way.
func (h *house) streamsUnsaved() (wait func() []schemas.Message) {
	h.t.Helper()
	first, w := h.wired("e1")
	h.create("scripted/slow", schemas.ApproveAll)
	wait = h.witness()
	checkpoint := w.hold("braid.p.session.", `"checkpoint"`)
	h.task("t1", "go")
	checkpoint.wait()
	crash(first, w)
	return wait
}

// Fragments have expired and no checkpoint holds them, since nobody ran the session for that
// long. The next owner can't say what was streamed, and says that.
func TestTakeoverAfterAHole(t *testing.T) {
	t.Parallel()
	h := newHouse(t, brief(t, 5*time.Second), map[string]string{"slow": streaming})
	wait := h.streamsUnsaved()
	h.expired()
	h.engine("e2")
	for _, m := range wait() {
		switch p := m.Payload.(type) {
		case *schemas.OwnerChanged:
			if !p.Gap {
				t.Error("the hole is passed over in silence")
			}
		case *schemas.Text:
			if p.Role == schemas.RoleAssistant && p.StopReason != "" && !strings.HasSuffix(p.Text, "may be lost]") {
				t.Errorf("closed as %q", p.Text)
			}
		}
	}
}

// Fragments have expired, and what stands behind them has not: the session had an owner all along,
// who was held up before it wrote a checkpoint. The next one can't say what was streamed, and says that.
func TestTakeoverIntoAHole(t *testing.T) {
	t.Parallel()
	h := newHouse(t, brief(t, 4*time.Second), map[string]string{"slow": streaming})
	wait := h.streamsUnsaved()
	ctx := context.Background()
	held := h.takes("held-up", 0)
	if _, err := held.Ends(ctx); err != nil { // it has seen the fragments
		t.Fatal(err)
	}
	h.expired()
	refused := schemas.NewTraceOnly(time.Now(), &schemas.CommandOutcome{CommandID: "late", Command: schemas.CommandTask, Code: schemas.CodeTaskInProgress})
	if _, err := held.Append(ctx, []schemas.Message{refused}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := h.conn.MarkRunning(ctx, "held-up", ref); err != nil {
		t.Fatal(err)
	}
	h.engine("e2")
	h.post(schemas.Command{ID: "set", Type: schemas.CommandSet, Session: ref, Set: &schemas.SetBody{ApprovalMode: schemas.ApproveAll}})
	for _, m := range wait() {
		switch p := m.Payload.(type) {
		case *schemas.OwnerChanged:
			if p.From == "held-up" && !p.Gap {
				t.Error("the hole is passed over in silence")
			}
		case *schemas.Text:
			if p.StopReason != "" && !strings.HasSuffix(p.Text, "may be lost]") {
				t.Errorf("closed as %q", p.Text)
			}
		}
	}
}
