package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// Headers Braid or the broker reads.
const (
	headerMsgID          = "Nats-Msg-Id"
	headerTTL            = "Nats-TTL"
	headerRollup         = "Nats-Rollup"
	headerExpectSubject  = "Nats-Expected-Last-Subject-Sequence"
	headerExpectSubjectN = "Nats-Expected-Last-Subject-Sequence-Subject"
)

// Error codes of the JetStream API that Braid decides on.
const (
	codeWrongLastSequence         = 10071 // the condition does not hold
	codeWrongLastSequenceConstant = 10164 // a write under the same condition is in flight: busy
	codeDuplicateInFlight         = 10158 // the same message id is in flight: busy

	codeResourcesExceeded     = 10002 // of the account
	codeInsufficientResources = 10023
	codeStorageExceeded       = 10047
	codeStoreFailed           = 10077 // limits of the stream, or of the disk
)

// apiError is a refusal of a JetStream request.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.ErrCode) }

// ErrStorageFull says that the broker refuses to store for want of room. Reads go on; what takes
// room waits until there is some, as long as its context allows.
var ErrStorageFull = errors.New("the broker has no room left")

// Is makes errors.Is(err, ErrStorageFull) true for the refusals that mean it.
func (e *apiError) Is(target error) bool {
	if target != ErrStorageFull {
		return false
	}
	switch e.ErrCode {
	case codeResourcesExceeded, codeInsufficientResources, codeStorageExceeded, codeStoreFailed:
		return true
	}
	return false
}

// lastSequence is the sequence a wrong-last-sequence refusal reports, which names the record
// that is there instead; false for any other error.
func (e *apiError) lastSequence() (uint64, bool) {
	if e.ErrCode != codeWrongLastSequence {
		return 0, false
	}
	var last uint64
	if _, err := fmt.Sscanf(e.Description, "wrong last sequence: %d", &last); err != nil {
		return 0, false
	}
	return last, true
}

// pubAck is the broker's answer to a stored message.
type pubAck struct {
	Stream    string    `json:"stream"`
	Sequence  uint64    `json:"seq"`
	Duplicate bool      `json:"duplicate"`
	Error     *apiError `json:"error"`
}

// publish stores one message and returns the broker's answer: one try, no retry. An error is an
// *apiError when the broker refused, else the outcome is unknown: the message may be stored.
func (c *Conn) publish(ctx context.Context, m *nats.Msg) (pubAck, error) {
	answer, err := c.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return pubAck{}, fmt.Errorf("publish: %w", err)
	}
	var ack pubAck
	if err := schemas.DecodeJSON(answer.Data, &ack); err != nil {
		return pubAck{}, fmt.Errorf("publish: unexpected answer: %w", err)
	}
	if ack.Error != nil {
		return pubAck{}, ack.Error
	}
	if ack.Stream == "" || ack.Sequence == 0 {
		return pubAck{}, errors.New("publish: the answer names no stream")
	}
	return ack, nil
}

// tryTimeout bounds one try of a request; a lost answer must not eat the caller's whole time.
const tryTimeout = 2 * time.Second

// publishRetry repeats an identical publish until the broker answers or ctx ends. A refusal that
// is no verdict (busy, no leader, resources) is retried too; decide tells which errors are final.
// The message must carry a Nats-Msg-Id or a condition, or a lost answer stores it twice.
func (c *Conn) publishRetry(ctx context.Context, m *nats.Msg, final func(error) bool) (pubAck, error) {
	var last error
	for try := 0; ; try++ {
		attempt, cancel := context.WithTimeout(ctx, tryTimeout)
		ack, err := c.publish(attempt, m)
		cancel()
		if err == nil || (final != nil && final(err)) || permanent(err) {
			return ack, err
		}
		last = moreTelling(last, err)
		if waitErr := sleep(ctx, jitter(try)); waitErr != nil {
			return pubAck{}, fmt.Errorf("%w (last answer: %w)", waitErr, last)
		}
	}
}

// moreTelling is what to report of the tries so far: a refusal says more than that no answer came.
func moreTelling(last, err error) error {
	if last == nil || errors.As(err, new(*apiError)) {
		return err
	}
	return last
}

// permanent reports an error that no retry of the same message can mend.
func permanent(err error) bool {
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) ||
		errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrInvalidConnection)
}

// jitter is the pause before the next try: 1 to 2 ms at first, doubling to 100 to 200 ms.
func jitter(try int) time.Duration {
	base := time.Millisecond << min(try, 7)
	base = min(base, 100*time.Millisecond)
	return base + rand.N(base)
}

// busy reports a refusal that says nothing about the condition: another write is in flight, the
// leader is changing, the broker is short of something.
func busy(err error) bool {
	var refused *apiError
	if !errors.As(err, &refused) {
		return true // no answer: unknown
	}
	return refused.ErrCode != codeWrongLastSequence
}
