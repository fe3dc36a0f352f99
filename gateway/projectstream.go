package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"braid/schemas"
)

// eventWatching is the first event of a fresh stream of the project.
const eventWatching = "watching"

// Why a stream of the project can't be continued.
const (
	reasonForeign = "the id is of another gateway, or too old"
	reasonSlow    = "more changed than could be told"
)

// watchingView says from where on changes are told.
type watchingView struct {
	Cursor string `json:"cursor"`
}

// deletedView names a session that is no more.
type deletedView struct {
	ID string `json:"id"`
}

// projectLinger is how long the project is followed after its last watcher left.
const projectLinger = 30 * time.Second

// projectLease holds the hub of the project while it is watched, and for some time after.
type projectLease struct {
	g       *Gateway
	running sync.WaitGroup

	mu struct {
		sync.Mutex
		closed bool
		hub    *projectHub
		end    context.CancelFunc // of the hub
		users  int
		expiry *time.Timer // runs while there are none
	}
}

// use returns the hub, and starts it if need be. release must be called when the caller is done.
func (p *projectLease) use(ctx context.Context) (h *projectHub, release func(), err error) {
	p.mu.Lock()
	if p.mu.closed {
		p.mu.Unlock()
		return nil, nil, errStopping
	}
	if p.mu.hub == nil {
		p.startLocked()
	}
	if p.mu.expiry != nil {
		p.mu.expiry.Stop()
		p.mu.expiry = nil
	}
	p.mu.users++
	h = p.mu.hub
	p.mu.Unlock()
	release = sync.OnceFunc(p.giveBack)
	select {
	case <-h.begun:
		return h, release, nil
	case <-h.done:
		err = errStopping
	case <-ctx.Done():
		err = ctx.Err()
	}
	release()
	return nil, nil, err
}

// startLocked starts a hub. REQUIRES: p.mu is held.
func (p *projectLease) startLocked() {
	ctx, cancel := context.WithCancel(p.g.stopping)
	h := newProjectHub(p.g)
	p.mu.hub, p.mu.end = h, cancel
	p.running.Go(func() {
		defer cancel()
		h.run(ctx)
	})
}

// giveBack takes one user off. A hub without users ends after a while.
func (p *projectLease) giveBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.users--
	if p.mu.users == 0 && !p.mu.closed {
		p.mu.expiry = time.AfterFunc(projectLinger, p.expire)
	}
}

// expire ends a hub that nobody has used for a while.
func (p *projectLease) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.users == 0 && p.mu.hub != nil {
		p.mu.end()
		p.mu.hub = nil
	}
}

// close waits for the hub, which ends with the gateway.
func (p *projectLease) close() {
	p.mu.Lock()
	p.mu.closed = true
	if p.mu.expiry != nil {
		p.mu.expiry.Stop()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// streamProject tells of all sessions of the project, as server-sent events.
func (g *Gateway) streamProject(w http.ResponseWriter, r *http.Request) error {
	name, id := lastEventID(r)
	if len(id) > schemas.MaxNameLength {
		return &schemas.Error{Code: schemas.CodeInvalid, Field: name, Message: "that is no id of an event"}
	}
	leave, err := g.watchers.enter(schemas.SessionRef{})
	if err != nil {
		return err
	}
	defer leave()
	wait, done := context.WithTimeout(r.Context(), g.o.QueryWait)
	defer done()
	h, release, err := g.project.use(wait)
	if err != nil {
		return readFailed(err)
	}
	defer release()
	out, err := g.beginEvents(w)
	if err != nil || r.Method == http.MethodHead {
		return err
	}
	defer g.watching()()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(g.stopping, cancel)()
	s := &projectWatcher{hub: h, out: out}
	if err := s.run(ctx, id, g.o.Heartbeat); err != nil && r.Context().Err() == nil && g.stopping.Err() != nil {
		out.timeout = min(out.timeout, time.Second)
		_ = out.send([]byte(commentStopping)) // a courtesy
	}
	return nil
}

// projectWatcher serves one client. It belongs to the goroutine of the client's request.
type projectWatcher struct {
	hub *projectHub
	out *eventWriter
	at  uint64 // the number of the last event that was written
}

// run writes the events until something ends them; the error says what.
func (s *projectWatcher) run(ctx context.Context, after string, heartbeat time.Duration) error {
	err := s.out.open(after != "")
	if err == nil && after == "" {
		err = s.begin()
	} else if err == nil {
		err = s.resume(after)
	}
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for err == nil {
		events, changed, ok := s.hub.read(s.at)
		switch {
		case !ok:
			err = s.resync(reasonSlow)
			continue
		case len(events) > 0:
			s.at += uint64(len(events))
			err = s.out.send(events...)
			continue
		}
		select {
		case <-changed:
		case <-ticker.C:
			err = s.out.send([]byte(commentHeartbeat))
		case <-s.hub.done:
			err = errHubEnded
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return err
}

// begin tells the client from which event on it is told of changes.
func (s *projectWatcher) begin() error {
	number, id := s.hub.now()
	data, err := schemas.EncodeJSON(watchingView{id})
	if err != nil {
		return err
	}
	s.at = number
	return s.out.send(appendEvent(nil, eventWatching, id, data))
}

// resume goes on after an event, if it can.
func (s *projectWatcher) resume(after string) error {
	number, ok := s.hub.place(after)
	if ok {
		_, _, ok = s.hub.read(number)
	}
	if !ok {
		return s.resync(reasonForeign)
	}
	s.at = number
	return nil
}

// resync tells that what the client has may be out of date, and begins anew.
func (s *projectWatcher) resync(reason string) error {
	data, err := schemas.EncodeJSON(resyncView{Reason: reason})
	if err != nil {
		return err
	}
	if err := s.out.write(appendEvent(nil, eventResync, "", data)); err != nil {
		return err
	}
	return s.begin()
}
