package engine

import (
	"context"
	"time"

	"braid/bus"
)

// blobsAPass is how many blobs one pass looks at; the next one goes on behind them.
const blobsAPass = 1000

// sweep removes, pass by pass, blobs that nothing refers to: of frames, commands and imports whose
// sender was lost before it had sent them. Every engine does, each when its time comes; what one has
// removed the others do not find.
func (e *Engine) sweep(ctx context.Context) {
	for after := ""; ; {
		pause(ctx, e.untilSweep())
		if ctx.Err() != nil {
			return
		}
		after = e.sweepPass(ctx, after)
	}
}

// untilSweep spreads the passes of engines that were started at once.
func (e *Engine) untilSweep() time.Duration {
	return e.timing.Sweep/2 + time.Duration(e.jitter()*float64(e.timing.Sweep))
}

// sweepPass looks at some blobs behind the one of a name, for no longer than until the next pass,
// and returns behind which that goes on.
func (e *Engine) sweepPass(ctx context.Context, after string) (next string) {
	attempt, cancel := context.WithTimeout(ctx, e.timing.Sweep)
	defer cancel()
	swept, err := e.conn.SweepBlobs(attempt, bus.Sweep{Before: time.Now().Add(-e.timing.Orphan), After: after, Most: blobsAPass})
	if err != nil && ctx.Err() == nil {
		e.log.Warn().Err(err).Msg("blobs that nothing refers to may stay")
	}
	if swept.Removed > 0 {
		e.log.Info().Int("blobs", swept.Removed).Msg("blobs that nothing refers to are removed")
	}
	return swept.Next
}
