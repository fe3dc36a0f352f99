package systemtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"braid/bus"
	"braid/schemas"
)

// rounds runs a test so often as -rounds says, and logs how long it took each time.
func rounds(t *testing.T, name string, round func(t *testing.T) time.Duration) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		var took []time.Duration
		for range *roundsFlag {
			took = append(took, round(t).Round(time.Millisecond))
			if t.Failed() {
				return
			}
		}
		slices.Sort(took)
		t.Logf("took %s (median of %d: %v)", took[len(took)/2], len(took), took)
	})
}

// kill -9 of a session's owner, in each state a task can be in: the task goes on elsewhere.
func TestOwnerKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, layout{engines: 2, toolrunners: 1})

	rounds(t, "while its model streams", func(t *testing.T) time.Duration {
		s := w.newSession(t, "ramble", schemas.ApproveAll)
		s.task("tell me a story")
		s.hears("a frame that")
		owner, fence := w.owner(s.ref)
		at := owner.kill()
		first := s.nextUnder(fence)
		p := payload(s, "the end of the cut request", func(p *schemas.RequestEnd) bool { return true })
		if p.Status != schemas.StopTimeout {
			t.Errorf("the request ended %s, want %s", p.Status, schemas.StopTimeout)
		}
		s.ends(schemas.StopCompleted)
		w.restart(owner)
		s.verify()
		return first.at.Sub(at)
	})

	rounds(t, "while it waits for an approval", func(t *testing.T) time.Duration {
		s := w.newSession(t, "ask", schemas.ApproveAsk)
		s.task("run it")
		asked := payload(s, "the question", func(*schemas.ApprovalRequest) bool { return true })
		owner, fence := w.owner(s.ref)
		at := owner.kill()
		s.approve(asked, schemas.DecisionAllow)
		first := s.nextUnder(fence)
		s.ends(schemas.StopCompleted)
		s.wantEffects("asked")
		w.restart(owner)
		s.verify()
		return first.at.Sub(at)
	})

	rounds(t, "after the task was suspended", func(t *testing.T) time.Duration {
		s := w.newSession(t, "ask", schemas.ApproveAsk)
		s.task("run it")
		asked := payload(s, "the question", func(*schemas.ApprovalRequest) bool { return true })
		s.rest()
		c := w.claim(s.ref)
		var owner *process
		for _, e := range w.engines {
			if e.instance == c.Instance {
				owner = e
			}
		}
		owner.kill()
		at := time.Now()
		s.approve(asked, schemas.DecisionAllow)
		first := s.nextUnder(c.Sequence)
		s.ends(schemas.StopCompleted)
		s.wantEffects("asked")
		w.restart(owner)
		s.verify()
		return first.at.Sub(at)
	})

	rounds(t, "while a tool runs", func(t *testing.T) time.Duration {
		s := w.newSession(t, "work", schemas.ApproveAll)
		s.task("work")
		s.awaitEffects(1)
		owner, fence := w.owner(s.ref)
		at := owner.kill()
		first := s.nextUnder(fence)
		s.allow("go")
		if out := s.output(); out.StopReason != "" && out.StopReason != schemas.StopCompleted || !strings.Contains(out.Output, "tick 1\n") || !strings.Contains(out.Output, "the last\n") {
			t.Errorf("the output is %+v", out)
		}
		s.ends(schemas.StopCompleted)
		s.wantEffects("began")
		w.restart(owner)
		s.verify()
		return first.at.Sub(at)
	})
}

// kill -9 of whichever engine owns the session, again and again during one task of many turns.
func TestEveryEngineKilledInTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, layout{engines: 2, toolrunners: 1})
	rounds(t, "three times", func(t *testing.T) time.Duration {
		s := w.newSession(t, "journey", schemas.ApproveAll)
		s.task("travel")
		var worst time.Duration
		for strike := range 3 {
			s.awaitEffects(strike*2 + 1)
			owner, fence := w.owner(s.ref)
			at := owner.kill()
			w.restart(owner)
			worst = max(worst, s.nextUnder(fence).at.Sub(at))
			s.allow(fmt.Sprintf("go-%d", strike*2+1))
			s.allow(fmt.Sprintf("go-%d", strike*2+2))
		}
		s.ends(schemas.StopCompleted)
		s.wantEffects("step-1", "step-2", "step-3", "step-4", "step-5", "step-6")
		s.verify()
		return worst
	})
}

// An owner that is stopped, and goes on when another has long taken its session, has nothing more
// to say and does nothing twice.
func TestOwnerFrozenPastTakeover(t *testing.T) {
	t.Parallel()
	w := newWorld(t, layout{engines: 2, toolrunners: 1})
	for _, model := range []string{"ramble", "work"} {
		rounds(t, model, func(t *testing.T) time.Duration {
			s := w.newSession(t, model, schemas.ApproveAll)
			s.task("go")
			if model == "work" {
				s.awaitEffects(1)
			} else {
				s.hears("once a")
			}
			owner, fence := w.owner(s.ref)
			at := time.Now()
			owner.signal(syscall.SIGSTOP)
			first := s.nextUnder(fence)
			owner.signal(syscall.SIGCONT)
			s.allow("go")
			s.ends(schemas.StopCompleted)
			if model == "work" {
				s.wantEffects("began")
			}
			s.verify()
			// It is an engine like any other again: the only one that is left takes the next task.
			for _, e := range w.engines {
				if e != owner {
					e.kill()
					s = w.newSession(t, "quick", schemas.ApproveAll)
					s.task("are you there?")
					s.ends(schemas.StopCompleted)
					w.restart(e)
				}
			}
			s.verify()
			return first.at.Sub(at)
		})
	}
}

// SIGTERM hands a running task over at once, and the engine ends in order.
func TestHandOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, layout{engines: 2, toolrunners: 1})
	for _, model := range []string{"ramble", "work"} {
		rounds(t, model, func(t *testing.T) time.Duration {
			s := w.newSession(t, model, schemas.ApproveAll)
			s.task("go")
			if model == "work" {
				s.awaitEffects(1)
			} else {
				s.hears("once a")
			}
			owner, fence := w.owner(s.ref)
			at := owner.terminate()
			first := s.nextUnder(fence)
			s.allow("go")
			s.ends(schemas.StopCompleted)
			if model == "work" {
				s.wantEffects("began")
			}
			w.restart(owner)
			s.verify()
			return first.at.Sub(at)
		})
	}
	rounds(t, "a session at rest", func(t *testing.T) time.Duration {
		s := w.newSession(t, "quick", schemas.ApproveAll)
		s.task("hello")
		s.ends(schemas.StopCompleted)
		s.rest()
		for _, e := range w.engines { // one after the other: nobody is needed for it
			e.terminate()
		}
		if c := w.claim(s.ref); c.State != bus.ClaimReleased {
			t.Errorf("the claim is %+v", c)
		}
		at := time.Now()
		for _, e := range w.engines {
			w.restart(e)
		}
		s.task("hello again")
		s.ends(schemas.StopCompleted)
		s.verify()
		return time.Since(at)
	})
}

// An engine that is killed with many sessions in motion: all of them go on elsewhere.
func TestBusyEngineKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, layout{engines: 3, toolrunners: 1})
	for _, e := range w.engines[1:] { // all sessions go to the first
		e.kill()
	}
	sessions := make([]*session, 24)
	for i := range sessions {
		sessions[i] = w.newSession(t, "ramble", schemas.ApproveAll)
	}
	var wg sync.WaitGroup
	for _, s := range sessions {
		s.tasks++
		wg.Go(func() { s.post("tell me a story", s.ref.ID+"-task") })
	}
	wg.Wait()
	fences := make([]uint64, len(sessions))
	for i, s := range sessions {
		s.deltas(1)
		_, fences[i] = w.owner(s.ref)
	}
	for _, e := range w.engines[1:] {
		w.restart(e)
	}
	at := w.engines[0].kill()
	var took []time.Duration
	for i, s := range sessions {
		took = append(took, s.nextUnder(fences[i]).at.Sub(at).Round(time.Millisecond))
	}
	slices.Sort(took)
	t.Logf("%d sessions: the first new message after %s, median %s, last %s", len(took), took[0], took[len(took)/2], took[len(took)-1])
	for _, s := range sessions {
		s.ends(schemas.StopCompleted)
		s.verify()
	}
}

// A task whose owners are lost again and again before they get anything done is given up in the
// end, and its session is free.
func TestTaskThatLosesEveryOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t, layout{engines: 2, toolrunners: 1})
	s := w.newSession(t, "endless", schemas.ApproveAll)
	s.task("tell me a story")
	s.deltas(1)
	var end *schemas.TaskEnd
	lost := 0
	for ; end == nil; lost++ {
		owner, fence := w.owner(s.ref)
		owner.kill()
		w.restart(owner)
		// Whoever goes on with the task says first that it took over; the one that gives up has no task then.
		if _, goesOn := s.nextUnder(fence).Message.Payload.(*schemas.OwnerChanged); !goesOn {
			end = payload(s, "the end of the task", func(*schemas.TaskEnd) bool { return true })
		}
	}
	t.Logf("given up after %d owners were lost: %+v", lost, end)
	if end.Status != schemas.StopFailed {
		t.Errorf("the task ended %+v", end)
	}
	s.task("tell me another one")
	s.ends(schemas.StopCompleted)
	s.verify()
}
