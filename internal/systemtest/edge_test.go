package systemtest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"braid/schemas"
)

// kill -9 of the gateway in mid-stream: watchers resume with their ids at the one that comes after.
func TestGatewayKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, layout{engines: 1, toolrunners: 1, held: true})
	rounds(t, "in mid-stream", func(t *testing.T) time.Duration {
		w.held.hold()
		s := w.sessionOf(t, "held/talk", schemas.ApproveAll)
		s.task("tell me a story")
		var down time.Duration
		for range 2 {
			s.deltas(10)
			at := w.gateway.kill()
			s.deltas(5)
			w.restart(w.gateway)
			down = time.Since(at)
		}
		s.deltas(3)
		w.gateway.terminate()
		w.restart(w.gateway)
		w.held.release()
		s.ends(schemas.StopCompleted)
		s.verify()
		return down
	})
}

// The broker goes and comes back in the middle of tasks: everything waits and goes on.
func TestBrokerRestarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, layout{engines: 2, toolrunners: 1, held: true})
	rounds(t, "in mid-task", func(t *testing.T) time.Duration {
		w.held.hold()
		talk := w.sessionOf(t, "held/talk", schemas.ApproveAll)
		work := w.newSession(t, "work", schemas.ApproveAll)
		talk.task("tell me a story")
		work.task("work")
		work.awaitEffects(1)
		talk.deltas(5)
		noticed := w.losses()
		w.broker.Stop(0)
		noticed(t)
		before := work.count()
		at := time.Now()
		w.broker.Start(t, 0)
		first := work.await("a message after the restart", &before, func(arrival) bool { return true })
		w.held.release()
		work.allow("go")
		for _, s := range []*session{talk, work} {
			s.ends(schemas.StopCompleted)
		}
		work.wantEffects("began")
		talk.verify()
		work.verify()
		return first.at.Sub(at)
	})
}

// losses returns what waits until every engine and toolrunner has told that it lost the broker, once more
// than by now.
func (w *world) losses() (noticed func(*testing.T)) {
	const sign = "lost the broker"
	all := append(slices.Clone(w.engines), w.toolrunners...)
	before := map[*process]int{}
	for _, p := range all {
		before[p] = p.log.count(sign)
	}
	return func(t *testing.T) {
		t.Helper()
		for _, p := range all {
			eventually(t, p.name+" has lost the broker", func() bool { return p.log.count(sign) > before[p] })
		}
	}
}

// Each node of a replicated broker goes and comes back in turn; the one that leads is among them.
func TestBrokerNodesRestarted(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster takes seconds to start")
	}
	t.Parallel()
	w := newWorld(t, layout{engines: 2, toolrunners: 1, cluster: true})
	s := w.newSession(t, "journey", schemas.ApproveAll)
	s.task("travel")
	for node := range 3 {
		s.awaitEffects(2*node + 1)
		at := time.Now()
		w.broker.Stop(node)
		s.allow(fmt.Sprintf("go-%d", 2*node+1))
		s.awaitEffects(2*node + 2)
		t.Logf("node %d stopped: the next effect came after %s", node, time.Since(at).Round(time.Millisecond))
		w.broker.Start(t, node)
		eventually(t, "the broker is whole again", func() bool { return w.broker.Nodes[node].URL() != "" })
		s.allow(fmt.Sprintf("go-%d", 2*node+2))
	}
	s.ends(schemas.StopCompleted)
	s.wantEffects("step-1", "step-2", "step-3", "step-4", "step-5", "step-6")
	s.verify()
}

// An abort frees the session, whatever the tool does.
func TestAbortOfStubbornTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t, layout{engines: 1, toolrunners: 1})
	rounds(t, "which ignores SIGTERM", func(t *testing.T) time.Duration {
		s := w.newSession(t, "stubborn", schemas.ApproveAll)
		s.task("go")
		s.awaitEffects(1)
		at := time.Now()
		w.api.post(s.path("abort"), s.ref.ID+"-abort", map[string]any{"reason": "enough"}).accepted(t)
		end := s.ends(schemas.StopAborted)
		s.task("anything else?")
		s.ends(schemas.StopCompleted)
		s.wantEffects("began")
		s.verify()
		return end.at.Sub(at)
	})
	rounds(t, "whose toolrunner is gone", func(t *testing.T) time.Duration {
		s := w.newSession(t, "stubborn", schemas.ApproveAll)
		s.task("go")
		s.awaitEffects(1)
		w.toolrunners[0].kill()
		at := time.Now()
		w.api.post(s.path("abort"), s.ref.ID+"-abort", map[string]any{"reason": "enough"}).accepted(t)
		end := s.ends(schemas.StopAborted)
		w.restart(w.toolrunners[0])
		s.task("anything else?")
		s.ends(schemas.StopCompleted)
		s.verify()
		return end.at.Sub(at)
	})
}

// Of two tasks posted at once one runs; the other is refused, and stays refused.
func TestTwoTasksAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, layout{engines: 2, toolrunners: 1})
	for range 3 {
		s := w.newSession(t, "ask", schemas.ApproveAsk)
		keys := []string{s.ref.ID + "-a", s.ref.ID + "-b"}
		replies := make([]reply, 2)
		var wg sync.WaitGroup
		for i, key := range keys {
			wg.Go(func() { replies[i] = s.post("first come", key) })
		}
		wg.Wait()
		s.tasks = 1
		won, lost := 0, 1
		if replies[0].status == http.StatusConflict {
			won, lost = 1, 0
		}
		if replies[won].status != http.StatusAccepted || replies[lost].status != http.StatusConflict {
			t.Fatalf("%d %s and %d %s", replies[0].status, replies[0].body, replies[1].status, replies[1].body)
		}
		asked := payload(s, "the question", func(*schemas.ApprovalRequest) bool { return true })
		s.approve(asked, schemas.DecisionDeny)
		s.ends(schemas.StopCompleted)
		s.rest()
		if again := s.post("first come", keys[lost]); again.status != http.StatusConflict {
			t.Errorf("the refused task, sent again when the session is free: %d %s", again.status, again.body)
		}
		s.verify()
	}
}

// A key stands for one task and one answer, whoever is asked and whatever happened in between.
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, layout{engines: 2, toolrunners: 1})
	s := w.newSession(t, "ask", schemas.ApproveAsk)
	const key = "the-key"
	replies := make([]reply, 3)
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() { replies[i] = s.post("once", key) })
	}
	wg.Wait()
	s.tasks = 1
	first := replies[0].accepted(t)
	same := func(when string, r reply) {
		t.Helper()
		if got := r.accepted(t); got != first {
			t.Errorf("%s: %+v, want %+v", when, got, first)
		}
	}
	same("sent at the same time", replies[1])
	same("sent at the same time", replies[2])
	same("sent again", s.post("once", key))
	if other := s.post("something else", key); other.status != http.StatusConflict {
		t.Errorf("another task under the same key: %d %s", other.status, other.body)
	}
	asked := payload(s, "the question", func(*schemas.ApprovalRequest) bool { return true })

	owner, fence := w.owner(s.ref)
	owner.kill()
	same("while nobody owns the session", w.api.post(s.path("tasks"), key, map[string]any{"prompt": "once"}))
	w.restart(owner)
	s.approve(asked, schemas.DecisionAllow)
	s.nextUnder(fence)
	same("after the owner changed", s.post("once", key))
	s.ends(schemas.StopCompleted)
	for _, e := range w.engines {
		e.kill()
	}
	for _, e := range w.engines {
		w.restart(e)
	}
	same("after all engines changed", s.post("once", key))
	s.wantEffects("asked")
	s.verify()
}

// A task that nobody was there to take runs once engines are there, also when its client gave up
// waiting and asked again.
func TestTaskWithoutEngines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, layout{engines: 2, toolrunners: 1})
	s := w.newSession(t, "quick", schemas.ApproveAll)
	s.rest()
	for _, e := range w.engines {
		e.kill()
	}
	commands, err := subscribe(w.brokerAddress, "braid."+project+".command.>")
	if err != nil {
		t.Fatal(err)
	}
	defer commands.close()
	ctx, giveUp := context.WithCancel(t.Context())
	body := map[string]any{"prompt": "is anybody there?"}
	var asking sync.WaitGroup
	asking.Go(func() {
		if r, err := w.api.once(ctx, http.MethodPost, s.path("tasks"), "the-task", body); err == nil {
			t.Errorf("answered without an engine: %d %s", r.status, r.body)
		}
	})
	eventually(t, "the broker has the task", func() bool {
		got, err := commands.taken(func(string) bool { return true })
		return err == nil && len(got) > 0
	})
	giveUp()
	asking.Wait()
	s.tasks = 1
	at := time.Now()
	w.restart(w.engines[0])
	end := s.ends(schemas.StopCompleted)
	t.Logf("from the engine's start to the end of the task: %s", end.at.Sub(at).Round(time.Millisecond))
	w.api.post(s.path("tasks"), "the-task", body).accepted(t)
	s.verify()
}
