package bus

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// An answer of many parts takes its time. Engines that were asked for it as well would send it at the same time,
// and all would be late.
func TestALongAnswerIsAskedForOnce(t *testing.T) {
	patience, comes, sent := make(chan time.Time), make(chan struct{}), make(chan struct{})
	var asked atomic.Int32
	go func() {
		<-comes
		for range 3 {
			patience <- time.Time{}
		}
		close(sent)
	}()
	got, err := askAround(t.Context(), patience, func(_ context.Context, alive func()) ([]byte, error) {
		if asked.Add(1) == 1 {
			alive()
			close(comes)
		}
		<-sent
		return []byte("long"), nil
	})
	if err != nil || string(got) != "long" || asked.Load() != 1 {
		t.Errorf("got %q, %v, asked %d times", got, err, asked.Load())
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
