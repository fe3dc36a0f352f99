package gateway

import (
	"context"

	"braid/bus"
	"braid/schemas"
)

// This file is what watchers ask of a hub. They hold its lock only to copy references.

// moment is a session at one position: what a watcher is told when it arrives, and where in the
// ring it goes on.
type moment struct {
	state  bus.Activity
	cursor schemas.Cursor
	next   uint64
	broken int
	anew   int
	reason string
}

// momentLocked is the session as the hub knows it now. REQUIRES: h.mu is held.
func (h *hub) momentLocked() moment {
	return moment{
		state: h.mu.state, cursor: h.cursorLocked(), next: h.mu.ring.end(),
		broken: h.mu.broken, anew: h.mu.anew, reason: h.mu.reason,
	}
}

// now is the session as the hub knows it now.
func (h *hub) now() moment {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.momentLocked()
}

// arrive returns everything after a position and the moment behind it; false if the ring does
// not go back that far, or the hub has not come that far.
func (h *hub) arrive(at schemas.Position) (rest []*entry, now moment, ok bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	number, ok := h.mu.ring.find(at)
	now = h.momentLocked()
	if !ok || at.Sequence > h.mu.position.Sequence {
		return nil, now, false
	}
	rest, ok = h.mu.ring.from(number, h.mu.ring.limit+maxBody)
	now.next = number + uint64(len(rest))
	return rest, now, ok && now.next == h.mu.ring.end()
}

// changes returns a channel that is closed at the next change of the hub.
func (h *hub) changes() <-chan struct{} {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.mu.changed
}

// batchBytes bounds what a watcher takes at once.
const batchBytes = 256 << 10

// read returns the next entries from a number on, none if there are none yet, and what is closed
// at the next change. ok is false if they have left the ring; broken counts breaks so far.
func (h *hub) read(number uint64) (batch []*entry, changed <-chan struct{}, broken int, ok bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	batch, ok = h.mu.ring.from(number, batchBytes)
	return batch, h.mu.changed, h.mu.broken, ok
}

// reach waits until the hub has come to a sequence. It fails when the hub or ctx ends before.
func (h *hub) reach(ctx context.Context, sequence uint64) error {
	for {
		h.mu.RLock()
		at, changed := h.mu.position.Sequence, h.mu.changed
		h.mu.RUnlock()
		if at >= sequence {
			return nil
		}
		select {
		case <-changed:
		case <-h.done:
			return errHubEnded
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tail is what the recorded history does not hold yet.
type tail struct {
	moment
	log      uint64 // sequence of the last recorded frame
	partials []schemas.Message
}

// tail returns the tail as it is now.
func (h *hub) tail() tail {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return tail{moment: h.momentLocked(), log: h.mu.log, partials: h.mu.partials.messages()}
}

// recordedTo is the sequence of the last recorded frame.
func (h *hub) recordedTo() uint64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.mu.log
}
