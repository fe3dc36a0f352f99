package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// Kinds says which frames of a session to read.
type Kinds int

// The kinds of reads.
const (
	// LogAndLive reads all frames.
	LogAndLive Kinds = iota
	// LogOnly reads recorded frames.
	LogOnly
)

// Replay reads the frames after a point up to the true ends, in order and each once. It stops at
// the first error. A frame with AfterGap set follows some that have expired.
//
// With LogAndLive the point must be one whose later frames are all wanted, such as that of the
// frame with the last checkpoint.
func (o *Owner) Replay(ctx context.Context, after Point, kinds Kinds) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		if !o.read {
			if _, err := o.Ends(ctx); err != nil {
				yield(Frame{}, err)
				return
			}
		}
		r := newStretch(o.c, o.ref, after.Sequence, o.ends, kinds, o.Ends)
		for f, err := range r.frames(ctx, NewChain(o.c.Epoch(o.ref), after)) {
			if err == nil {
				o.cursor = max(o.cursor, f.Header.Cursor)
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

// ReadFrames reads the frames of a session after a sequence up to another one, in order and each
// once; upTo 0 means up to the ends as they are now. It stops at the first error.
func (c *Conn) ReadFrames(ctx context.Context, ref schemas.SessionRef, after, upTo uint64, kinds Kinds) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		ends, err := c.SessionEnds(ctx, ref)
		if err != nil {
			yield(Frame{}, err)
			return
		}
		r := newStretch(c, ref, after, ends, kinds, func(ctx context.Context) (Ends, error) { return c.SessionEnds(ctx, ref) })
		for f, err := range r.frames(ctx, NewChain(c.Epoch(ref), Point{Sequence: after})) {
			if err == nil && upTo > 0 && f.Sequence > upTo {
				return
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

// SessionEnds reads where a session's stream ends now, for a reader that owns nothing. The
// stream's leader says which frame is the last, and any replica that has it says what both kinds
// of frames end with at that moment. A leader that was cut off makes the answer old.
func (c *Conn) SessionEnds(ctx context.Context, ref schemas.SessionRef) (Ends, error) {
	if err := ref.Validate(); err != nil {
		return Ends{}, err
	}
	for try := 0; ; try++ {
		last, err := c.leaderEnd(ctx, ref)
		if err != nil || last == 0 {
			return Ends{}, err
		}
		for range maxStale {
			ends, err := c.endsAt(ctx, ref, last)
			if err != nil || ends.Last() == last {
				return ends, err
			}
			if err := sleep(ctx, jitter(try)); err != nil {
				return Ends{}, fmt.Errorf("read the ends of %s: %w", ref, err)
			}
		}
	}
}

// KnownEnds is [Conn.SessionEnds] of a session that there is: of any other it is an *[schemas.Error] of
// code unknown_session.
func (c *Conn) KnownEnds(ctx context.Context, ref schemas.SessionRef) (Ends, error) {
	ends, err := c.SessionEnds(ctx, ref)
	if err == nil && ends.Log == 0 {
		err = schemas.Errorf(schemas.CodeUnknownSession, "there is no session %s", ref.ID)
	}
	return ends, err
}

// leaderEnd is the sequence of the session's last frame according to the stream's leader.
func (c *Conn) leaderEnd(ctx context.Context, ref schemas.SessionRef) (uint64, error) {
	shard := c.Shard(ref)
	var last uint64
	for _, kind := range []string{kindLog, kindLive} {
		m, err := c.leaderRead(ctx, sessionsStream(shard), directRequest{LastFor: frameSubject(ref, shard, kind)})
		if err != nil && !errors.Is(err, errNotFound) {
			return 0, fmt.Errorf("read the ends of %s: %w", ref, err)
		}
		last = max(last, m.Sequence)
	}
	return last, nil
}

// endsAt asks any replica for the ends of a session, as they were at a sequence; 0 for now. They
// are proven when the last frame is the one at that sequence: then the replica has it, and all
// before it.
func (c *Conn) endsAt(ctx context.Context, ref schemas.SessionRef, sequence uint64) (Ends, error) {
	shard := c.Shard(ref)
	log, live := frameSubject(ref, shard, kindLog), frameSubject(ref, shard, kindLive)
	answer, err := c.directRead(ctx, sessionsStream(shard), directRequest{MultiLast: []string{log, live}, UpToSeq: sequence})
	if err != nil {
		return Ends{}, fmt.Errorf("read the ends of %s: %w", ref, err)
	}
	var ends Ends
	for _, m := range answer {
		switch m.Subject {
		case log:
			ends.Log = m.Sequence
		case live:
			ends.Live = m.Sequence
		}
	}
	return ends, nil
}

// stretch reads the frames of a session between a sequence and the ends, from whichever replica
// answers. Recorded and live frames are two literal subjects, paged one by one and merged: by a
// wildcard the broker would search the whole stream.
type stretch struct {
	c       *Conn
	ref     schemas.SessionRef
	kinds   Kinds
	stream  string
	sources []*source
	// ends reads the true ends again. They may have moved back, when the last live frame has
	// expired since.
	ends func(context.Context) (Ends, error)
}

// source is one subject of a stretch.
type source struct {
	subject string
	after   uint64 // all frames up to here were read
	end     uint64 // frames above are not read
	page    []stored
}

func newStretch(c *Conn, ref schemas.SessionRef, after uint64, ends Ends, kinds Kinds, again func(context.Context) (Ends, error)) *stretch {
	shard := c.Shard(ref)
	s := &stretch{c: c, ref: ref, kinds: kinds, stream: sessionsStream(shard), ends: again}
	s.sources = append(s.sources, &source{subject: frameSubject(ref, shard, kindLog), after: after, end: ends.Log})
	if kinds == LogAndLive {
		s.sources = append(s.sources, &source{subject: frameSubject(ref, shard, kindLive), after: after, end: ends.Live})
	}
	return s
}

// frames yields the frames that the chain takes.
func (s *stretch) frames(ctx context.Context, chain *Chain) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		for {
			f, ok, err := s.nextFrame(ctx, chain)
			if err != nil {
				yield(Frame{}, err)
				return
			}
			if !ok || !yield(f, nil) {
				return
			}
		}
	}
}

// nextFrame returns the next frame that the chain takes; false at the end. After an error it may
// be called again and goes on where it was.
func (s *stretch) nextFrame(ctx context.Context, chain *Chain) (Frame, bool, error) {
	for {
		src, err := s.next(ctx)
		if err != nil || src == nil {
			return Frame{}, false, err
		}
		f, err := s.c.decodeFrame(ctx, src.page[0])
		if err != nil && !errors.Is(err, errNotFrame) {
			return Frame{}, false, fmt.Errorf("read %s: %w", s.ref, err)
		}
		src.page = src.page[1:]
		if err != nil {
			s.c.log.Error().Err(err).Msg("a stored message is skipped")
			continue
		}
		var verdict Verdict
		if s.kinds == LogOnly {
			verdict = chain.Log(f.Header, f.Sequence)
		} else {
			verdict = chain.Stream(f.Header, f.Sequence)
		}
		if verdict == Duplicate {
			continue
		}
		f.AfterGap = verdict == Expired
		return f, true, nil
	}
}

// next returns the source whose page begins with the lowest sequence; nil at the end.
func (s *stretch) next(ctx context.Context) (*source, error) {
	var first *source
	for _, src := range s.sources {
		if err := s.fill(ctx, src); err != nil {
			return nil, err
		}
		if len(src.page) > 0 && (first == nil || src.page[0].Sequence < first.page[0].Sequence) {
			first = src
		}
	}
	return first, nil
}

const (
	// pageMessages and pageBytes bound one page of a read.
	pageMessages = 512
	pageBytes    = 2 << 20
	// stallAfter is how long pages may stay empty before the ends are read again.
	stallAfter = 250 * time.Millisecond
)

// fill reads the next page of a source, unless it has one or is at its end. An empty page means
// that the replica is behind, or that what is missing has expired: it is asked for again until
// the ends, read again, say that nothing is missing.
func (s *stretch) fill(ctx context.Context, src *source) error {
	stalled := time.Now()
	for try := 0; len(src.page) == 0 && src.after < src.end; try++ {
		page, err := s.c.directRead(ctx, s.stream, directRequest{
			Seq: src.after + 1, NextFor: src.subject, Batch: pageMessages, MaxBytes: pageBytes,
		})
		if err != nil {
			return fmt.Errorf("read %s after %d: %w", s.ref, src.after, err)
		}
		if src.take(page) {
			return nil
		}
		if time.Since(stalled) > stallAfter {
			ends, err := s.ends(ctx)
			if err != nil {
				return err
			}
			src.end = ends.of(src.subject)
			stalled = time.Now()
		}
		if err := sleep(ctx, jitter(try)); err != nil {
			return fmt.Errorf("read %s after %d: %w", s.ref, src.after, err)
		}
	}
	return nil
}

// take accepts a page up to the end and reports whether it brought the source forward.
func (src *source) take(page []stored) bool {
	for i, m := range page {
		if m.Sequence > src.end { // the end itself has expired
			page = page[:i]
			src.after = src.end
			break
		}
		src.after = m.Sequence
	}
	src.page = page
	return len(page) > 0 || src.after >= src.end
}

// of is the end of a frame subject.
func (e Ends) of(subject string) uint64 {
	if _, kind, _ := refFromFrameSubject(subject); kind == kindLog {
		return e.Log
	}
	return e.Live
}

// tailMark says where a session's stream ends.
type tailMark struct {
	Epoch string `json:"epoch"`
	Last  uint64 `json:"last"`
}

func (c *Conn) publishTail(ref schemas.SessionRef, last uint64) error {
	data, err := schemas.EncodeJSON(tailMark{Epoch: c.Epoch(ref), Last: last})
	if err != nil {
		return err
	}
	if err := c.nc.PublishMsg(&nats.Msg{Subject: FeedSubject(ref, kindTail), Data: data}); err != nil {
		return fmt.Errorf("publish tail of %s: %w", ref, err)
	}
	return nil
}

// LastTaskEnd returns the position of the last task_end of the session's own whose events a reader of
// the view of turns has, zero if there is none: behind it the task begins that the reader is in. It looks
// back in growing steps, through recorded frames.
func (c *Conn) LastTaskEnd(ctx context.Context, ref schemas.SessionRef, had schemas.TurnCursor) (end schemas.Position, err error) {
	upTo := had.Position.Sequence
	for back := uint64(64); upTo > 0 && end == (schemas.Position{}); back *= 8 {
		after := upTo - min(back, upTo)
		for f, err := range c.ReadFrames(ctx, ref, after, upTo, LogOnly) {
			if err != nil {
				return end, err
			}
			for _, e := range f.Entries() {
				if _, ok := e.Message.Payload.(*schemas.TaskEnd); ok && len(e.Message.Origin) == 0 && had.Has(e.Position, schemas.WholeMessage) {
					end = e.Position
				}
			}
		}
		upTo = after
	}
	return end, nil
}
