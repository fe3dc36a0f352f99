package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"braid/bus"
	"braid/engine/internal/session"
	"braid/schemas"
)

// toolCall follows one call from its first record to its last, on a goroutine of its own. All
// decisions about the call are compare-and-set writes of its records: what this owner believes,
// or another one does, never counts.
type toolCall struct {
	r     *runner
	start session.StartTool

	hint       chan *schemas.ToolRecord
	cancel     chan struct{}
	cancelOnce sync.Once

	// pool is where the call is queued. place is where the session's files are, for a tool that works
	// on them; nil as long as they are nowhere yet.
	pool  string
	place *schemas.WorkspaceBound

	toolrunner atomic.Pointer[string] // who runs it, once that is known
	asked      time.Time              // when output was last asked for again; only the loop uses it
	task       TaskOf
	above      schemas.TraceContext // what it carries to its toolrunner, see [Options.TraceContext]
	since      time.Time            // when it was queued, or was started
	stood      time.Duration        // how long ago the record was stored that this owner found
}

// startTool follows a call that is allowed, once the decision is stored, on a goroutine of its own.
func (r *runner) startTool(e session.StartTool) {
	if r.calls[e.Call.ToolCallID] != nil {
		return
	}
	c := &toolCall{
		r: r, start: e, pool: e.Definition.Pool, hint: make(chan *schemas.ToolRecord, 4), cancel: make(chan struct{}),
		task: r.ledger.task.TaskOf,
	}
	if e.Bound != nil {
		c.settleIn(e.Bound)
	}
	if r.e.above != nil {
		c.above = r.e.above(c.task)
	}
	r.calls[e.Call.ToolCallID] = c
	r.spawn(c.run)
}

// cancelTool has a call come to its end soon: withdrawn if it has not started, else cancelled, and after
// Timing.CancelBound without an answer ended by this owner.
func (r *runner) cancelTool(id string) {
	if c := r.calls[id]; c != nil {
		c.cancelOnce.Do(func() { close(c.cancel) })
	}
}

// resendPause is the least time between two requests for a call's output: each fragment of a burst that
// follows a hole would otherwise ask for the same again.
const resendPause = 100 * time.Millisecond

// resend asks a call's toolrunner for its output from an offset on.
func (r *runner) resend(e session.ResendOutput) {
	c := r.calls[e.ToolCallID]
	if c == nil || time.Since(c.asked) < resendPause {
		return
	}
	toolrunner := c.toolrunner.Load()
	if toolrunner == nil {
		return
	}
	c.asked = time.Now()
	r.spawn(func(ctx context.Context) {
		if err := r.e.conn.RequestResend(ctx, *toolrunner, r.ref, e.ToolCallID, e.Attempt, e.From); err != nil {
			r.log.Debug().Err(err).Str("call", e.ToolCallID).Msg("ask for output again") // its result holds all of it
		}
	})
}

// resendAll asks the toolrunners of all running calls for the output behind what is merged.
func (r *runner) resendAll() {
	for id, c := range r.calls {
		attempt, offset := r.state.Merged(id)
		c.asked = time.Time{}
		r.resend(session.ResendOutput{ToolCallID: id, Attempt: attempt, From: offset})
	}
}

// tellRecord hands the call a record that was stored; nil has it read its records now. It never blocks.
func (c *toolCall) tellRecord(rec *schemas.ToolRecord) {
	select {
	case c.hint <- rec:
	default: // hints wait already: what comes of them includes this one, or the next reading does
	}
}

func (c *toolCall) id() string { return c.start.Call.ToolCallID }

// run takes the call through its records and reports its end.
func (c *toolCall) run(ctx context.Context) {
	rec, err := c.open(ctx)
	for err == nil && ctx.Err() == nil {
		switch rec.State {
		case schemas.RecordQueued:
			c.since = storedOr(rec, time.Now())
			rec, err = c.awaitStart(ctx, rec)
		case schemas.RecordStarted:
			c.since = storedOr(rec, time.Now())
			rec, err = c.awaitEnd(ctx, rec)
		default:
			if rec.State == schemas.RecordDone {
				c.notePlace(rec)
			}
			c.ended(rec)
			return
		}
	}
	if ctx.Err() != nil {
		return // the next owner follows the call
	}
	c.r.log.Error().Err(err).Str("call", c.id()).Msg("a tool call's records are lost")
	c.ended(schemas.ToolRecord{Attempt: c.start.Attempt, Result: lostRecords()})
}

// ended reports the call's result to the session.
func (c *toolCall) ended(rec schemas.ToolRecord) {
	result := rec.Result
	if result == nil {
		result = &schemas.ToolResult{Output: "[the call was withdrawn before it started]", Appends: true, StopReason: schemas.StopAborted}
	}
	settled, tells := c.settled(rec, result)
	c.r.onLoop(func() {
		delete(c.r.calls, c.id())
		if tells {
			c.r.ledger.settled[c.id()] = settled
		}
		c.r.step(session.ToolEnded{ToolCallID: c.id(), Attempt: rec.Attempt, Result: *result})
	})
}

// open listens to toolrunners, then finds the call's last record, or writes its first.
func (c *toolCall) open(ctx context.Context) (schemas.ToolRecord, error) {
	for {
		err := c.r.desk.ready()
		if err == nil {
			break
		}
		c.r.log.Warn().Err(err).Msg("can't listen to toolrunners")
		if pause(ctx, nakLater); ctx.Err() != nil {
			return schemas.ToolRecord{}, ctx.Err()
		}
	}
	if !c.start.Resumed {
		return c.write(ctx, 0, schemas.ToolRecord{State: schemas.RecordQueued, Attempt: 1})
	}
	rec, found, err := c.r.e.conn.LastRecord(ctx, c.r.ref, c.id())
	if err == nil && found {
		c.stood = c.age(ctx, rec)
		return rec, nil
	}
	if c.start.Offset > 0 {
		// The call ran. If its records are lost, a new one must not let it run again.
		return c.write(ctx, 0, schemas.ToolRecord{State: schemas.RecordWithdrawn, Attempt: c.start.Attempt, Result: lostRecords()})
	}
	return c.write(ctx, 0, schemas.ToolRecord{State: schemas.RecordQueued, Attempt: 1})
}

// lostRecords is what is known of a call whose chain of records is gone.
func lostRecords() *schemas.ToolResult {
	return &schemas.ToolResult{
		Output: "[the record of the call was lost; whether it took effect is unknown]", Appends: true, StopReason: schemas.StopFailed,
	}
}

// age is how long ago a record of an owner before was stored, so that a call's bounds do not begin
// anew with each owner. Clocks of two machines differ: the broker says when it stored the record
// and when the claim, and from the claim on this process has its own clock.
func (c *toolCall) age(ctx context.Context, rec schemas.ToolRecord) time.Duration {
	claim, found, err := c.r.e.conn.LastClaim(ctx, c.r.ref)
	if err != nil || !found || claim.Sequence != c.r.owner.Fence() {
		return 0
	}
	return max(claim.Time.Sub(rec.Stored)+time.Since(c.r.began), 0)
}

// remains is what is left of a bound, at least least: of the record that this owner found, some of it may
// have passed. It counts that once; the records that follow have their whole bound.
func (c *toolCall) remains(bound, least time.Duration) time.Duration {
	left := max(bound-c.stood, min(bound, least))
	c.stood = 0
	return left
}

// write adds a record after the one at sequence after. If another came first, that one is
// returned: it decides.
func (c *toolCall) write(ctx context.Context, after uint64, rec schemas.ToolRecord) (schemas.ToolRecord, error) {
	for {
		seq, err := c.r.e.conn.WriteRecord(ctx, c.r.ref, c.id(), after, rec)
		if err == nil {
			rec.Sequence = seq
			return rec, nil
		}
		if conflict, ok := errors.AsType[*bus.RecordConflict](err); ok {
			if conflict.Last == 0 {
				return rec, err
			}
			if conflict.Record != nil {
				return *conflict.Record, nil
			}
			if last, found, err := c.r.e.conn.LastRecord(ctx, c.r.ref, c.id()); err == nil && found && last.Sequence >= conflict.Last {
				return last, nil
			}
		}
		if pause(ctx, nakSoon); ctx.Err() != nil {
			return rec, ctx.Err()
		}
	}
}

// newer reads the call's records; true if there is one after the given sequence.
func (c *toolCall) newer(ctx context.Context, after uint64) (schemas.ToolRecord, bool) {
	rec, found, err := c.r.e.conn.LastRecord(ctx, c.r.ref, c.id())
	return rec, err == nil && found && rec.Sequence > after
}

// heard takes a hint: true with a record that follows the given sequence. A record that came with
// it is proof; without one the records are read.
func (c *toolCall) heard(ctx context.Context, rec *schemas.ToolRecord, after uint64) (schemas.ToolRecord, bool) {
	if rec == nil {
		return c.newer(ctx, after)
	}
	return *rec, rec.Sequence > after
}
