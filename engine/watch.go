package engine

import (
	"context"
	"time"

	"braid/bus"
	"braid/schemas"
)

// housekeeping is how often this engine looks after its own keys, and after those of instances
// nobody remembers.
const housekeeping = 30 * time.Second

// stuckAfter is how long a session's loop may take to come round.
const stuckAfter = 5 * time.Second

// watch looks after sessions that nobody looks after: those of engines that are gone, and our
// own whose loop has died. It only rings; the wake-up finds its way like any other, and whoever
// takes it judges the owner once more.
func (e *Engine) watch(ctx context.Context) {
	tick := time.NewTicker(e.timing.Watch)
	defer tick.Stop()
	w := newWatcher(e)
	for {
		select {
		case <-tick.C:
			w.look(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// watcher is the memory of [Engine.watch], whose goroutine it belongs to.
type watcher struct {
	e      *Engine
	rung   map[schemas.SessionRef]time.Time // when each session was last rung
	seen   map[string]bool                  // instances that were alive, or left running keys, since the last housekeeping
	buried map[string]bool                  // those of them that are gone and left nothing to do
	kept   time.Time                        // last housekeeping
}

func newWatcher(e *Engine) *watcher {
	return &watcher{e: e, rung: map[schemas.SessionRef]time.Time{}, seen: map[string]bool{}, buried: map[string]bool{}}
}

// look gives up this engine's own loops that are stuck, then rings the sessions of engines that are gone.
func (w *watcher) look(ctx context.Context) {
	w.e.abandonStuck(ctx)
	if !w.e.beat.Healthy() {
		return // who can't prove its own life judges nobody
	}
	if now := time.Now(); now.Sub(w.kept) >= housekeeping {
		w.kept = now
		w.keepHouse(ctx)
	}
	instances, err := w.e.conn.Instances(ctx, bus.KindEngine)
	if err != nil {
		return
	}
	for _, i := range instances {
		w.seen[i.Name] = true
	}
	// Also those whose key has been removed since: an engine that is stopped removes it, whether
	// or not it could hand over all its sessions.
	for name := range w.seen {
		if name == w.e.instance || w.buried[name] {
			continue
		}
		if gone, err := w.e.beat.Gone(ctx, bus.KindEngine, name); err != nil || !gone {
			continue
		}
		keys, err := w.e.conn.RunningOf(ctx, name)
		if err != nil {
			continue
		}
		w.buried[name] = len(keys) == 0
		w.ring(ctx, keys)
	}
}

// ring wakes the sessions of running keys, each at most once in Timing.Ring, as long as there is room for
// them here.
func (w *watcher) ring(ctx context.Context, keys []bus.RunningKey) {
	now := time.Now()
	for _, k := range keys {
		if now.Sub(w.rung[k.Session]) < w.e.timing.Ring || !w.e.hasRoom() {
			continue
		}
		w.rung[k.Session] = now
		w.e.log.Info().Str("session", k.Session.String()).Str("lost", k.Instance).Msg("ringing a session that lost its engine")
		if err := w.e.conn.Wake(ctx, k.Session); err != nil {
			return
		}
	}
}

// keepHouse rings this engine's own sessions that no loop runs, and notes all instances that have running
// keys, so that look judges them: keys may be the only trace of an engine that was gone before this
// one started.
func (w *watcher) keepHouse(ctx context.Context) {
	clear(w.buried)
	clear(w.seen)
	keys, err := w.e.conn.RunningAll(ctx)
	if err != nil {
		return
	}
	var orphans []bus.RunningKey
	for _, k := range keys {
		switch {
		case k.Instance != w.e.instance:
			w.seen[k.Instance] = true
		case !w.e.runs(k.Session):
			orphans = append(orphans, k)
		}
	}
	for ref, at := range w.rung {
		if time.Since(at) > housekeeping {
			delete(w.rung, ref)
		}
	}
	w.ring(ctx, orphans)
}

// hasRoom reports whether another session may be in motion here.
func (e *Engine) hasRoom() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.roomLocked() > 0 && !e.mu.draining
}

// ringLater rings a session that was dropped here: after a while, since what made it drop may
// happen again, or at once when the engine ends.
func (e *Engine) ringLater(ctx context.Context, ref schemas.SessionRef) {
	pause(ctx, e.timing.Ring)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := e.conn.Wake(ctx, ref); err != nil {
		e.log.Warn().Err(err).Str("session", ref.String()).Msg("ring for a dropped session")
	}
}

// runs reports whether a runner of this engine has the session.
func (e *Engine) runs(ref schemas.SessionRef) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.runners[ref] != nil
}

// abandonStuck gives up loops that have not come round in time: whoever asks is told that the
// session is not ours, and the session is rung. Their tenures end when they can.
func (e *Engine) abandonStuck(ctx context.Context) {
	if !e.beat.Healthy() {
		return // without the broker no loop comes round
	}
	e.mu.Lock()
	var stuck []*runner
	for _, r := range e.mu.runners {
		if r.stuck(stuckAfter) {
			stuck = append(stuck, r)
		}
	}
	e.mu.Unlock()
	for _, r := range stuck {
		r.log.Error().Msg("a session's loop does not come round; the session is given up")
		r.abandon(errLost)
		e.forget(r)
		if err := e.conn.Wake(ctx, r.ref); err != nil {
			r.log.Warn().Err(err).Msg("ring")
		}
	}
}
