package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"braid/bus"
	"braid/schemas"
)

// hubs holds the hub of each watched session. The first watcher starts it; it ends some time
// after the last one left, so that a page that is reloaded finds it again.
type hubs struct {
	conn      *bus.Conn
	log       zerolog.Logger
	linger    time.Duration
	wait      time.Duration
	ringBytes int
	most      int             // sessions that are followed at once
	ctx       context.Context //nolint:containedctx // the life of all hubs, not a caller's
	cancel    context.CancelFunc
	running   sync.WaitGroup

	mu struct {
		sync.Mutex
		closed bool
		byRef  map[schemas.SessionRef]*lease
	}
}

// errStopping is the answer to requests that come while the gateway stops.
var errStopping = schemas.Errorf(schemas.CodeUnavailable, "this gateway is stopping; try again")

// lease is a hub with the count of those who use it. The fields are guarded by hubs.mu.
type lease struct {
	*hub
	cancel context.CancelFunc
	users  int
	expiry *time.Timer // runs while there are none; ends the hub
}

func newHubs(g *Gateway) *hubs {
	s := &hubs{
		conn: g.conn, log: g.log,
		linger: g.o.Linger, wait: g.o.QueryWait, ringBytes: g.o.RingBytes, most: g.o.MaxWatchers,
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.byRef = map[schemas.SessionRef]*lease{}
	return s
}

// use returns the session's hub, caught up, and starts it if need be. The error says why the
// session can't be followed. release must be called when the caller is done with the hub.
func (s *hubs) use(ctx context.Context, ref schemas.SessionRef) (h *hub, release func(), err error) {
	l, err := s.take(ref)
	if err != nil {
		return nil, nil, err
	}
	release = sync.OnceFunc(func() { s.giveBack(l) })
	select {
	case <-l.begun:
		err = l.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		release()
		if s.ctx.Err() != nil {
			err = errStopping
		}
		return nil, nil, err
	}
	return l.hub, release, nil
}

// take returns the session's hub with one user more, and starts it if need be.
func (s *hubs) take(ref schemas.SessionRef) (*lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, errStopping
	}
	l := s.mu.byRef[ref]
	if l == nil {
		if len(s.mu.byRef) >= s.most && !s.dropLocked() {
			return nil, schemas.Errorf(schemas.CodeTooMany, "this gateway follows %d sessions already, as many as it may; try again", s.most)
		}
		l = s.startLocked(ref)
	}
	if l.expiry != nil {
		l.expiry.Stop()
		l.expiry = nil
	}
	l.users++
	return l, nil
}

// dropLocked ends a hub that nobody uses just now; false if there is none. REQUIRES: s.mu is held.
func (s *hubs) dropLocked() bool {
	for ref, l := range s.mu.byRef {
		if l.users == 0 {
			delete(s.mu.byRef, ref)
			l.cancel()
			return true
		}
	}
	return false
}

// startLocked starts a hub. REQUIRES: s.mu is held.
func (s *hubs) startLocked(ref schemas.SessionRef) *lease {
	ctx, cancel := context.WithCancel(s.ctx)
	l := &lease{hub: newHub(s.conn, s.log, ref, s.ringBytes), cancel: cancel}
	s.mu.byRef[ref] = l
	s.running.Go(func() {
		defer cancel()
		_ = l.run(ctx, s.wait) // its watchers are told by the hub itself
		s.forget(l)
	})
	return l
}

// giveBack takes one user off. A hub without users ends after a while.
func (s *hubs) giveBack(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.users--
	if l.users > 0 || s.mu.closed || s.mu.byRef[l.ref] != l {
		return
	}
	l.expiry = time.AfterFunc(s.linger, func() { s.expire(l) })
}

// expire ends a hub that nobody has used for a while, unless somebody has come in the same instant.
func (s *hubs) expire(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.users > 0 || s.mu.byRef[l.ref] != l {
		return
	}
	delete(s.mu.byRef, l.ref)
	l.cancel()
}

// forget drops a hub that has ended, so that the next watcher gets a new one.
func (s *hubs) forget(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.byRef[l.ref] == l {
		delete(s.mu.byRef, l.ref)
	}
	if l.expiry != nil {
		l.expiry.Stop()
	}
}

// close ends all hubs and waits for them.
func (s *hubs) close() {
	s.mu.Lock()
	s.mu.closed = true
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
}
