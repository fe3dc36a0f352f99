package gateway

import (
	"context"
	"errors"

	"braid/bus"
	"braid/schemas"
)

// errHubEnded says that a session is not followed any more.
var errHubEnded = errors.New("the session is not followed any more")

// Why a cursor can't be continued, where package bus does not say.
const (
	reasonExpired = "frames have expired"
	reasonEpoch   = "the stream was made anew since"
	reasonBeyond  = "the stream ends before the cursor"
)

// replayBytes bounds how much of a replay is in memory at once.
const replayBytes = 1 << 20

// stretch is a piece of what a watcher missed.
type stretch struct {
	entries []*entry
	// caught is set when it reaches the session's end.
	caught bool
	// broken says why the stream can't be continued from there; first is the first message
	// there is after the hole, if that is known.
	broken string
	first  schemas.Cursor
}

// replays reads from the broker what has left the rings. It bounds how many read at once, since
// all watchers may come back together.
type replays struct{ slots chan struct{} }

// maxReplays is how many stretches are read at once.
const maxReplays = 32

func newReplays() replays { return replays{slots: make(chan struct{}, maxReplays)} }

// enter waits until the caller may read. leave must be called when it has.
func (r replays) enter(ctx context.Context) (leave func(), err error) {
	select {
	case r.slots <- struct{}{}:
		return func() { <-r.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read returns the next stretch of what follows a cursor. Nothing is written to a client
// meanwhile, so that a slow one holds nobody up.
func (r replays) read(ctx context.Context, h *hub, after schemas.Cursor) (stretch, error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return stretch{}, err
	}
	defer leave()
	follower, err := h.conn.Follow(ctx, h.ref, bus.FollowOptions{After: after, PendingMessages: 256, PendingBytes: 1 << 20})
	if err != nil {
		return stretch{}, err
	}
	defer follower.Close()
	var s stretch
	for size := 0; size < replayBytes && !s.caught && s.broken == ""; {
		event, err := follower.Next(ctx)
		if err != nil {
			return s, err
		}
		switch e := event.(type) {
		case bus.Frame:
			entry, err := encodeFrame(h.epoch, e)
			if err != nil {
				return s, err
			}
			s.entries = append(s.entries, entry)
			size += len(entry.encoded) + entryOverhead
		case bus.CaughtUpEvent:
			s.caught = true
		case bus.GapEvent:
			s.broken = reasonExpired
			s.first = schemas.Cursor{Epoch: h.epoch, Position: schemas.Position{Sequence: e.Before}}
		case bus.ResyncEvent:
			s.broken = e.Reason
		}
	}
	return s, nil
}

// record is a piece of what is recorded of a session.
type record struct {
	entries []*entry
	// end is the place up to which that is everything.
	end schemas.Position
	// cut is set when frames before the first one are gone.
	cut bool
}

// recorded returns the recorded frames after a position, up to where the hub is now or to the end
// of a piece. A frame of which the position is in the middle is among them.
func (r replays) recorded(ctx context.Context, h *hub, at schemas.Position) (record, error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return record{}, err
	}
	defer leave()
	upTo := h.now().cursor.Position.Sequence
	whole := record{end: schemas.Behind(upTo)}
	size := 0
	for f, err := range h.conn.ReadFrames(ctx, h.ref, max(at.Sequence, 1)-1, upTo, bus.LogOnly) {
		if err != nil {
			return record{}, err
		}
		entry, err := encodeFrame(h.epoch, f)
		if err != nil {
			return record{}, err
		}
		if entry.position.Compare(at) <= 0 {
			continue
		}
		if len(whole.entries) == 0 {
			whole.cut = f.Header.Prev > 0
		}
		whole.entries = append(whole.entries, entry)
		if size += len(entry.encoded) + entryOverhead; size >= replayBytes {
			whole.end = entry.position
			break
		}
	}
	return whole, nil
}

// taskBegin returns the position after which the task begins that a client is in: that of the last
// task_end whose events it has, the zero position if there is none.
func (r replays) taskBegin(ctx context.Context, h *hub, had schemas.TurnCursor) (schemas.Position, error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return schemas.Position{}, err
	}
	defer leave()
	return h.conn.LastTaskEnd(ctx, h.ref, had)
}

// readTurn returns the session's frames up to a sequence from one on at which nothing is open:
// that of the last request_begin or task_end, since a request begins only when all before it is
// settled. It looks back in growing steps. Of a session that is idle it returns the last frame.
// What a child session began before is not looked for: the child's own stream has it.
func readTurn(ctx context.Context, conn *bus.Conn, ref schemas.SessionRef, last uint64, running bool) ([]bus.Frame, error) {
	for back := uint64(1); ; back *= 64 {
		after := last - min(back, last)
		var frames []bus.Frame
		for f, err := range conn.ReadFrames(ctx, ref, after, last, bus.LogAndLive) {
			if err != nil {
				return nil, err
			}
			frames = append(frames, f)
		}
		start := turnStart(frames)
		if start > 0 || after == 0 || !running && len(frames) > 0 || len(frames) > 0 && settles(frames[0]) {
			return frames[start:], nil
		}
	}
}

// turnStart is the index of the last frame from which on nothing is missing, 0 if none is known.
func turnStart(frames []bus.Frame) int {
	for i := len(frames) - 1; i > 0; i-- {
		// Before the first frame everything is missing that was not asked for.
		if frames[i].AfterGap || settles(frames[i]) {
			return i
		}
	}
	return 0
}

// settles reports that nothing was open at some place within the frame.
func settles(f bus.Frame) bool {
	for _, m := range f.Messages {
		if len(m.Origin) > 0 {
			continue
		}
		switch m.Payload.(type) {
		case *schemas.RequestBegin, *schemas.TaskEnd:
			return true
		}
	}
	return false
}
