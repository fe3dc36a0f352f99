package systemtest

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"braid/bus"
	"braid/schemas"
)

// blows are the ways to strike an owner.
var blows = map[string]func(w *world, owner *process, fence uint64, s *session){
	"kill": func(w *world, owner *process, _ uint64, _ *session) {
		owner.kill()
		w.restart(owner)
	},
	"freeze": func(_ *world, owner *process, fence uint64, s *session) {
		owner.signal(syscall.SIGSTOP)
		// Nobody takes over what ended before the blow, or waits for a person and was let go before it.
		eventually(s.t, "another owner's message, the end of the task, or no owner", func() bool {
			s.mu.Lock()
			over := slices.ContainsFunc(s.arrivals, func(a arrival) bool {
				return a.fence > fence || a.Message.Kind() == schemas.KindTaskEnd
			})
			s.mu.Unlock()
			return over || s.w.claim(s.ref).State == bus.ClaimReleased
		})
		owner.signal(syscall.SIGCONT)
	},
	"terminate": func(w *world, owner *process, _ uint64, _ *session) {
		owner.terminate()
		w.restart(owner)
	},
}

// The owner is struck at the moment the session says its n-th message, for an n of each round: with
// -rounds 40 that is every message of the task.
func TestOwnerStruckAtMessage(t *testing.T) {
	t.Parallel()
	for name, blow := range blows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, layout{engines: 2, toolrunners: 1})
			step := max(1, sweepMessages/(*roundsFlag))
			from := 0
			if *roundsFlag == 1 {
				from = w.random.IntN(sweepMessages)
			}
			for n := from; n < sweepMessages; n += step {
				s := w.newSession(t, "sweep", schemas.ApproveAsk)
				base := s.count()
				s.task("go")
				at := s.awaitCount(base + n + 1)
				owner, fence := w.owner(s.ref)
				blow(w, owner, fence, s)
				s.answerAll()
				if *roundsFlag > 1 {
					t.Logf("%s at message %d, %s", name, n, at.Message.Kind())
				}
				// A request that was cut off is made again, and so may its calls be, as other calls.
				for _, word := range []string{" one", " two", " three"} {
					if !strings.Contains(strings.Join(s.lines("effects"), "\n"), word) {
						t.Errorf("%s: no effect%s: %q", s.ref, word, s.lines("effects"))
					}
				}
				s.verify()
				if t.Failed() {
					t.Fatalf("%s at message %d, %s", name, n, at.Message.Kind())
				}
			}
		})
	}
}

// sweepMessages is about how many messages a task of the model sweep has before its last.
const sweepMessages = 40

// count is how many messages have come.
func (s *session) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.arrivals)
}

// awaitCount waits for the n-th message, or the end of the task: where the broker is slow, fragments are put
// together, and there are fewer messages. A task that waits for a person is answered.
func (s *session) awaitCount(n int) arrival {
	s.t.Helper()
	from, asked := 0, 0
	return s.await(fmt.Sprintf("message %d", n), &from, func(a arrival) bool {
		if p, ok := a.Message.Payload.(*schemas.ApprovalRequest); ok && from < n-1 && from >= asked {
			asked = from + 1
			s.approve(p, schemas.DecisionAllow)
		}
		return from == n-1 || a.Message.Kind() == schemas.KindTaskEnd
	})
}

// answerAll allows every call until the task has ended.
func (s *session) answerAll() {
	s.t.Helper()
	for {
		a := s.next("a question or the end", func(m schemas.Message) bool {
			return m.Kind() == schemas.KindApprovalRequest || m.Kind() == schemas.KindTaskEnd
		})
		if p, ok := a.Message.Payload.(*schemas.TaskEnd); ok {
			if p.Status != schemas.StopCompleted {
				s.t.Errorf("%s: the task ended %+v\n%s", s.ref, p, s.timeline())
			}
			return
		}
		// One that was answered before, or withdrawn, is answered again to no effect.
		p := a.Message.Payload.(*schemas.ApprovalRequest)
		r := s.w.api.post(s.path("approvals/"+p.ToolCallID), p.ToolCallID+"-decision", map[string]any{"decision": "allow", "hash": p.Hash})
		if r.status != 202 && r.status != 409 {
			s.t.Errorf("%s: the answer about %s: %d %s", s.ref, p.ToolCallID, r.status, r.body)
		}
	}
}

// Everything in one process, killed in the middle of a task: it goes on after the restart, from
// what is on the disk.
func TestDevKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := &world{t: t, dir: dir}
	dev := newProcess(t, "dev", "braid", "dev", "--data", dir, "--scripts", "testdata/scripts", "--listen", "127.0.0.1:0", "--sync", "2s", "--log-format", "json")
	dev.env = []string{"BRAID_TOKEN=" + token}
	w.gateway = dev
	dev.start()
	base, _, _ := strings.Cut(w.awaitGateway(), "/?")
	dev.args = append(dev.args, "--listen", strings.TrimPrefix(base, "http://"))
	w.api = newAPI(t, base, token)
	w.random = newRandom(t)

	s := &session{t: t, w: w, ref: schemas.SessionRef{Project: project, ID: "dev"}, dir: dir}
	w.api.post("/v1/sessions", "create", map[string]any{
		"id": s.ref.ID, "model": "scripted/work", "approval_mode": schemas.ApproveAll, "workspace": dir,
	}).accepted(t)
	s.sse = watchSSE(w.api, s.ref.ID, w.random)
	t.Cleanup(s.sse.close)
	eventually(t, "the first snapshot", s.sse.began)
	s.task("work")
	s.awaitEffects(1)
	at := dev.kill()
	dev.start()
	w.awaitGateway()
	s.awaitSSE("the output", func(m schemas.Message) bool {
		p, ok := m.Payload.(*schemas.ToolCallOutput)
		return ok && p.StopReason == schemas.StopFailed && strings.Contains(p.Output, "unknown")
	})
	t.Logf("from the kill to the lost call's output: %s", time.Since(at).Round(time.Millisecond))
	s.awaitSSE("the end", func(m schemas.Message) bool { return m.Kind() == schemas.KindTaskEnd })
	s.wantEffects("began")
	s.sse.close()
	for _, p := range s.sse.problems {
		t.Error(p)
	}
	s.check("stream", s.sse.capture.Bytes())
	trace, err := s.braid("trace", "export", "--server", base, s.ref.ID)
	if err != nil {
		t.Fatal(err)
	}
	s.check("recorded", trace)
	dev.terminate()
}

// awaitSSE waits for an event of the stream.
func (s *session) awaitSSE(what string, fits func(schemas.Message) bool) {
	s.t.Helper()
	eventually(s.t, what, func() bool {
		s.sse.mu.Lock()
		defer s.sse.mu.Unlock()
		for _, e := range s.sse.entries {
			if fits(e.Message) {
				return true
			}
		}
		return false
	})
}
