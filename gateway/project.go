package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"braid/bus"
	"braid/schemas"
)

// projectHub tells of all sessions of the project at once. Whatever is recorded in a session is a
// hint that it may have changed; the hub then asks how it stands, and puts the answer into a ring
// from which all watchers take. A session that changes faster than it can be asked about is told
// of less often, never wrongly.
type projectHub struct {
	conn    *bus.Conn
	log     zerolog.Logger
	project string
	wait    time.Duration // bounds questions
	limit   int           // of the ring, in bytes
	epoch   string        // of the ids: they mean nothing to another hub

	begun, done chan struct{}
	hints       *hints

	mu struct {
		sync.Mutex
		told    bus.Told
		ring    [][]byte      // events
		size    int           // of the ring
		last    uint64        // number of the ring's last event
		changed chan struct{} // closed and replaced with each event
	}
}

func newProjectHub(g *Gateway) *projectHub {
	h := &projectHub{
		conn: g.conn, log: g.log, project: g.o.Project, wait: g.o.QueryWait, limit: g.o.RingBytes,
		epoch: rand.Text()[:8], begun: make(chan struct{}), done: make(chan struct{}), hints: newHints(),
	}
	h.mu.changed = make(chan struct{})
	return h
}

// run listens to the project, and asks about sessions, until ctx ends. Its goroutines have ended when it
// returns.
func (h *projectHub) run(ctx context.Context) {
	defer close(h.done)
	var asking sync.WaitGroup
	asking.Go(func() { h.ask(ctx) })
	defer asking.Wait()
	for ctx.Err() == nil {
		feed, err := h.conn.ListenProject(ctx, h.project)
		if err == nil {
			h.listening()
			err = h.listen(ctx, feed)
			feed.Close()
		}
		if ctx.Err() == nil {
			h.log.Warn().Err(err).Msg("the project can't be followed for now")
			pause(ctx, followAgainAfter)
		}
	}
}

// listening notes that a feed is open: the first one begins the hub, however many could not be opened
// before; between it and another something may have been missed.
func (h *projectHub) listening() {
	select {
	case <-h.begun:
		h.lost()
	default:
		close(h.begun)
	}
}

// listen takes the events of a feed until it ends.
func (h *projectHub) listen(ctx context.Context, feed *bus.ProjectFeed) error {
	for {
		event, err := feed.Next(ctx)
		if err != nil {
			return err
		}
		switch e := event.(type) {
		case bus.Frame:
			switch {
			case e.EndsSession():
				h.hint(e.Session.ID, hint{deleted: true})
			case e.ChangesSession():
				h.hint(e.Session.ID, hint{log: e.Sequence})
			}
		case bus.TailEvent:
			h.tail(e)
		case bus.LossEvent:
			h.lost()
		}
	}
}

// tail takes a tail mark: if it is beyond what was told, a frame may have been missed.
func (h *projectHub) tail(e bus.TailEvent) {
	h.mu.Lock()
	behind := h.mu.told.Behind(e)
	h.mu.Unlock()
	if behind {
		h.hint(e.Session.ID, hint{look: true})
	}
}

// hint notes that a session may have changed. If too many wait to be asked about, some are given up, which
// watchers are told.
func (h *projectHub) hint(session string, why hint) {
	if !h.hints.add(session, why, time.Now()) {
		h.lost()
	}
}

// askers bounds how many questions are asked at once.
const askers = 8

// ask asks for each session that there is a hint of, until ctx ends. Watchers are told to look for
// themselves at one that can't be asked about.
func (h *projectHub) ask(ctx context.Context) {
	var workers errgroup.Group
	workers.SetLimit(askers)
	defer func() { _ = workers.Wait() }() // none of them fails
	for ctx.Err() == nil {
		next, wait := h.hints.take(time.Now())
		if next == nil {
			h.awaitHints(ctx, wait)
			continue
		}
		workers.Go(func() error {
			err := h.look(ctx, next.session, next.why)
			if err != nil && ctx.Err() == nil {
				h.log.Warn().Err(err).Str("session", next.session).Msg("how a session stands can't be told for now")
			}
			if !h.hints.done(next, err == nil, time.Now()) {
				h.lost()
			}
			return nil
		})
	}
}

// awaitHints waits for more hints, or for a time.
func (h *projectHub) awaitHints(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-h.hints.more:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// look asks how a session stands, and tells it.
func (h *projectHub) look(ctx context.Context, session string, why hint) error {
	ctx, cancel := context.WithTimeout(ctx, h.wait)
	defer cancel()
	ref := schemas.SessionRef{Project: h.project, ID: session}
	deleted := func(t *bus.Told) bool { return t.Deleted(session) }
	var info bus.SessionInfo
	var err error
	switch {
	case why.deleted:
		return h.tell(deleted, eventDeleted, deletedView{ID: session})
	case why.look:
		info, err = describe(ctx, h.conn, ref)
	default:
		info, err = h.conn.AskSession(ctx, ref, why.log)
	}
	switch {
	case errors.Is(err, &schemas.Error{Code: schemas.CodeDeleted}):
		return h.tell(deleted, eventDeleted, deletedView{ID: session})
	case errors.Is(err, &schemas.Error{Code: schemas.CodeUnknownSession}):
		return h.tell(func(t *bus.Told) bool { return t.Gone(session, why.log) }, eventDeleted, deletedView{ID: session})
	case err != nil:
		return err
	}
	return h.tell(func(t *bus.Told) bool { return t.Stands(session, info.LastSequence) }, "", shownView{viewOf(info)})
}

// tell tells of a session, if it is news by what was told of it before.
func (h *projectHub) tell(news func(*bus.Told) bool, name string, v any) error {
	data, err := schemas.EncodeJSON(v)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if news(&h.mu.told) {
		h.pushLocked(name, data)
	}
	return nil
}

// lost tells watchers that they may have missed something, and that they are told of changes from here on.
func (h *projectHub) lost() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.told.Forget()
	h.pushLocked(eventResync, []byte(lostData))
	h.pushLocked(eventWatching, []byte(`{"cursor":"`+h.idLocked(h.mu.last+1)+`"}`)) // a watchingView
}

// lostData is a resyncView.
const lostData = `{"reason":"something may have been missed"}`

// pushLocked adds an event to the ring and wakes watchers. REQUIRES: h.mu is held.
func (h *projectHub) pushLocked(name string, data []byte) {
	h.mu.last++
	event := appendEvent(nil, name, h.idLocked(h.mu.last), data)
	h.mu.ring = append(h.mu.ring, event)
	h.mu.size += len(event)
	for h.mu.size > h.limit && len(h.mu.ring) > 1 {
		h.mu.size -= len(h.mu.ring[0])
		h.mu.ring[0] = nil
		h.mu.ring = h.mu.ring[1:]
	}
	close(h.mu.changed)
	h.mu.changed = make(chan struct{})
}

// idLocked is the id of the event of a number.
func (h *projectHub) idLocked(number uint64) string {
	return h.epoch + "-" + strconv.FormatUint(number, 10)
}

// now is the number of the last event, and its id.
func (h *projectHub) now() (number uint64, id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.last, h.idLocked(h.mu.last)
}

// read returns the events after a number, and what is closed when there are more. ok is false if
// some of them have left the ring.
func (h *projectHub) read(number uint64) (events [][]byte, changed <-chan struct{}, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	missing := h.mu.last - number
	if number > h.mu.last || missing > uint64(len(h.mu.ring)) {
		return nil, nil, false
	}
	rest := h.mu.ring[uint64(len(h.mu.ring))-missing:]
	return append([][]byte(nil), rest...), h.mu.changed, true
}

// place is the number of the event that has an id; false if it is none of this hub's.
func (h *projectHub) place(id string) (uint64, bool) {
	epoch, text, _ := strings.Cut(id, "-")
	number, err := strconv.ParseUint(text, 10, 64)
	return number, err == nil && epoch == h.epoch
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
