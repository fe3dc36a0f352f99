package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"braid/bus"
	"braid/schemas"
)

// hub follows one session for all of its watchers. It writes to none of them: each frame is
// encoded once and put into a ring, from which watchers take at their own pace. So nobody's
// slowness reaches anybody else, and a hub has one goroutine and one subscription, however many
// watch.
type hub struct {
	conn  *bus.Conn
	log   zerolog.Logger
	ref   schemas.SessionRef
	epoch string

	// begun is closed once the hub has caught up with the session, or has failed to: err is set before,
	// and is nil unless it failed.
	begun chan struct{}
	err   error
	// done is closed when the hub's goroutine ends. deleted is set before, if it ends because the
	// session is deleted.
	done    chan struct{}
	deleted bool

	mu struct {
		sync.RWMutex
		ring     ring
		state    bus.Activity
		partials partials
		position schemas.Position // up to where ring, state and partials have taken the stream
		log      uint64           // sequence of the last recorded frame
		// broken counts how often fragments were lost, or more, so that the stream could not be
		// continued; anew counts how often not even its recorded frames could. reason says why it
		// could not the last time.
		broken  int
		anew    int
		reason  string
		changed chan struct{} // closed and replaced with each change
	}
}

func newHub(conn *bus.Conn, log zerolog.Logger, ref schemas.SessionRef, ringBytes int) *hub {
	h := &hub{
		conn: conn, log: log.With().Stringer("session", ref).Logger(), ref: ref, epoch: conn.Epoch(ref),
		begun: make(chan struct{}), done: make(chan struct{}),
	}
	h.mu.ring.limit = ringBytes
	h.mu.changed = make(chan struct{})
	return h
}

// run follows the session until ctx ends, the session is deleted, or it can't be followed at all. wait
// bounds each question that it asks an engine.
func (h *hub) run(ctx context.Context, wait time.Duration) error {
	defer close(h.done)
	at, err := h.begin(ctx, wait, "")
	for err == nil {
		at, err = h.follow(ctx, at, wait)
	}
	h.deleted = gone(ctx, err)
	h.fail(err)
	return err
}

// fail ends the wait of watchers for a hub that has never caught up.
func (h *hub) fail(err error) {
	if !h.caughtUp() {
		h.err = err
		close(h.begun)
	}
}

// caughtUp reports whether begun is closed.
func (h *hub) caughtUp() bool {
	select {
	case <-h.begun:
		return true
	default:
		return false
	}
}

// begin asks an engine for the session's state, which holds at some place of its stream, and reads the turn
// that is under way up to there, so that what was streamed of it is known. It returns that place. broken
// says why the hub begins again; empty: it begins for the first time.
func (h *hub) begin(ctx context.Context, wait time.Duration, broken string) (schemas.Cursor, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	info, err := describe(ctx, h.conn, h.ref)
	if err != nil {
		return schemas.Cursor{}, err
	}
	state := info.Activity()
	turn, err := readTurn(ctx, h.conn, h.ref, info.LastSequence, state.State() != bus.StateIdle)
	if err != nil {
		return schemas.Cursor{}, readFailed(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.partials.clear()
	h.mu.log = info.LastSequence
	h.mu.position = schemas.Position{Sequence: info.LastSequence}
	h.mu.ring.reset(h.mu.position)
	if len(turn) > 0 {
		h.mu.ring.reset(schemas.Behind(turn[0].Header.Prev))
	}
	for _, f := range turn {
		if err := h.pushLocked(f); err != nil {
			return schemas.Cursor{}, err
		}
	}
	h.mu.state = state // what the engine said holds at the end of the turn so far
	if broken != "" {
		h.mu.broken++
		h.mu.anew++
		h.mu.reason = broken
	}
	h.signalLocked()
	return h.cursorLocked(), nil
}

// describe asks for a session, with an answer that has seen everything recorded until now.
func describe(ctx context.Context, conn *bus.Conn, ref schemas.SessionRef) (bus.SessionInfo, error) {
	info, err := conn.DescribeSession(ctx, ref)
	return info, readFailed(err)
}

// follow takes what a follower delivers, from a place on, until the follower ends. It returns where to go
// on; an error ends the hub.
func (h *hub) follow(ctx context.Context, at schemas.Cursor, wait time.Duration) (schemas.Cursor, error) {
	follower, err := h.conn.Follow(ctx, h.ref, bus.FollowOptions{After: at})
	if err != nil {
		return h.pause(ctx, at, err)
	}
	defer follower.Close()
	for {
		event, err := follower.Next(ctx)
		if err != nil {
			return h.pause(ctx, h.cursor(), err)
		}
		switch e := event.(type) {
		case bus.Frame:
			if err = h.push(e); err == nil && e.EndsSession() {
				err = errDeleted
			}
		case bus.CaughtUpEvent:
			if !h.caughtUp() {
				close(h.begun)
			}
		case bus.GapEvent:
			h.log.Warn().Uint64("after", e.After).Uint64("before", e.Before).Msg("frames have expired unseen")
			h.gap(e)
		case bus.ResyncEvent:
			h.log.Warn().Str("reason", e.Reason).Msg("a session is followed anew")
			return h.begin(ctx, wait, e.Reason)
		}
		if err != nil {
			return at, err
		}
	}
}

// followAgainAfter is the pause before a broken follower is replaced.
const followAgainAfter = time.Second

// pause waits before the next try to follow. It returns an error, which ends the hub, once ctx has ended.
func (h *hub) pause(ctx context.Context, at schemas.Cursor, err error) (schemas.Cursor, error) {
	if ctx.Err() != nil {
		return at, errors.Join(ctx.Err(), err)
	}
	h.log.Warn().Err(err).Msg("a session can't be followed for now")
	pause(ctx, followAgainAfter)
	return at, ctx.Err()
}

// push takes a frame and wakes watchers.
func (h *hub) push(f bus.Frame) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.signalLocked()
	return h.pushLocked(f)
}

// pushLocked takes a frame. REQUIRES: h.mu is held.
func (h *hub) pushLocked(f bus.Frame) error {
	e, err := encodeFrame(h.epoch, f)
	if err != nil {
		return err
	}
	for _, m := range f.Messages {
		h.mu.state = h.mu.state.Apply(m)
		h.mu.partials.apply(m)
	}
	h.mu.position = e.position
	if f.Header.Recorded {
		h.mu.log = f.Sequence
	}
	h.mu.ring.push(e)
	return nil
}

// gap tells every watcher that what it has can't be continued: frames are lost for good.
func (h *hub) gap(e bus.GapEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.broken++
	h.mu.reason = reasonExpired
	h.mu.partials.clear()
	h.mu.ring.reset(schemas.Behind(e.Before - 1))
	h.signalLocked()
}

// signalLocked wakes all who wait for a change. REQUIRES: h.mu is held.
func (h *hub) signalLocked() {
	close(h.mu.changed)
	h.mu.changed = make(chan struct{})
}

func (h *hub) cursorLocked() schemas.Cursor {
	return schemas.Cursor{Epoch: h.epoch, Position: h.mu.position}
}

func (h *hub) cursor() schemas.Cursor {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.cursorLocked()
}
