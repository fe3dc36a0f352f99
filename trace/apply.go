package trace

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"braid/schemas"
)

// sessionState is the one value per session that changes with every frame.
type sessionState struct {
	Shard int  `json:"shard"`
	Head  Head `json:"head"`
	// Deleted leaves only Shard and Head: frames of the deleted session may still come.
	Deleted bool    `json:"deleted,omitzero"`
	Summary summary `json:"summary"`

	indexed int64 // Summary.Active as the activity index has it; 0 if it has none
	dirty   bool
}

// Apply stores a batch of a shard's frames, in stream order, with everything derived from them
// and the mark of how far the shard has been applied: all of it or nothing. Frames that repeat
// what is stored change nothing, so a batch may overlap what was applied before; the mark never
// goes back. A tombstone removes all of its session.
//
// ctx is looked at before the work starts; a batch under way is not given up.
//
// Errors to decide on: [ErrForeign], [ErrNoSpace], [ErrDegraded], [ErrClosed].
func (s *Store) Apply(ctx context.Context, shard int, frames []Frame, applied Mark) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	s.write.Lock()
	defer s.write.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.reserve()
	if err == nil {
		err = s.update(func(w *writer) error { return w.apply(shard, frames, applied) })
	}
	return s.explain(err, "apply %d frames of shard %d", len(frames), shard)
}

// reserve looks at the free space once in a while. The caller holds write.
func (s *Store) reserve() error {
	if s.unchecked < s.o.MinFreeBytes/4 {
		return nil
	}
	if err := s.checkSpace(); err != nil {
		return err
	}
	s.unchecked = 0
	return nil
}

// update builds a batch and commits it. The caller holds write.
func (s *Store) update(build func(*writer) error) error {
	w := &writer{batch: s.db.NewIndexedBatch(), sessions: make(map[schemas.SessionRef]*sessionState)}
	err := build(w)
	if err == nil {
		err = w.finish()
	}
	if err != nil {
		return errors.Join(err, w.batch.Close())
	}
	s.unchecked += uint64(w.batch.Len())
	return s.commit(w.batch)
}

// commit makes the batch visible. Pebble may panic when it can't go on; nothing of it can be
// used then.
func (s *Store) commit(b *pebble.Batch) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.wedged.Store(true)
			s.degrade(fatalError("%v", r))
			err = s.Degraded()
		}
	}()
	mode := pebble.NoSync
	if s.o.Sync == SyncAlways {
		mode = pebble.Sync
	}
	if err := b.Commit(mode); err != nil {
		return err
	}
	// A write that only seemed to succeed counts as failed.
	if err := s.Degraded(); err != nil {
		return err
	}
	return b.Close()
}

// writer builds one batch. It reads through the batch, so that later frames see earlier ones.
type writer struct {
	batch    *pebble.Batch
	sessions map[schemas.SessionRef]*sessionState // those the batch has touched
	line     []byte                               // scratch
}

func (w *writer) apply(shard int, frames []Frame, applied Mark) error {
	if shard < 0 {
		return fmt.Errorf("shard %d is negative", shard)
	}
	var stored Mark
	if _, err := w.get(shardKey(spaceMark, shard), &stored); err != nil {
		return err
	}
	if stored.Epoch != "" && stored.Epoch != applied.Epoch {
		return fmt.Errorf("%w: it holds epoch %.80q of shard %d, the stream is %.80q", ErrForeign, stored.Epoch, shard, applied.Epoch)
	}
	var last uint64
	for i := range frames {
		f := &frames[i]
		if err := f.validate(shard); err != nil {
			return err
		}
		if f.Epoch != applied.Epoch || f.Sequence <= last || f.Sequence > applied.Sequence {
			return fmt.Errorf("frame %d of epoch %.80q does not fit after frame %d and before the mark %d of epoch %.80q",
				f.Sequence, f.Epoch, last, applied.Sequence, applied.Epoch)
		}
		last = f.Sequence
		if err := w.frame(f); err != nil {
			return fmt.Errorf("frame %d of %s: %w", f.Sequence, f.Session, err)
		}
	}
	if applied.Epoch == "" || applied.Sequence <= stored.Sequence {
		return nil
	}
	return w.set(shardKey(spaceMark, shard), applied)
}

// frame adds one frame.
func (w *writer) frame(f *Frame) error {
	st, err := w.state(f.Session)
	if err != nil {
		return err
	}
	if f.repeats(st.Head) {
		return nil
	}
	if f.Sequence <= st.Head.Sequence {
		return fmt.Errorf("%w: its last frame is %d, number %d under claim %d", ErrForeign, st.Head.Sequence, st.Head.N, st.Head.Fence)
	}
	if st.Head.Sequence == 0 {
		if err := w.batch.Set(memberKey(f.Shard, f.Session), nil, nil); err != nil {
			return err
		}
	}
	if f.Deleted {
		return w.tombstone(f)
	}
	st.dirty = true
	st.Shard, st.Deleted = f.Shard, false
	st.Head = Head{Epoch: f.Epoch, Sequence: f.Sequence, Fence: f.Fence, N: f.N, Cursor: f.Cursor, Last: st.Head.Last}
	st.Summary.touch(f.Time.UnixMilli())
	for _, e := range f.Entries {
		if !e.Message.Recorded() {
			continue
		}
		if err := w.message(f, st, e); err != nil {
			return fmt.Errorf("message %s: %w", e.Position, err)
		}
	}
	return nil
}

// message adds one message and what follows from it.
func (w *writer) message(f *Frame, st *sessionState, e schemas.Entry) (err error) {
	if w.line, err = schemas.Append(w.line[:0], e.Message); err != nil {
		return err
	}
	if err := w.batch.Set(messageKey(f.Session, e.Position), w.line, nil); err != nil {
		return err
	}
	st.Head.Last = e.Position
	imported := st.Summary.Imported.Take(e.Message, schemas.ViewRecorded)
	st.Summary.fold(e.Position, e.Message, imported)
	if imported {
		return w.indexImported(f, e)
	}
	return w.index(f, st, e)
}

// indexImported adds a message of an imported trace to the indexes of its own session. What it says
// of commands, failures and tokens was elsewhere, and at another time.
func (w *writer) indexImported(f *Frame, e schemas.Entry) error {
	if call, ok := e.Message.Payload.(*schemas.ToolCall); ok {
		return w.indexCall(f.Session, call, e.Position)
	}
	return nil
}

// indexCall remembers where a tool call stands.
func (w *writer) indexCall(ref schemas.SessionRef, call *schemas.ToolCall, at schemas.Position) error {
	return w.batch.Set(callKey(ref, call.ToolCallID), appendPosition(nil, at), nil)
}

// index adds what the message says to the indexes.
func (w *writer) index(f *Frame, st *sessionState, e schemas.Entry) error {
	if failed, ok := failureOf(e.Message); ok {
		failed.Model = st.Summary.asked()
		key := failureKey(f.Session, f.Time.UnixMilli(), e.Position)
		if err := errors.Join(w.set(key, failed), w.batch.Set(refKey(f.Session, key), nil, nil)); err != nil {
			return err
		}
	}
	switch p := e.Message.Payload.(type) {
	case *schemas.ToolCall:
		return w.indexCall(f.Session, p, e.Position)
	case *schemas.CommandOutcome:
		return w.set(outcomeKey(f.Session, p.CommandID), p.Outcome(e.Position.Sequence))
	case *schemas.TokenUsage:
		used := usage{Requests: 1, Tokens: p.Request}
		day, model := DayOf(f.Time), st.Summary.asked()
		return errors.Join(
			w.addUsage(usageKey(f.Session.Project, day, model), used, 1),
			w.addUsage(sessionUsageKey(f.Session, day, model), used, 1))
	}
	return nil
}

// addUsage adds to a usage row, or takes away from it; a row that gets empty goes.
func (w *writer) addUsage(key []byte, used usage, sign int64) error {
	var row usage
	if _, err := w.get(key, &row); err != nil {
		return err
	}
	if row = row.add(used, sign); row.Requests <= 0 {
		return w.batch.Delete(key, nil)
	}
	return w.set(key, row)
}

// finish writes the state of every session the batch has changed.
func (w *writer) finish() error {
	for ref, st := range w.sessions {
		if !st.dirty {
			continue
		}
		if !st.Deleted && st.indexed != st.Summary.Active {
			if err := w.moveActivity(ref, st); err != nil {
				return err
			}
		}
		if err := w.set(stateKey(ref), st); err != nil {
			return err
		}
	}
	return nil
}

// moveActivity keeps exactly one entry of the session in the activity index.
func (w *writer) moveActivity(ref schemas.SessionRef, st *sessionState) error {
	if st.indexed != 0 {
		if err := w.batch.Delete(activityKey(ref, st.indexed), nil); err != nil {
			return err
		}
	}
	st.indexed = st.Summary.Active
	return w.batch.Set(activityKey(ref, st.indexed), nil, nil)
}

// state is the session's state as the batch leaves it so far.
func (w *writer) state(ref schemas.SessionRef) (*sessionState, error) {
	if st := w.sessions[ref]; st != nil {
		return st, nil
	}
	st := new(sessionState)
	if _, err := w.get(stateKey(ref), st); err != nil {
		return nil, err
	}
	st.indexed = st.Summary.Active
	w.sessions[ref] = st
	return st, nil
}

func (w *writer) set(key []byte, v any) error {
	value, err := schemas.EncodeJSON(v)
	if err != nil {
		return err
	}
	return w.batch.Set(key, value, nil)
}

func (w *writer) get(key []byte, v any) (bool, error) {
	return decodeValue(w.batch, key, v)
}

// getter is a batch or the store under it.
type getter interface {
	Get(key []byte) ([]byte, io.Closer, error)
}

// decodeValue decodes the value of a key into v, if the key is there.
func decodeValue(g getter, key []byte, v any) (found bool, err error) {
	value, closer, err := g.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	return true, schemas.DecodeJSON(value, v)
}
