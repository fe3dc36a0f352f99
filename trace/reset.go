package trace

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"braid/schemas"
)

// resetBatch is how many sessions one batch of a reset removes.
const resetBatch = 256

// Applied returns how far a shard has been applied; false if nothing of it has been.
func (s *Store) Applied(shard int) (Mark, bool, error) {
	if err := s.begin(); err != nil {
		return Mark{}, false, err
	}
	defer s.end()
	var m Mark
	found, err := decodeValue(s.db, shardKey(spaceMark, shard), &m)
	return m, found, s.explain(err, "read mark of shard %d", shard)
}

// Reset removes all sessions of a shard, and its mark, so that the shard can be applied from the
// beginning of its stream. If the process ends meanwhile, the next [Open] completes it.
func (s *Store) Reset(shard int) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	return s.explain(s.reset(shard), "reset shard %d", shard)
}

func (s *Store) reset(shard int) error {
	s.write.Lock()
	defer s.write.Unlock()
	err := s.update(func(w *writer) error {
		return errors.Join(
			w.batch.Delete(shardKey(spaceMark, shard), nil),
			w.batch.Set(shardKey(spaceReset, shard), nil, nil))
	})
	for more := true; more && err == nil; {
		err = s.update(func(w *writer) (err error) {
			more, err = w.removeMembers(shard, resetBatch)
			return err
		})
	}
	if err != nil {
		return err
	}
	return s.update(func(w *writer) error { return w.batch.Delete(shardKey(spaceReset, shard), nil) })
}

// finishResets completes the resets that were interrupted.
func (s *Store) finishResets() error {
	var shards []int
	lower := []byte{spaceReset}
	err := iterate(s.db, lower, prefixEnd(lower), func(k, _ []byte) error {
		if len(k) != 5 {
			return errKey
		}
		shards = append(shards, int(binary.BigEndian.Uint32(k[1:])))
		return nil
	})
	for _, shard := range shards {
		if err == nil {
			err = s.reset(shard)
		}
	}
	return err
}

// removeMembers removes up to n sessions of a shard and reports whether there may be more.
func (w *writer) removeMembers(shard, n int) (more bool, err error) {
	var refs []schemas.SessionRef
	lower := shardKey(spaceMember, shard)
	err = iterate(w.batch, lower, prefixEnd(lower), func(k, _ []byte) error {
		ref, err := parseMemberKey(k)
		if refs = append(refs, ref); err == nil && len(refs) == n {
			return errStop
		}
		return err
	})
	for _, ref := range refs {
		if err == nil {
			err = w.remove(ref)
		}
		if err == nil {
			err = w.batch.Delete(memberKey(shard, ref), nil)
		}
	}
	return len(refs) == n, err
}

// tombstone removes all of a session but its head, which late frames are held against.
func (w *writer) tombstone(f *Frame) error {
	if err := w.remove(f.Session); err != nil {
		return err
	}
	w.sessions[f.Session] = &sessionState{
		Shard: f.Shard, Deleted: true, dirty: true,
		Head: Head{Epoch: f.Epoch, Sequence: f.Sequence, Fence: f.Fence, N: f.N},
	}
	return nil
}

// remove deletes the session's range, and whatever it has elsewhere. What the batch itself has
// added is among it.
func (w *writer) remove(ref schemas.SessionRef) error {
	st, err := w.state(ref)
	if err != nil {
		return err
	}
	if st.indexed != 0 {
		if err := w.batch.Delete(activityKey(ref, st.indexed), nil); err != nil {
			return err
		}
	}
	refs := refKey(ref, nil)
	if err := iterate(w.batch, refs, prefixEnd(refs), func(k, _ []byte) error {
		return w.batch.Delete(k[len(refs):], nil)
	}); err != nil {
		return fmt.Errorf("remove index entries: %w", err)
	}
	shares := sessionKey(ref, kindUsage)
	if err := iterate(w.batch, shares, prefixEnd(shares), func(k, v []byte) error {
		_, day, model, err := parseSessionUsageKey(k)
		if err != nil {
			return err
		}
		var share usage
		if err := schemas.DecodeJSON(v, &share); err != nil {
			return err
		}
		return w.addUsage(usageKey(ref.Project, day, model), share, -1)
	}); err != nil {
		return fmt.Errorf("remove usage: %w", err)
	}
	delete(w.sessions, ref)
	return w.batch.DeleteRange(stateKey(ref), sessionKey(ref, kindEnd), pebble.NoSync)
}
