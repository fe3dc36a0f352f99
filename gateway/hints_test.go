package gateway

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"braid/bus"
	"braid/schemas"
)

// taken takes the next session that is due, "" if none is.
func (h *hints) taken(now time.Time) (string, *hinted) {
	s, _ := h.take(now)
	if s == nil {
		return "", nil
	}
	return s.session, s
}

// A session that can't be asked about waits longer and longer, and is given up; hints of it that come
// meanwhile make it no more pressing. Others are handed out as they come.
func TestHintsOfASessionThatCanNotBeAskedAbout(t *testing.T) {
	h, now := newHints(), time.Unix(0, 0)
	h.add("bad", hint{log: 1}, now)
	var waited []time.Duration
	for {
		s, wait := h.take(now)
		if s == nil {
			waited = append(waited, wait/time.Second)
			h.add("good", hint{log: 1}, now)
			if got, s := h.taken(now); got != "good" || !h.done(s, true, now) {
				t.Fatalf("after %v: took %q", waited, got)
			}
			h.add("bad", hint{log: 1}, now)
			if got, _ := h.taken(now); got != "" {
				t.Fatalf("after %v: took %q", waited, got)
			}
			now = now.Add(wait)
			continue
		}
		if s.session != "bad" {
			t.Fatalf("after %v: took %q", waited, s.session)
		}
		if !h.done(s, false, now) {
			break
		}
	}
	if want := []time.Duration{1, 2, 4, 8, 16}; !slices.Equal(waited, want) {
		t.Errorf("it waits %d, want %d seconds", waited, want)
	}
	if len(h.mu.sessions) != 0 || len(h.mu.waiting) != 0 {
		t.Errorf("%d sessions are left", len(h.mu.sessions))
	}
}

// What is hinted at while a session is asked about is asked for afterwards, once.
func TestHintsWhileASessionIsAskedAbout(t *testing.T) {
	h, now := newHints(), time.Unix(0, 0)
	h.add("a", hint{log: 1}, now)
	_, s := h.taken(now)
	h.add("a", hint{log: 3}, now)
	h.add("a", hint{log: 2, look: true}, now)
	if got, _ := h.taken(now); got != "" {
		t.Fatalf("took %q twice at once", got)
	}
	h.done(s, true, now)
	got, s := h.taken(now)
	if got != "a" || s.why != (hint{log: 3, look: true}) {
		t.Fatalf("took %q, %+v", got, s)
	}
	h.done(s, true, now)
	if got, _ := h.taken(now); got != "" || len(h.mu.sessions) != 0 {
		t.Errorf("took %q, %d sessions are left", got, len(h.mu.sessions))
	}
}

// However many sessions are hinted at, few are remembered; who loses hints is told.
func TestHintsAreBounded(t *testing.T) {
	h, now := newHints(), time.Unix(0, 0)
	for i := range maxHinted {
		if !h.add(fmt.Sprint(i), hint{log: 1}, now) {
			t.Fatalf("%d hints are too many", i)
		}
	}
	_, s := h.taken(now)
	if !h.add("last", hint{log: 1}, now) || h.add("more", hint{log: 1}, now) {
		t.Error("the bound is elsewhere")
	}
	if len(h.mu.waiting) != 1 || len(h.mu.sessions) != 2 {
		t.Errorf("%d wait, %d sessions are known", len(h.mu.waiting), len(h.mu.sessions))
	}
	h.done(s, true, now)
	if got, _ := h.taken(now); got != "more" {
		t.Errorf("took %q", got)
	}
}

// News of all sessions but one go on while that one can't be asked about.
func TestProjectStreamGoesOnBesideASessionThatCanNotBeAskedAbout(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.QueryWait = time.Hour }) // longer than the test
	e := w.openStream("/v1/events", "")
	e.expect(eventWatching)
	end := make(chan struct{})
	defer close(end)
	w.engine.refuse(func(q bus.Query) bool {
		if q.Session == "bad" {
			<-end
		}
		return false
	})
	bad := w.engine.open("bad")
	s := w.engine.open("good")
	e.told("good", bus.StateIdle)
	for range 3 {
		s.say(&schemas.RequestBegin{}, &schemas.ApprovalRequest{ToolCallID: "c", Name: "exec", Arguments: "{}", Hash: "h"})
		bad.say(&schemas.RequestEnd{Status: schemas.StopAborted})
		e.told("good", bus.StateWaiting)
		s.say(&schemas.TaskEnd{Status: schemas.StopCompleted})
		e.told("good", bus.StateIdle)
	}
}
