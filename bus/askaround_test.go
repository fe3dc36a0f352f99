package bus

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Who works on an answer says so, or sends a part of it, and nobody else is asked meanwhile: they would do the same
// work, and all would be late. When that ends before the answer is whole, somebody else is asked.
func TestNobodyElseIsAskedWhileSomebodyWorks(t *testing.T) {
	patience, asked := make(chan time.Time), make(chan struct{}, queryAskers)
	got, err := askAround(t.Context(), patience, func(ctx context.Context, alive func()) ([]byte, error) {
		asked <- struct{}{}
		if len(asked) > 1 {
			return []byte("the answer"), nil
		}
		for range 3 {
			alive()
			patience <- time.Time{}
		}
		if len(asked) != 1 {
			t.Errorf("asked %d times while the first one works", len(asked))
		}
		patience <- time.Time{} // and it is silent
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if err != nil || string(got) != "the answer" || len(asked) != 2 {
		t.Errorf("got %q, %v, asked %d times", got, err, len(asked))
	}
}

// As long as nothing comes others are asked, but not without end.
func TestOthersAreAskedWhileNothingComes(t *testing.T) {
	patience, asked := make(chan time.Time), make(chan struct{}, 2*queryAskers)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for range 2 * queryAskers {
			patience <- time.Time{}
		}
		cancel()
	}()
	_, err := askAround(ctx, patience, func(ctx context.Context, _ func()) ([]byte, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || len(asked) != queryAskers {
		t.Errorf("asked %d times: %v", len(asked), err)
	}
}
