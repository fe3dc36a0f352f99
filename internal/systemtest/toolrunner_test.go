package systemtest

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"braid/schemas"
)

// kill -9 of toolrunners: a call that was not started runs elsewhere, one that was is not repeated.
func TestToolrunnerKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, layout{engines: 1, toolrunners: 1})
	runner := w.toolrunners[0]

	rounds(t, "before it started the call", func(t *testing.T) time.Duration {
		s := w.newSession(t, "ask", schemas.ApproveAsk)
		s.task("run it")
		asked := payload(s, "the question", func(*schemas.ApprovalRequest) bool { return true })
		runner.signal(syscall.SIGSTOP)
		s.approve(asked, schemas.DecisionAllow)
		eventually(t, "the call is queued", func() bool { return s.seen(asked.ToolCallID, schemas.RecordQueued) })
		at := runner.kill()
		w.restart(runner)
		s.ends(schemas.StopCompleted)
		s.wantEffects("asked")
		s.verify()
		return time.Since(at)
	})

	rounds(t, "after it started the call", func(t *testing.T) time.Duration {
		s := w.newSession(t, "work", schemas.ApproveAll)
		s.task("work")
		s.awaitEffects(1)
		at := runner.kill()
		out := s.next("the output of the tool", func(m schemas.Message) bool { return m.Kind() == schemas.KindToolCallOutput })
		if p := out.Message.Payload.(*schemas.ToolCallOutput); p.StopReason != schemas.StopFailed || !strings.Contains(p.Output, "unknown") {
			t.Errorf("the output is %+v", p)
		}
		s.ends(schemas.StopCompleted)
		s.allow("go") // a command that went on would end now
		w.restart(runner)
		s.wantEffects("began")
		s.verify()
		if n := len(s.lines("ends")); n != 0 {
			t.Error("the command went on after its toolrunner was killed")
		}
		return out.at.Sub(at)
	})

	rounds(t, "while the owner is killed too", func(t *testing.T) time.Duration {
		s := w.newSession(t, "work", schemas.ApproveAll)
		s.task("work")
		s.awaitEffects(1)
		owner, fence := w.owner(s.ref)
		at := runner.kill()
		owner.kill()
		w.restart(owner)
		w.restart(runner)
		first := s.nextUnder(fence)
		if out := s.output(); out.StopReason != schemas.StopFailed || !strings.Contains(out.Output, "unknown") {
			t.Errorf("the output is %+v", out)
		}
		s.ends(schemas.StopCompleted)
		s.wantEffects("began")
		s.verify()
		return first.at.Sub(at)
	})
}

// A toolrunner that is stopped for so long that its call was given up can't end it any more.
func TestToolrunnerFrozenPastItsLoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t, layout{engines: 1, toolrunners: 2})
	rounds(t, "with a call", func(t *testing.T) time.Duration {
		s := w.newSession(t, "work", schemas.ApproveAll)
		s.task("work")
		s.awaitEffects(1)
		var runner *process
		eventually(t, "the call is started", func() bool {
			runner = w.toolrunnerOf(s)
			return runner != nil
		})
		at := time.Now()
		runner.signal(syscall.SIGSTOP)
		out := s.next("the output of the tool", func(m schemas.Message) bool { return m.Kind() == schemas.KindToolCallOutput })
		runner.signal(syscall.SIGCONT)
		if p := out.Message.Payload.(*schemas.ToolCallOutput); p.StopReason != schemas.StopFailed || !strings.Contains(p.Output, "unknown") {
			t.Errorf("the output is %+v", p)
		}
		s.ends(schemas.StopCompleted)
		// Its own end of the call comes late, and changes nothing.
		s.allow("go")
		eventually(t, "the command has ended", func() bool { return len(s.lines("ends")) == 1 })
		s.wantEffects("began")
		s.verify()
		return out.at.Sub(at)
	})
	t.Run("it serves again", func(t *testing.T) {
		for range 4 {
			s := w.newSession(t, "ask", schemas.ApproveAll)
			s.task("run it")
			s.ends(schemas.StopCompleted)
			s.wantEffects("asked")
			s.verify()
		}
	})
}

// SIGTERM lets a running call end.
func TestToolrunnerTerminated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, layout{engines: 1, toolrunners: 1})
	s := w.newSession(t, "work", schemas.ApproveAll)
	s.task("work")
	s.awaitEffects(1)
	runner := w.toolrunners[0]
	runner.signal(syscall.SIGTERM)
	runner.awaitLog("no longer serving tools")
	s.allow("go")
	runner.ended()
	if out := s.output(); !strings.Contains(out.Output, "the last\n") {
		t.Errorf("the output is %+v", out)
	}
	s.ends(schemas.StopCompleted)
	s.wantEffects("began")
	s.verify()
}

// seen reports that a record of a call came by.
func (s *session) seen(call string, state schemas.RecordState) bool {
	records, err := s.raw.records()
	if err != nil {
		s.t.Error(err)
	}
	for _, r := range records[call] {
		if r.State == state {
			return true
		}
	}
	return false
}

// toolrunnerOf is the process that started a call of the session, as far as records came by.
func (w *world) toolrunnerOf(s *session) *process {
	records, err := s.raw.records()
	if err != nil {
		s.t.Error(err)
	}
	for _, chain := range records {
		for _, r := range chain {
			for _, p := range w.toolrunners {
				if r.State == schemas.RecordStarted && r.Toolrunner == p.instance {
					return p
				}
			}
		}
	}
	return nil
}
