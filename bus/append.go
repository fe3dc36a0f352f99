package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// Ack says that a frame is stored.
type Ack struct {
	// Sequence is the frame's place in its stream.
	Sequence uint64
	// Duplicate is set when an earlier try had stored the frame. It is stored, but the answer
	// does not say that the session was still owned when it was given.
	Duplicate bool
	// SentAt is when the try that was acknowledged was sent.
	SentAt time.Time
}

// freshFor is how long after it was sent a frame proves ownership well enough to start a model
// call.
const freshFor = time.Second

// Fresh reports whether an effect that needs the owner may start on the strength of this
// acknowledgement: the broker stored the frame under the fence less than a second ago. Times are
// compared by the monotonic clock, so both must come from this process.
func (a Ack) Fresh(now time.Time) bool {
	return !a.Duplicate && !a.SentAt.IsZero() && now.Sub(a.SentAt) < freshFor
}

// storeRun is the state of storing one frame.
type storeRun struct {
	first time.Time // when the first try was sent
	try   int
	last  error // what the broker refused last, or why no answer came if it never refused
}

// store publishes a frame until its outcome is known. Every try is the identical message, so the
// broker stores it once, whichever try reaches it; past the time the broker remembers ids the
// frame is looked for before it is sent again.
func (o *Owner) store(ctx context.Context, frame *nats.Msg) (Ack, error) {
	var run storeRun
	for {
		if err := o.recheck(ctx); err != nil {
			return Ack{}, err
		}
		if run.try > 0 && time.Since(run.first) > dedupWindow/2 {
			if ack, found, err := o.readBack(ctx, frame); err != nil || found {
				return ack, err
			}
		}
		sent := time.Now()
		if run.try == 0 {
			run.first = sent
		}
		attempt, cancel := context.WithTimeout(ctx, tryTimeout)
		answer, err := o.c.publish(attempt, frame)
		cancel()
		run.try++
		if err == nil {
			return o.accept(Ack{Sequence: answer.Sequence, Duplicate: answer.Duplicate, SentAt: sent})
		}
		if err := o.verdict(err); err != nil {
			return Ack{}, err
		}
		run.last = moreTelling(run.last, err)
		o.unsure = !errors.As(err, new(*apiError))
		o.complain(run)
		if waitErr := sleep(ctx, jitter(run.try-1)); waitErr != nil {
			return Ack{}, fmt.Errorf("append frame %d: %w (last answer: %w)", o.n+1, waitErr, run.last)
		}
	}
}

// accept checks an acknowledgement against the order of the log.
func (o *Owner) accept(ack Ack) (Ack, error) {
	if ack.Sequence <= o.prev.sequence || ack.Sequence <= o.claim.Sequence {
		return Ack{}, fmt.Errorf("%w: frame %d was stored at %d, the one before at %d", ErrTailLost, o.n+1, ack.Sequence, o.prev.sequence)
	}
	return ack, nil
}

// verdict tells which refusals of a frame are final. Fenced means: the broker knows a newer claim
// than ours, or none at all. An older one was reported by a leader that is behind, and everything
// else, also that a write under the same condition is in flight, says nothing: the identical
// message is sent again.
func (o *Owner) verdict(err error) error {
	if permanent(err) {
		return fmt.Errorf("append frame %d: %w", o.n+1, err)
	}
	var refused *apiError
	if !errors.As(err, &refused) {
		return nil
	}
	last, ok := refused.lastSequence()
	switch {
	case ok && last > o.claim.Sequence:
		return fmt.Errorf("%w: claim %d", ErrFenced, last)
	case ok && last == 0:
		return fmt.Errorf("%w: its claim is gone", ErrFenced)
	}
	return nil
}

// recheck looks, after the broker was reached again or has left a try without an answer, whether
// the session is still ours and the last frame still there. A broker that lost its tail gives
// sequences out again: the fence may by now be the sequence of somebody else's claim.
func (o *Owner) recheck(ctx context.Context) error {
	now := o.c.reconnectCount()
	if now == o.reconnects && !o.unsure {
		return nil
	}
	epoch, err := o.c.readEpoch(ctx, o.c.Shard(o.ref))
	if err != nil {
		return err
	}
	if epoch != o.epoch {
		return fmt.Errorf("%w: it was made anew", ErrTailLost)
	}
	if err := o.checkClaim(ctx); err != nil {
		return err
	}
	if err := o.checkTail(ctx); err != nil {
		return err
	}
	o.reconnects, o.unsure = now, false
	return nil
}

// checkTail looks for the owner's last frame. A live one may have expired.
func (o *Owner) checkTail(ctx context.Context) error {
	expired := !o.prev.recorded && time.Since(o.prev.at) > o.c.topology.LiveTTL/2
	if o.prev.id == "" || expired {
		return nil
	}
	for try := 0; ; try++ {
		m, err := o.c.leaderRead(ctx, o.stream, directRequest{Seq: o.prev.sequence})
		if err == nil && m.Header.Get(headerMsgID) == o.prev.id {
			return nil
		}
		if err != nil && !errors.Is(err, errNotFound) {
			return fmt.Errorf("look for frame %d: %w", o.prev.sequence, err)
		}
		if try == maxStale {
			return fmt.Errorf("%w: frame %d is gone", ErrTailLost, o.prev.sequence)
		}
		if err := sleep(ctx, jitter(try+3)); err != nil {
			return err
		}
	}
}

// readBack looks whether the frame is stored, when the broker may have forgotten its id. If the
// answer comes from the past the frame is stored twice, which readers see by its number.
func (o *Owner) readBack(ctx context.Context, frame *nats.Msg) (Ack, bool, error) {
	m, err := o.c.leaderRead(ctx, o.stream, directRequest{LastFor: frame.Subject})
	if errors.Is(err, errNotFound) {
		return Ack{}, false, nil
	}
	if err != nil {
		return Ack{}, false, fmt.Errorf("look for frame %d: %w", o.n+1, err)
	}
	if m.Header.Get(headerMsgID) != frame.Header.Get(headerMsgID) {
		return Ack{}, false, nil
	}
	ack, err := o.accept(Ack{Sequence: m.Sequence, Duplicate: true})
	return ack, err == nil, err
}

// complainEvery is how often an append that does not get through is logged.
const complainEvery = 5 * time.Second

// complain logs that the broker does not take the frame, with its own reason: storage that is
// full looks like a slow broker otherwise.
func (o *Owner) complain(run storeRun) {
	if time.Since(run.first) < complainEvery || time.Since(o.complained) < complainEvery {
		return
	}
	o.complained = time.Now()
	o.c.log.Warn().Err(run.last).Stringer("session", o.ref).Dur("for", time.Since(run.first).Round(time.Second)).
		Int("tries", run.try).Msg("the broker does not store a frame")
}
