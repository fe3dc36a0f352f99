package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// retryRead repeats a read until it answers, finds nothing, or ctx ends. Each try has its own
// bound, so that one lost answer does not eat the caller's whole time.
func retryRead(ctx context.Context, read func(context.Context) error) error {
	for try := 0; ; try++ {
		attempt, cancel := context.WithTimeout(ctx, tryTimeout)
		err := read(attempt)
		cancel()
		if err == nil || errors.Is(err, errNotFound) || permanent(err) {
			return err
		}
		if waitErr := sleep(ctx, jitter(try)); waitErr != nil {
			return fmt.Errorf("%w (last answer: %w)", waitErr, err)
		}
	}
}

// tryDirect is one bounded try of a read that any replica answers.
func (c *Conn) tryDirect(ctx context.Context, stream string, request directRequest) ([]stored, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	return c.directGet(ctx, stream, request)
}

// flushWait bounds the wait for the broker of those who have no context.
const flushWait = 10 * time.Second

// flush waits until the broker has seen what was sent before: a subscription is in force then. A
// connection that is lost meanwhile and comes back is no failure, although the library speaks of a
// closed one; what was subscribed comes back with it.
func (c *Conn) flush(ctx context.Context) error {
	return retryRead(ctx, func(ctx context.Context) error {
		err := c.nc.FlushWithContext(ctx)
		if errors.Is(err, nats.ErrConnectionClosed) && !c.nc.IsClosed() {
			return errInterrupted
		}
		return err
	})
}

// errInterrupted says that the connection was lost while somebody waited for an answer.
var errInterrupted = errors.New("the connection to the broker was lost")

// subscribed waits until the broker knows of a new subscription. If that fails the subscription is
// ended.
func (c *Conn) subscribed(sub *nats.Subscription) error {
	ctx, cancel := context.WithTimeout(context.Background(), flushWait)
	defer cancel()
	err := c.flush(ctx)
	if err != nil {
		_ = sub.Unsubscribe() // it fails on a closed connection, which has none
	}
	return err
}
