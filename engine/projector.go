package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"braid/bus"
	"braid/schemas"
	"braid/trace"
)

// projector writes every session's recorded messages into this engine's trace, shard by shard,
// in stream order. The trace can always be rebuilt from the streams: one that is not of this
// broker, or ahead of it, is dropped and written again.
type projector struct {
	conn  *bus.Conn
	store *trace.Store
	log   zerolog.Logger

	mu struct {
		sync.Mutex
		applied []uint64      // by shard: the sequence up to which the trace has the stream
		behind  map[int]bool  // the shards of which the trace lacks something that was stored when it was opened
		failed  error         // why a shard could not be followed, the last time
		changed chan struct{} // closed and renewed when one of these changes
	}
}

// newProjector checks, shard by shard, that the trace belongs to this broker's streams, before anything is
// read from it; what does not is dropped.
func newProjector(ctx context.Context, conn *bus.Conn, store *trace.Store, log zerolog.Logger) (*projector, error) {
	p := &projector{conn: conn, store: store, log: log}
	p.mu.applied, p.mu.behind = make([]uint64, conn.Shards()), map[int]bool{}
	p.mu.changed = make(chan struct{})
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for shard := range conn.Shards() {
		mark, err := p.verify(ctx, shard)
		if err != nil {
			return nil, fmt.Errorf("check the trace of shard %d: %w", shard, err)
		}
		p.mu.applied[shard], p.mu.behind[shard] = mark.Sequence, true
	}
	return p, nil
}

// verify returns where the shard's trace ends, after dropping one that does not belong to the
// shard's stream.
func (p *projector) verify(ctx context.Context, shard int) (trace.Mark, error) {
	mark, found, err := p.store.Applied(shard)
	if err != nil || !found {
		return trace.Mark{}, err
	}
	if mark.Epoch == p.conn.ShardEpoch(shard) {
		holds, err := p.conn.ShardHolds(ctx, shard, mark.Sequence, mark.FrameID)
		if err != nil || holds {
			return mark, err
		}
	}
	p.log.Warn().Int("shard", shard).Uint64("applied", mark.Sequence).
		Msg("the trace is not of this stream and is rebuilt")
	return trace.Mark{}, p.store.Reset(shard)
}

// run projects all shards, each on a goroutine that it waits for, until ctx ends.
func (p *projector) run(ctx context.Context) {
	var wg sync.WaitGroup
	for shard := range p.conn.Shards() {
		wg.Go(func() { p.project(ctx, shard) })
	}
	wg.Wait()
}

// project follows one shard. When writing fails (a full disk) sessions go on, and the shard is
// tried again from where the trace ends.
func (p *projector) project(ctx context.Context, shard int) {
	for ctx.Err() == nil {
		err := p.conn.ConsumeLog(ctx, shard, p.at(shard)+1, func(records []bus.LogRecord) error {
			return p.apply(ctx, shard, records)
		})
		if ctx.Err() != nil {
			return
		}
		p.log.Error().Err(err).Int("shard", shard).Msg("the trace falls behind")
		p.change(func() { p.mu.failed = fmt.Errorf("follow shard %d: %w", shard, err) })
		if errors.Is(err, bus.ErrTailLost) {
			if err := p.store.Reset(shard); err == nil {
				p.moved(shard, 0)
				continue
			}
		}
		pause(ctx, 5*time.Second)
	}
}

// apply writes the records of one fetch to the trace as one batch. That there are none says that the trace
// has all that was stored when the shard began to be followed.
func (p *projector) apply(ctx context.Context, shard int, records []bus.LogRecord) error {
	if len(records) == 0 {
		p.change(func() { delete(p.mu.behind, shard) })
		return nil
	}
	frames := make([]trace.Frame, 0, len(records))
	mark := trace.Mark{Epoch: p.conn.ShardEpoch(shard)}
	for _, rec := range records {
		if rec.Passed {
			continue
		}
		mark.Sequence = rec.Sequence
		if rec.Deleted != nil {
			mark.FrameID = ""
			frames = append(frames, trace.Frame{
				Shard: shard, Epoch: mark.Epoch, Session: *rec.Deleted, Sequence: rec.Sequence, Fence: rec.Sequence, Deleted: true,
			})
			continue
		}
		mark.FrameID = rec.Frame.ID
		frames = append(frames, traceFrame(shard, rec.Frame))
	}
	if len(frames) > 0 {
		if err := p.store.Apply(ctx, shard, frames, mark); err != nil {
			return err
		}
	}
	p.moved(shard, records[len(records)-1].Sequence)
	return nil
}

// moved notes up to where the trace has a shard's stream, and wakes whoever waits for that.
func (p *projector) moved(shard int, sequence uint64) {
	p.change(func() { p.mu.applied[shard] = sequence })
}

// change notes something, and tells who waits for it.
func (p *projector) change(note func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	note()
	close(p.mu.changed)
	p.mu.changed = make(chan struct{})
}

// catchUp returns once the trace has all that was stored when it was opened. It fails when a shard can't
// be followed, or ctx ends.
func (p *projector) catchUp(ctx context.Context) error {
	for {
		p.mu.Lock()
		behind, failed, changed := len(p.mu.behind), p.mu.failed, p.mu.changed
		p.mu.Unlock()
		if behind == 0 || failed != nil {
			return failed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// traceFrame is a frame as the trace keeps it.
func traceFrame(shard int, f bus.Frame) trace.Frame {
	return trace.Frame{
		Shard: shard, Epoch: f.Header.Epoch, Session: f.Session, Sequence: f.Sequence,
		Fence: f.Header.Fence, N: f.Header.N, Cursor: f.Header.Cursor,
		Time: f.Time, Entries: f.Entries(),
	}
}

// at is the sequence up to which the trace has a shard's stream.
func (p *projector) at(shard int) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.applied[shard]
}

// await returns once the trace has seen a session up to a sequence of its stream. It fails with
// CodeUnavailable when ctx ends before.
func (p *projector) await(ctx context.Context, ref schemas.SessionRef, least uint64) error {
	return p.reach(ctx, p.conn.Shard(ref), least)
}

// awaitNow returns once the trace has everything that is stored when it is asked. It fails with
// CodeUnavailable when ctx ends before.
func (p *projector) awaitNow(ctx context.Context) error {
	var shards errgroup.Group
	for shard := range p.conn.Shards() {
		shards.Go(func() error {
			end, err := p.conn.LogEnd(ctx, shard)
			if err != nil {
				return errors.Join(schemas.Errorf(schemas.CodeUnavailable, "what is recorded now can't be read; try again"), err)
			}
			return p.reach(ctx, shard, end)
		})
	}
	return shards.Wait()
}

// reach is await of a shard.
func (p *projector) reach(ctx context.Context, shard int, least uint64) error {
	for {
		p.mu.Lock()
		at, changed := p.mu.applied[shard], p.mu.changed
		p.mu.Unlock()
		if at >= least {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if err := p.store.Degraded(); err != nil {
				return errors.Join(schemas.Errorf(schemas.CodeUnavailable, "the trace can't be written: its disk failed"), err)
			}
			return schemas.Errorf(schemas.CodeUnavailable, "this engine's trace is at %d, behind %d; try again", at, least)
		}
	}
}
