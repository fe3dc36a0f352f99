package gateway

import (
	"container/heap"
	"sync"
	"time"
)

// hint says why to ask for a session.
type hint struct {
	log     uint64 // a recorded frame that the answer must have seen
	look    bool   // something was missed: look first what there is
	deleted bool
}

func (h hint) merge(o hint) hint {
	return hint{log: max(h.log, o.log), look: h.look || o.look, deleted: h.deleted || o.deleted}
}

// Bounds on sessions that are hinted at, and on what is done for one that can't be asked about.
const (
	maxHinted    = 8192
	maxTries     = 6
	longestPause = 16 * time.Second
)

// hints are the sessions that are to be asked about, the ones that are due first. One is handed out at
// a time of each session, and one that can't be asked about waits longer after every try, so that it
// keeps no other from its turn.
type hints struct {
	more chan struct{} // one is there after something was added

	mu struct {
		sync.Mutex
		sessions map[string]*hinted
		waiting  hintedHeap
	}
}

// hinted is a session that there is a hint of.
type hinted struct {
	session string
	why     hint
	due     time.Time
	tries   int  // that failed, one after the other
	asked   bool // and not in the heap
	again   hint // what came meanwhile
}

func newHints() *hints {
	h := &hints{more: make(chan struct{}, 1)}
	h.mu.sessions = map[string]*hinted{}
	return h
}

// add notes a hint. ok is false if there were too many: they are dropped, but for this one.
func (h *hints) add(session string, why hint, now time.Time) (ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.signal()
	switch s := h.mu.sessions[session]; {
	case s == nil:
	case s.asked:
		s.again = s.again.merge(why)
		return true
	default:
		s.why = s.why.merge(why)
		return true
	}
	ok = len(h.mu.waiting) < maxHinted
	if !ok {
		for _, s := range h.mu.waiting {
			delete(h.mu.sessions, s.session)
		}
		h.mu.waiting = nil
	}
	s := &hinted{session: session, why: why, due: now}
	h.mu.sessions[session] = s
	heap.Push(&h.mu.waiting, s)
	return ok
}

// take hands out the next session that is due, or says how long to wait for it. done must follow.
func (h *hints) take(now time.Time) (s *hinted, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.mu.waiting) == 0 {
		return nil, longestPause // or until there is more
	}
	if wait = h.mu.waiting[0].due.Sub(now); wait > 0 {
		return nil, wait
	}
	s = heap.Pop(&h.mu.waiting).(*hinted)
	s.asked = true
	return s, 0
}

// done takes a session back that was asked about, or not. ok is false if that is given up.
func (h *hints) done(s *hinted, asked bool, now time.Time) (ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	again := s.again
	switch {
	case asked:
		s.why, s.again, s.tries, s.due = again, hint{}, 0, now
	case s.tries+1 >= maxTries:
		delete(h.mu.sessions, s.session)
		return false
	default:
		s.why, s.again, s.due = s.why.merge(again), hint{}, now.Add(min(longestPause, followAgainAfter<<s.tries))
		s.tries++
	}
	s.asked = false
	if s.why == (hint{}) {
		delete(h.mu.sessions, s.session)
		return true
	}
	heap.Push(&h.mu.waiting, s)
	h.signal()
	return true
}

func (h *hints) signal() {
	select {
	case h.more <- struct{}{}:
	default:
	}
}

// hintedHeap has the session on top that is due first.
type hintedHeap []*hinted

func (q *hintedHeap) Len() int           { return len(*q) }
func (q *hintedHeap) Less(i, j int) bool { return (*q)[i].due.Before((*q)[j].due) }
func (q *hintedHeap) Swap(i, j int)      { (*q)[i], (*q)[j] = (*q)[j], (*q)[i] }
func (q *hintedHeap) Push(s any)         { *q = append(*q, s.(*hinted)) }
func (q *hintedHeap) Pop() any {
	end := len(*q) - 1
	s := (*q)[end]
	(*q)[end] = nil
	*q = (*q)[:end]
	return s
}
