package engine

import (
	"context"
	"time"

	"braid/bus"
)

// blobsAPass is how many blobs one pass looks at; the next one goes on behind them.
const blobsAPass = 1000

// sweep removes, pass by pass until ctx ends, blobs that nothing refers to: those of frames, commands and
// imports whose sender was lost between storing the blob and sending what refers to it. Every engine
// sweeps, each at its own time; they do not disturb one another.
func (e *Engine) sweep(ctx context.Context) {
	for after := ""; ; {
		pause(ctx, e.untilSweep())
		if ctx.Err() != nil {
			return
		}
		after = e.sweepPass(ctx, after)
	}
}

// untilSweep is the pause before the next pass: from half to one and a half Timing.Sweep, so that engines
// that were started at the same time do not sweep at the same time.
func (e *Engine) untilSweep() time.Duration {
	return e.timing.Sweep/2 + time.Duration(e.jitter()*float64(e.timing.Sweep))
}

// sweepPass looks at blobsAPass blobs, those that follow the one named after, and returns the name after
// which the next pass goes on; empty: at the first.
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
