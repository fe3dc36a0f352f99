package trace

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"braid/schemas"
)

// errStop ends an iteration without being an error.
var errStop = errors.New("stop")

// Limit bounds one page of messages: no more than Messages, and no more than Bytes of JSON,
// though always one message. Zero means the default, 500 messages and 1 MiB.
type Limit struct {
	Messages int
	Bytes    int
}

func (l Limit) withDefaults() Limit {
	if l.Messages <= 0 {
		l.Messages = 500
	}
	if l.Bytes <= 0 {
		l.Bytes = 1 << 20
	}
	return l
}

// Page is a run of a session's messages. Entries and Head are of one moment.
type Page struct {
	Entries []schemas.Entry
	// Next is what to ask for messages after to go on; More tells whether there are any.
	Next schemas.Position
	More bool
	// Head is the last frame applied to the session; zero if there is no such session.
	Head Head
}

// Head returns the header state of the last frame applied to the session; false if there is no
// such session, or no longer.
func (s *Store) Head(ref schemas.SessionRef) (Head, bool, error) {
	st, found, err := s.state(ref)
	return st.Head, found, err
}

// Messages returns the session's messages after a position; the zero position is before all.
func (s *Store) Messages(ctx context.Context, ref schemas.SessionRef, after schemas.Position, limit Limit) (Page, error) {
	limit = limit.withDefaults()
	page := Page{Next: after}
	size := 0
	head, err := s.readMessages(ctx, ref, after, func(at schemas.Position, line []byte) error {
		size += len(line)
		if n := len(page.Entries); n > 0 && (n == limit.Messages || size > limit.Bytes) {
			page.More = true
			return errStop
		}
		m, err := schemas.Decode(line)
		if err != nil {
			return err
		}
		page.Entries = append(page.Entries, schemas.Entry{Position: at, Message: m})
		page.Next = at
		return nil
	})
	if err != nil {
		return Page{}, s.explain(err, "read messages of %s", ref)
	}
	page.Head = head
	return page, nil
}

// Load calls yield for all messages of the session, in order, up to the last one there is when it starts,
// and returns the head they lead up to: where reading goes on in the stream. The head is zero if there is
// no such session. It holds nothing open while yield runs, so yield may take its time; its error ends the
// reading and is returned as it is.
func (s *Store) Load(ctx context.Context, ref schemas.SessionRef, yield func(schemas.Entry) error) (Head, error) {
	return s.walk(ctx, ref, func(chunk []rawEntry) error {
		for _, e := range chunk {
			m, err := schemas.Decode(e.line)
			if err != nil {
				return s.explain(err, "message %s of %s", e.at, ref)
			}
			if err := yield(schemas.Entry{Position: e.at, Message: m}); err != nil {
				return err
			}
		}
		return nil
	})
}

// rawEntry is a message as it is stored.
type rawEntry struct {
	at   schemas.Position
	line []byte
}

// walk hands on the session's messages in chunks, up to the head of the moment it starts at, which it
// returns. No iterator is open while yield runs: an open one keeps Pebble from freeing memory and files.
func (s *Store) walk(ctx context.Context, ref schemas.SessionRef, yield func([]rawEntry) error) (Head, error) {
	var first Head
	var after schemas.Position
	for {
		chunk, head, err := s.chunk(ctx, ref, after)
		if err != nil {
			return Head{}, s.explain(err, "read messages of %s", ref)
		}
		if first == (Head{}) {
			first = head
		}
		for len(chunk) > 0 && chunk[len(chunk)-1].at.Compare(first.Last) > 0 {
			chunk = chunk[:len(chunk)-1] // came later
		}
		if len(chunk) > 0 {
			after = chunk[len(chunk)-1].at
		}
		behind := after.Compare(first.Last) < 0
		if head.Epoch != first.Epoch || (behind && len(chunk) == 0) {
			return Head{}, s.explain(ErrChanged, "read messages of %s", ref)
		}
		if len(chunk) > 0 {
			if err := yield(chunk); err != nil {
				return first, err
			}
		}
		if !behind {
			return first, nil
		}
	}
}

// chunk copies the next page of messages after a position.
func (s *Store) chunk(ctx context.Context, ref schemas.SessionRef, after schemas.Position) ([]rawEntry, Head, error) {
	limit := Limit{}.withDefaults()
	var chunk []rawEntry
	size := 0
	head, err := s.readMessages(ctx, ref, after, func(at schemas.Position, line []byte) error {
		chunk = append(chunk, rawEntry{at, append([]byte(nil), line...)})
		if size += len(line); size >= limit.Bytes || len(chunk) == limit.Messages {
			return errStop
		}
		return nil
	})
	return chunk, head, err
}

// readMessages calls fn for the session's messages after a position, and returns the session's
// head of the same moment. The line is valid during the call only.
func (s *Store) readMessages(ctx context.Context, ref schemas.SessionRef, after schemas.Position, fn func(at schemas.Position, line []byte) error) (head Head, err error) {
	if err := ref.Validate(); err != nil {
		return head, err
	}
	if err := s.begin(); err != nil {
		return head, err
	}
	defer s.end()
	it, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: stateKey(ref), UpperBound: sessionKey(ref, kindEnd),
	})
	if err != nil {
		return head, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if !it.First() {
		return head, it.Error()
	}
	var st sessionState
	if err := schemas.DecodeJSON(it.Value(), &st); err != nil || st.Deleted {
		return head, err
	}
	// A message's key followed by a zero byte is the least one after it.
	for ok := it.SeekGE(append(messageKey(ref, after), 0)); ok; ok = it.Next() {
		if err := s.proceed(ctx); err != nil {
			return head, err
		}
		_, at, err := parseMessageKey(it.Key())
		if err != nil {
			return head, err
		}
		if err := fn(at, it.Value()); errors.Is(err, errStop) {
			break
		} else if err != nil {
			return head, err
		}
	}
	return st.Head, it.Error()
}

// Outcome returns the recorded answer to a command; false if there is none (yet). Its Log is the
// sequence of the frame that records it.
func (s *Store) Outcome(ref schemas.SessionRef, commandID string) (schemas.Outcome, bool, error) {
	if err := ref.Validate(); err != nil {
		return schemas.Outcome{}, false, err
	}
	if err := s.begin(); err != nil {
		return schemas.Outcome{}, false, err
	}
	defer s.end()
	var o schemas.Outcome
	found, err := decodeValue(s.db, outcomeKey(ref, commandID), &o)
	return o, found, s.explain(err, "read outcome of command %s", commandID)
}

// state reads a session's state; false if there is no such session, or no longer.
func (s *Store) state(ref schemas.SessionRef) (sessionState, bool, error) {
	if err := ref.Validate(); err != nil {
		return sessionState{}, false, err
	}
	if err := s.begin(); err != nil {
		return sessionState{}, false, err
	}
	defer s.end()
	var st sessionState
	found, err := decodeValue(s.db, stateKey(ref), &st)
	if err != nil || !found || st.Deleted {
		return sessionState{}, false, s.explain(err, "read session %s", ref)
	}
	return st, true, nil
}

// scan is iterate as a call of the store: admitted, and ended by ctx and Close.
func (s *Store) scan(ctx context.Context, lower, upper []byte, fn func(k, v []byte) error) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	return iterate(s.db, lower, upper, func(k, v []byte) error {
		if err := s.proceed(ctx); err != nil {
			return err
		}
		return fn(k, v)
	})
}

// proceed fails when a call under way must end.
func (s *Store) proceed(ctx context.Context) error {
	select {
	case <-s.closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	default:
		return nil
	}
}

// iterable is a batch or the store under it.
type iterable interface {
	NewIter(*pebble.IterOptions) (*pebble.Iterator, error)
}

// iterate calls fn for every key from lower on and under upper, until it returns an error;
// errStop ends it without one. Key and value are valid during the call only.
func iterate(from iterable, lower, upper []byte, fn func(k, v []byte) error) (err error) {
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		if err := fn(it.Key(), it.Value()); errors.Is(err, errStop) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return it.Error()
}
