package bus

import (
	"context"
	"errors"
	"fmt"
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
