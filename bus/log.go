package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// Errors that end an [Owner]. Whoever gets one drops the session at once, without another
// effect.
var (
	// ErrFenced: the session has a newer claim, or its claim is gone. The broker said so, so it
	// is certain.
	ErrFenced = errors.New("the session has another owner")
	// ErrTailLost: frames that were acknowledged are no longer in the stream, as after a power
	// loss with lazy sync, or the stream was restored. What the owner holds in memory is not what
	// the session is.
	ErrTailLost = errors.New("the stream lost acknowledged frames")
)

// ErrUnconfirmed says that no acknowledgement was fresh enough to start an effect on.
var ErrUnconfirmed = errors.New("the broker answers too slowly to confirm the session's owner")

// Ends are the sequences of a session's last recorded and last live frame, 0 for none.
type Ends struct {
	Log  uint64
	Live uint64
}

// Last is the sequence of the session's last frame.
func (e Ends) Last() uint64 { return max(e.Log, e.Live) }

// Owner is the owner's side of a session's log. It is made by [Conn.Claim], serves one goroutine
// at a time and has none of its own: dropping it is enough.
//
// After an error of Append, Confirm or Release other than [ErrUnconfirmed] the owner is spent:
// what became of the frame is unknown or does not matter, and every later call fails with the
// same error. To go on, claim again and read the log.
type Owner struct {
	c     *Conn
	ref   schemas.SessionRef
	claim Claim

	stream            string
	epoch             string // of the stream that was claimed in
	claims, log, live string // subjects
	ends              Ends
	read              bool   // ends are known: appending may start
	n                 uint64 // of the last frame appended
	prev              lastFrame
	cursor            uint64
	reconnects        uint64 // when the claim was last known to be ours
	unsure            bool   // a try got no answer since
	spent             error
	complained        time.Time
}

// lastFrame is the last frame of the session that the owner knows of.
type lastFrame struct {
	sequence uint64
	id       string // empty for a frame of an owner before
	recorded bool
	at       time.Time
}

func newOwner(c *Conn, ref schemas.SessionRef, claim Claim, reconnects uint64) *Owner {
	shard := c.Shard(ref)
	return &Owner{
		c: c, ref: ref, claim: claim, reconnects: reconnects,
		stream: sessionsStream(shard), epoch: c.ShardEpoch(shard), claims: ownerSubject(ref, shard),
		log: frameSubject(ref, shard, kindLog), live: frameSubject(ref, shard, kindLive),
	}
}

// Claim is the claim by which the session is owned.
func (o *Owner) Claim() Claim { return o.claim }

// Fence is the claim's sequence, under which frames are appended.
func (o *Owner) Fence() uint64 { return o.claim.Sequence }

// Ends reads where the log ends, for certain, before anything is appended. Any replica may
// answer, and one may lag; an answer counts only if it holds the owner's own claim, since a
// replica that has stored the claim has stored every frame before it, and none can follow.
// It fails with [ErrFenced] when it learns of a newer claim; a replica may not have it yet, and then
// the first append fails.
func (o *Owner) Ends(ctx context.Context) (Ends, error) {
	if o.spent != nil {
		return Ends{}, o.spent
	}
	if o.n > 0 {
		return Ends{}, fmt.Errorf("read the ends of %s: frames were appended already", o.ref)
	}
	request := directRequest{MultiLast: []string{o.claims, o.log, o.live}, UpToSeq: o.claim.Sequence}
	for try := 1; ; try++ {
		answer, err := o.c.directRead(ctx, o.stream, request)
		if err != nil {
			return Ends{}, fmt.Errorf("read the ends of %s: %w", o.ref, err)
		}
		if ends, ok := o.proven(answer); ok {
			o.ends, o.read = ends, true
			o.prev = lastFrame{sequence: ends.Last(), recorded: ends.Log > ends.Live, at: time.Now()}
			return ends, nil
		}
		if try%askLeaderEvery == 0 {
			if err := o.checkClaim(ctx); err != nil {
				return Ends{}, o.fail(err)
			}
		}
		if err := sleep(ctx, jitter(try)); err != nil {
			return Ends{}, fmt.Errorf("read the ends of %s: no replica has the claim yet: %w", o.ref, err)
		}
	}
}

// askLeaderEvery is after how many answers without the own claim the leader is asked for it: a
// claim that was replaced will never be in one.
const askLeaderEvery = 5

// proven takes the ends from an answer that holds the own claim.
func (o *Owner) proven(answer []stored) (ends Ends, ok bool) {
	for _, m := range answer {
		switch m.Subject {
		case o.claims:
			ok = m.Sequence == o.claim.Sequence
		case o.log:
			ends.Log = m.Sequence
		case o.live:
			ends.Live = m.Sequence
		}
	}
	return ends, ok
}

// Append stores the messages as one frame, with the sequence of the last command that has an
// outcome. It returns once the frame is stored, and takes as long as the broker does: only the
// end of ctx, a newer claim, or a message that can't be stored makes it fail. A frame without
// messages is a live one that says nothing but that its owner was there.
//
// The frame is recorded when one of its messages is, else live.
func (o *Owner) Append(ctx context.Context, messages []schemas.Message, cursor uint64) (Ack, error) {
	if o.spent != nil {
		return Ack{}, o.spent
	}
	if !o.read {
		if _, err := o.Ends(ctx); err != nil {
			return Ack{}, err
		}
	}
	frame, err := o.encode(ctx, messages, max(cursor, o.cursor))
	if err != nil {
		return Ack{}, o.fail(err)
	}
	ack, err := o.store(ctx, frame)
	if err != nil {
		return Ack{}, o.fail(err)
	}
	o.n++
	o.cursor = max(cursor, o.cursor)
	o.prev = lastFrame{
		sequence: ack.Sequence, id: frame.Header.Get(headerMsgID),
		recorded: frame.Subject == o.log, at: time.Now(),
	}
	return ack, nil
}

// fail makes the owner spent: every later call fails with the error that it returns.
func (o *Owner) fail(err error) error {
	o.spent = fmt.Errorf("session %s under fence %d: %w", o.ref, o.claim.Sequence, err)
	return o.spent
}

// encode builds the next frame and stores what has to be kept outside of it.
func (o *Owner) encode(ctx context.Context, messages []schemas.Message, cursor uint64) (*nats.Msg, error) {
	n := o.n + 1
	body, err := encodeFrame(messages, o.c.MaxFrame(), func(line int) string {
		return frameBlob(o.ref, o.claim.Sequence, n, line)
	})
	if err != nil {
		return nil, fmt.Errorf("encode frame %d: %w", n, err)
	}
	for name, data := range body.blobs {
		if err := o.c.putBlob(ctx, name, data); err != nil {
			return nil, fmt.Errorf("frame %d: %w", n, err)
		}
	}
	header := FrameHeader{
		Version: frameVersion, Epoch: o.epoch, Fence: o.claim.Sequence, N: n,
		Prev: o.prev.sequence, Cursor: cursor, Recorded: body.recorded,
	}
	m := &nats.Msg{Subject: o.live, Data: body.data}
	if body.recorded {
		m.Subject = o.log
	}
	id := fmt.Sprintf("%s.%d.%d", o.claim.Nonce, o.claim.Sequence, n)
	m.Header = header.encode(id, o.c.topology.LiveTTL)
	m.Header[headerExpectSubject] = []string{formatUint(o.claim.Sequence)}
	m.Header[headerExpectSubjectN] = []string{o.claims}
	return m, nil
}

// Confirm proves that the session is still owned, for an effect that may start only while it is:
// it appends empty live frames until one's acknowledgement is fresh, three at most. It fails
// with [ErrUnconfirmed] when none is, which does not spend the owner.
func (o *Owner) Confirm(ctx context.Context) (Ack, error) {
	for range confirmTries {
		ack, err := o.Append(ctx, nil, 0)
		if err != nil {
			return Ack{}, err
		}
		if ack.Fresh(time.Now()) {
			return ack, nil
		}
	}
	return Ack{}, fmt.Errorf("confirm %s: %w", o.ref, ErrUnconfirmed)
}

// confirmTries is how many frames Confirm appends before it gives up.
const confirmTries = 3

// Release replaces the owner's claim by one of another state: released, so that anybody may
// claim, or deleted. The owner is spent afterwards.
func (o *Owner) Release(ctx context.Context, state ClaimState) error {
	if o.spent != nil {
		return o.spent
	}
	body := claimBody{Version: 1, Instance: o.claim.Instance, Nonce: o.claim.Nonce, State: state}
	_, err := o.c.putClaim(ctx, o.ref, body, o.claim.Sequence)
	if errors.Is(err, ErrClaimLost) {
		err = fmt.Errorf("%w: %w", ErrFenced, err)
	}
	if err != nil {
		return o.fail(err)
	}
	o.spent = fmt.Errorf("session %s: the owner has let it go: %w", o.ref, ErrFenced)
	return nil
}

// PublishTail tells watchers where the session's stream ends now, since the feed can lose the
// last frame without a trace. It is best effort itself. Before the owner knows of a frame it tells
// nothing: an end at 0 is that of a session that is deleted.
func (o *Owner) PublishTail() error {
	if o.spent != nil {
		return o.spent
	}
	if o.prev.sequence == 0 {
		return nil
	}
	return o.c.publishTail(o.ref, o.prev.sequence)
}

// checkClaim reads the owner's claim and fails with [ErrFenced] when it was replaced. Success proves nothing:
// the answer may be old.
func (o *Owner) checkClaim(ctx context.Context) error {
	last, ok, err := o.c.LastClaim(ctx, o.ref)
	switch {
	case err != nil:
		return err
	case ok && last.Sequence < o.claim.Sequence:
		return nil // from a leader that is behind
	case ok && last.Sequence == o.claim.Sequence && last.Nonce == o.claim.Nonce:
		return nil
	case !ok:
		return fmt.Errorf("%w: its claim is gone", ErrFenced)
	}
	return fmt.Errorf("%w: claim %d by %q", ErrFenced, last.Sequence, last.Instance)
}
