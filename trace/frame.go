package trace

import (
	"fmt"
	"time"

	"braid/schemas"
)

// Frame is one recorded frame as read from a session's log subject, or the tombstone of a
// deleted session.
type Frame struct {
	Shard   int
	Epoch   string // of the shard's stream
	Session schemas.SessionRef
	// Sequence is the frame's place in the shard's stream.
	Sequence uint64
	// Fence is the sequence of the claim it was written under, N its number under that claim.
	Fence, N uint64
	// Cursor is the sequence of the last command that has an outcome.
	Cursor uint64
	// Time is the broker's.
	Time time.Time
	// Deleted makes the frame a tombstone: the session's claim of state deleted. Sequence and
	// Fence are the claim's; N and Entries are empty.
	Deleted bool
	// Entries are the frame's messages at their positions. Those that are not recorded
	// (fragments, messages of children) are skipped.
	Entries []schemas.Entry
}

// Mark says how far a shard has been applied: every recorded frame up to Sequence.
type Mark struct {
	Epoch    string `json:"epoch"`
	Sequence uint64 `json:"sequence"`
	// FrameID is the broker's message id of the frame at Sequence, by which the stream is recognised
	// when the store is opened again; empty if a tombstone stands there.
	FrameID string `json:"frame_id,omitzero"`
}

// Head is the header state of the last frame applied to a session: where reading the rest from
// the stream starts.
type Head struct {
	Epoch    string `json:"epoch"`
	Sequence uint64 `json:"sequence"`
	Fence    uint64 `json:"fence"`
	N        uint64 `json:"n"`
	Cursor   uint64 `json:"cursor,omitzero"`
	// Last is the position of the last message kept; zero if there is none yet.
	Last schemas.Position `json:"last"`
}

// repeats reports whether the frame is a late duplicate of a session whose last frame is h: the
// rule of readers that see the log alone.
func (f *Frame) repeats(h Head) bool {
	return f.Fence < h.Fence || (f.Fence == h.Fence && f.N <= h.N)
}

// validate reports what makes the frame impossible to keep; only a faulty caller sees it.
func (f *Frame) validate(shard int) error {
	if f.Shard != shard {
		return fmt.Errorf("frame %d of %s is of shard %d, not %d", f.Sequence, f.Session, f.Shard, shard)
	}
	if err := f.Session.Validate(); err != nil {
		return fmt.Errorf("frame %d: %w", f.Sequence, err)
	}
	if f.Sequence == 0 || f.Fence == 0 || f.Epoch == "" {
		return fmt.Errorf("frame %d of %s has no sequence, fence or epoch", f.Sequence, f.Session)
	}
	if f.Deleted {
		return nil
	}
	if f.N == 0 {
		return fmt.Errorf("frame %d of %s has no number", f.Sequence, f.Session)
	}
	line := -1
	for _, e := range f.Entries {
		if e.Position.Sequence != f.Sequence || e.Position.Line <= line {
			return fmt.Errorf("frame %d of %s holds a message at %s", f.Sequence, f.Session, e.Position)
		}
		line = e.Position.Line
	}
	return nil
}
