package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// FollowOptions says where a follower begins and how much it holds. The zero value follows from
// now.
type FollowOptions struct {
	// After is the last message the reader has; what follows is delivered. Zero: nothing before
	// now, unless Beginning is set.
	After schemas.Cursor
	// Beginning delivers the session from its first message.
	Beginning bool
	// CheckEvery is how often the follower looks whether the feed has lost the session's last
	// frames, while a task seems to run; default 15 s.
	CheckEvery time.Duration
	// PendingMessages and PendingBytes bound what waits for a slow reader; default 4,096 frames
	// and 16 MiB. What is over is dropped and later read from the stream.
	PendingMessages, PendingBytes int
}

func (o FollowOptions) withDefaults() FollowOptions {
	if o.CheckEvery <= 0 {
		o.CheckEvery = 15 * time.Second
	}
	if o.PendingMessages <= 0 {
		o.PendingMessages = 4096
	}
	if o.PendingBytes <= 0 {
		o.PendingBytes = 16 << 20
	}
	return o
}

// ErrFollowerEnded says that Next was called after a ResyncEvent or Close.
var ErrFollowerEnded = errors.New("the follower has ended")

// Follower delivers the stream of one session, in order and without a gap unnoticed, as long as
// it lasts. It reads what is stored, then listens to the feed, and reads from the stream again
// whatever the feed has lost. It costs the broker one plain subscription.
//
// Next is for one goroutine. The follower's subscription runs a goroutine of its own, which
// Close ends and waits for. A reader that does not call Next costs the memory that its options
// allow, and delays nobody.
type Follower struct {
	c       *Conn
	ref     schemas.SessionRef
	options FollowOptions

	feed    *feed
	chain   *Chain
	visible *visibility
	started bool
	skip    schemas.Position // entries up to here were delivered before; from the cursor
	caught  bool             // the CaughtUpEvent was delivered
	ended   bool
	resting bool // the last recorded event said that the task is over

	reading *stretch // what is being read from the stream, nil when the feed is followed
	wanted  uint64   // the sequence that the read is to reach
	missing uint64   // frames up to here were looked for in vain
	ready   []Event
	checkAt time.Time
	suspect int // how often the stream seemed to have lost what was delivered
}

// Follow opens a follower. It subscribes at once, and without a cursor it finds its place at once,
// so that what is stored from then on is delivered; reading starts with the first Next. Close it
// when done.
func (c *Conn) Follow(ctx context.Context, ref schemas.SessionRef, o FollowOptions) (*Follower, error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	if o.Beginning && !o.After.IsZero() {
		return nil, schemas.Errorf(schemas.CodeInvalid, "follow %s: both a cursor and the beginning were asked for", ref)
	}
	o = o.withDefaults()
	feed, err := c.openFeed(ctx, FeedSubject(ref, "*"), o)
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", ref, err)
	}
	f := &Follower{c: c, ref: ref, options: o, feed: feed, visible: newVisibility()}
	if !o.Beginning && o.After.IsZero() {
		if err := f.start(ctx); err != nil { // "now" is here, not at the first Next
			f.Close()
			return nil, fmt.Errorf("follow %s: %w", ref, err)
		}
	}
	return f, nil
}

// Close ends the follower and waits for its goroutine. It may be called from any goroutine and
// more than once; a Next under way returns [ErrFollowerEnded].
func (f *Follower) Close() { f.feed.close() }

// Cursor is the follower's place: the last frame it has delivered, all its lines.
func (f *Follower) Cursor() schemas.Cursor {
	if f.chain == nil {
		return f.options.After
	}
	return schemas.Cursor{Epoch: f.chain.epoch, Position: schemas.Behind(f.chain.Last().Sequence)}
}

// Next returns the next event, waiting for it as long as ctx allows. While the broker is away it
// waits too. An error other than the context's means that the follower can't go on.
func (f *Follower) Next(ctx context.Context) (Event, error) {
	for {
		if len(f.ready) > 0 {
			e := f.ready[0]
			f.ready = f.ready[1:]
			return e, nil
		}
		if f.ended {
			return nil, ErrFollowerEnded
		}
		if err := f.advance(ctx); err != nil {
			return nil, err
		}
	}
}

// advance does one step: start, read one frame from the stream, or wait for the feed.
func (f *Follower) advance(ctx context.Context) error {
	if f.feed.isClosed() {
		f.ended = true
		return ErrFollowerEnded
	}
	switch {
	case !f.started:
		return f.start(ctx)
	case f.reading != nil:
		return f.readOne(ctx)
	}
	if !f.caught {
		f.caught = true
		f.ready = append(f.ready, CaughtUpEvent{Cursor: f.Cursor()})
		return nil
	}
	return f.listen(ctx)
}

// start finds the follower's place in the stream. The subscription is in place by now, so every
// frame is either at or before the ends read here, or comes by the feed.
func (f *Follower) start(ctx context.Context) error {
	ends, err := f.c.SessionEnds(ctx, f.ref)
	if err != nil {
		return err
	}
	epoch := f.c.Epoch(f.ref)
	at := Point{}
	after := f.options.After
	switch {
	case f.options.Beginning:
	case after.IsZero():
		at.Sequence = ends.Last()
		f.visible.gap() // it may begin amid a segment
	case after.Epoch != epoch:
		f.resync("the stream was made anew since")
		return nil
	case after.Position.Sequence > ends.Last():
		return f.doubt(ctx, "the stream ends before the cursor")
	case after.Position.Sequence > 0:
		at.Sequence = after.Position.Sequence - 1 // the cursor's frame itself is read again
		f.skip = after.Position
	}
	f.started = true
	f.suspect = 0
	f.chain = NewChain(epoch, at)
	f.checkAt = time.Now().Add(f.options.CheckEvery)
	f.read(ends)
	return nil
}

// read begins to read the stream from the follower's place to the ends.
func (f *Follower) read(ends Ends) {
	f.wanted = ends.Last()
	if f.wanted > f.chain.Last().Sequence {
		again := func(ctx context.Context) (Ends, error) { return f.c.SessionEnds(ctx, f.ref) }
		f.reading = newStretch(f.c, f.ref, f.chain.Last().Sequence, ends, LogAndLive, again)
	}
}

// readOne delivers the next frame of the stretch that is being read.
func (f *Follower) readOne(ctx context.Context) error {
	before := f.chain.Last()
	frame, ok, err := f.reading.nextFrame(ctx, f.chain)
	switch {
	case err != nil:
		return err
	case !ok:
		f.reading = nil
		if f.chain.Last().Sequence < f.wanted {
			f.missing = max(f.missing, f.wanted)
		}
		if f.skip.Sequence > f.chain.Last().Sequence {
			f.resync("the cursor's frame has expired")
		}
		return nil
	}
	if f.skip.Sequence > 0 && before.Fence == 0 {
		// The first frame must be the cursor's own: what follows it is then proven complete.
		if frame.Sequence != f.skip.Sequence {
			f.resync("the cursor's frame has expired")
			return nil
		}
		frame.AfterGap = false
	}
	f.deliver(frame, before)
	return nil
}

// deliver queues a frame that the chain has taken, and the gap before it.
func (f *Follower) deliver(frame Frame, before Point) {
	if frame.AfterGap {
		f.visible.gap()
		f.c.gaps.lost.Add(1)
		f.ready = append(f.ready, GapEvent{After: before.Sequence, Before: frame.Sequence})
	}
	for _, m := range frame.Messages {
		if m.Recorded() && m.Type == schemas.TypeEvent {
			_, f.resting = m.Payload.(*schemas.TaskEnd)
		}
	}
	shown := f.visible.filter(frame)
	if frame.Sequence == f.skip.Sequence {
		shown = shown.filter(func(line int, _ schemas.Message) bool { return line > f.skip.Line })
		if len(shown.Messages) == 0 {
			return
		}
	}
	f.ready = append(f.ready, shown)
}

// resync ends the follower with a [ResyncEvent].
func (f *Follower) resync(reason string) {
	f.c.gaps.resyncs.Add(1)
	f.ready = append(f.ready, ResyncEvent{Reason: reason})
	f.ended = true
	f.reading = nil
}

const (
	// suspectTries is how often the stream must seem to have lost what was delivered before that
	// is believed, suspectPause the time between: a leader that was cut off answers from the past.
	suspectTries = 3
	suspectPause = 300 * time.Millisecond
)

// doubt notes an answer by which the follower would have to end, and waits for a second opinion: only the
// suspectTries-th such answer in a row ends it.
func (f *Follower) doubt(ctx context.Context, reason string) error {
	f.suspect++
	if f.suspect >= suspectTries {
		f.resync(reason)
		return nil
	}
	return sleep(ctx, suspectPause)
}

// listen waits for the feed and handles one thing that comes from it.
func (f *Follower) listen(ctx context.Context) error {
	if f.feed.disturbed() {
		return f.check(ctx)
	}
	timer := time.NewTimer(time.Until(f.checkAt))
	defer timer.Stop()
	select {
	case m := <-f.feed.messages:
		return f.receive(ctx, m)
	case <-f.feed.disturbance:
		f.feed.disturb() // the signal is taken: keep it until it is dealt with
		return nil
	case <-timer.C:
		return f.glance(ctx)
	case <-f.feed.done:
		f.ended = true
		return ErrFollowerEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// receive handles a message of the feed.
func (f *Follower) receive(ctx context.Context, m *nats.Msg) error {
	if isTail(m) {
		var mark tailMark
		if err := schemas.DecodeJSON(m.Data, &mark); err != nil {
			return nil //nolint:nilerr // foreign
		}
		if mark.Epoch != f.chain.epoch || mark.Last < f.chain.log {
			f.feed.disturb() // the session was deleted, or the stream is another: look
			return nil
		}
		return f.fill(ctx, mark.Last)
	}
	s, empty, err := storedFromDirect(m)
	if err != nil || empty {
		return nil //nolint:nilerr // foreign
	}
	frame, err := f.c.decodeFrame(ctx, s)
	if errors.Is(err, errNotFrame) {
		return nil
	}
	if err != nil {
		f.feed.disturb() // the message is taken off the feed: read it from the stream next time
		return err
	}
	before := f.chain.Last()
	switch verdict := f.chain.Feed(frame.Header, frame.Sequence); verdict {
	case Take, Expired:
		frame.AfterGap = verdict == Expired
		f.deliver(frame, before)
	case Gap:
		return f.fill(ctx, s.Sequence)
	case Resync:
		f.resync("the stream was made anew")
	case Duplicate: // delivered before
	}
	return nil
}

// fill begins to read the frames up to a sequence that is known to exist, or to have existed.
func (f *Follower) fill(ctx context.Context, sequence uint64) error {
	if sequence <= f.chain.Last().Sequence || sequence <= f.missing {
		return nil
	}
	ends, err := f.c.endsAt(ctx, f.ref, sequence)
	if err == nil && ends.Last() != sequence { // the replica is behind, or the frame has expired
		ends, err = f.c.SessionEnds(ctx, f.ref)
	}
	if err != nil {
		f.feed.disturb()
		return err
	}
	f.read(ends)
	f.wanted = max(f.wanted, sequence)
	if f.reading == nil {
		f.missing = sequence
	}
	f.countMended()
	return nil
}

// check compares the follower's place with the true ends, after something that may have cost
// frames.
func (f *Follower) check(ctx context.Context) error {
	f.feed.calm()
	ends, err := f.c.SessionEnds(ctx, f.ref)
	var epoch string
	if err == nil { // read after the ends, it is theirs
		epoch, err = f.c.readEpoch(ctx, f.c.Shard(f.ref))
	}
	if err != nil {
		f.feed.disturb()
		return err
	}
	if epoch != f.chain.epoch {
		f.resync("the stream was made anew")
		return nil
	}
	f.checkAt = time.Now().Add(f.options.CheckEvery)
	if f.chain.Ends(ends) == Resync {
		f.feed.disturb()
		return f.doubt(ctx, "the stream lost what was delivered, or the session was deleted")
	}
	f.suspect = 0
	f.read(ends)
	f.countMended()
	return nil
}

// glance looks, every now and then, whether the feed has lost the session's last frames. Any
// replica may answer: one that is behind costs only time. What differs from the follower's place is
// looked at closely: the frames of a stream that was made anew would fill the hole as well.
func (f *Follower) glance(ctx context.Context) error {
	f.checkAt = time.Now().Add(f.options.CheckEvery)
	if f.resting {
		return nil
	}
	f.missing = 0 // perhaps it was only that nobody had it yet
	ends, err := f.c.endsAt(ctx, f.ref, 0)
	if err == nil && f.chain.Ends(ends) != Take {
		f.feed.disturb()
	}
	return err
}
