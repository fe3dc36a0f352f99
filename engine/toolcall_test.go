package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"braid/bus/bustest"
	"braid/engine/internal/session"
	"braid/engine/internal/timelinetest"
	"braid/schemas"
)

// onLoop calls f on the loop of a session in motion.
func (h *house) onLoop(r *runner, f func()) {
	h.t.Helper()
	done := make(chan struct{})
	r.onLoop(func() { f(); close(done) })
	<-done
}

// A call that had said something and whose records are gone is not queued anew: that could run
// it a second time.
func TestLostRecordsOfACallThatRan(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"slow": streaming})
	e := h.engine("e1")
	h.toolrunner("r1")
	h.streams()
	r := h.runner(e)
	h.onLoop(r, func() {
		r.startTool(session.StartTool{
			Call: schemas.ToolCall{ToolCallID: "gone", Name: "write"}, Definition: timelinetest.Tools()[1].WithDefaults(), Resumed: true, Attempt: 1, Offset: 5,
		})
	})
	h.eventually("the call is not settled", func() bool {
		rec, found, err := h.conn.LastRecord(context.Background(), ref, "gone")
		if found && rec.State != schemas.RecordWithdrawn {
			t.Fatalf("record %+v", rec)
		}
		return err == nil && found && strings.Contains(rec.Result.Output, "unknown")
	})
}

// How long a call may wait, or run, does not begin anew with each owner: what counts is how long
// its record has stood, by the broker's clock.
func TestBoundsSpanOwners(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"slow": streaming})
	e := h.engine("e1")
	h.streams()
	r := h.runner(e)
	claim, _, err := h.conn.LastClaim(context.Background(), ref)
	if err != nil {
		t.Fatal(err)
	}
	c := &toolCall{r: r}
	c.stood = c.age(context.Background(), schemas.ToolRecord{Stored: claim.Time.Add(-time.Minute)})
	if c.stood < time.Minute {
		t.Errorf("the record of a minute ago has stood for %s", c.stood)
	}
	if d := c.remains(time.Hour, time.Second); d > 59*time.Minute {
		t.Errorf("%s remain of an hour", d)
	}
	if d := c.remains(time.Hour, time.Second); d != time.Hour {
		t.Errorf("%s remain of the next record's hour", d)
	}
	c.stood = 2 * time.Hour
	if d := c.remains(time.Hour, time.Second); d != time.Second {
		t.Errorf("%s remain of a bound that is over", d)
	}
	c.stood = 2 * time.Hour
	if d := c.remains(time.Millisecond, time.Second); d != time.Millisecond {
		t.Errorf("%s remain of a bound shorter than the least", d)
	}
}

// A tenure that has ended takes no subscription that nobody would end.
func TestDeskIsClosedForGood(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"slow": streaming})
	e := h.engine("e1")
	h.streams()
	d := newToolDesk(h.runner(e))
	d.close()
	if err := d.ready(); err == nil {
		d.close()
		t.Error("a closed desk opened again")
	}
}

// A call that may run again does so three times, not for as long as there are toolrunners to
// lose.
func TestSafeCallIsNotRepeatedForEver(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"look", `{}`})})
	h.engine("e1", func(o *Options) { o.Timing.Records = 50 * time.Millisecond })
	lost := h.toolrunner("r1")
	h.create("scripted/m", schemas.ApproveAll)
	h.task("t", "go")
	for attempt, name := range []string{"r2", "r3", "r4"} {
		if got := lost.call(`{}`).request.Attempt; got != attempt+1 {
			t.Errorf("attempt %d is the %d.", got, attempt+1)
		}
		lost.stop()
		lost.done.Wait()
		if err := lost.beat.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		lost = h.toolrunner(name)
	}
	all := strings.Join(transcript(h.follow(taskEnded)), "\n")
	if !strings.Contains(all, "whether the call took effect is unknown") {
		t.Errorf("transcript\n%s", all)
	}
}
