package engine

import (
	"context"
	"fmt"
	"time"

	"braid/bus"
	"braid/schemas"
)

// This file waits for what others do with a call, its start and its end, and settles the call in
// their place when they don't.

// A happening ends one [wait.next].
type happening int

const (
	recordCame    happening = iota + 1 // somebody has stored the next record
	cancelAsked                        // the call is to be cancelled; happens once
	cancelOverdue                      // ... and has not ended in the time that was left to it
	boundReached                       // the call has had its time
	lookAlive                          // it is time to see whether a toolrunner still lives; happens again and again
)

// wait is how a call waits for the record that follows the one at sequence after. Its owner stops it.
type wait struct {
	c      *toolCall
	after  uint64
	bound  *time.Timer
	reread *time.Ticker // hints can be lost: records are read once in a while in any case
	alive  *time.Ticker

	cancel  <-chan struct{}  // nil once it was told
	overdue <-chan time.Time // nil while nothing can be overdue
}

func (c *toolCall) newWait(after schemas.ToolRecord, bound time.Duration) *wait {
	return &wait{
		c: c, after: after.Sequence, cancel: c.cancel,
		bound:  time.NewTimer(bound),
		reread: time.NewTicker(c.r.e.timing.Records),
		alive:  time.NewTicker(c.r.e.timing.Watch),
	}
}

func (w *wait) stop() {
	w.bound.Stop()
	w.reread.Stop()
	w.alive.Stop()
}

// next returns the next thing that happens, with the record if that is what came. The only error is
// that of a context that has ended.
func (w *wait) next(ctx context.Context) (happening, schemas.ToolRecord, error) {
	for {
		select {
		case hint := <-w.c.hint:
			if rec, ok := w.c.heard(ctx, hint, w.after); ok {
				return recordCame, rec, nil
			}
		case <-w.reread.C:
			if rec, ok := w.c.newer(ctx, w.after); ok {
				return recordCame, rec, nil
			}
		case <-w.cancel:
			w.cancel = nil
			return cancelAsked, schemas.ToolRecord{}, nil
		case <-w.overdue:
			return cancelOverdue, schemas.ToolRecord{}, nil
		case <-w.bound.C:
			return boundReached, schemas.ToolRecord{}, nil
		case <-w.alive.C:
			return lookAlive, schemas.ToolRecord{}, nil
		case <-ctx.Done():
			return 0, schemas.ToolRecord{}, ctx.Err()
		}
	}
}

// requeueGrace is the least time that a call gets to be started, when an owner finds it queued and its time
// in the queue nearly over: the owner before may have been lost before it had put the call in the queue.
const requeueGrace = 2 * time.Second

// awaitStart queues the call and waits until a toolrunner has started it. Otherwise it is
// withdrawn: after that record no toolrunner can start it.
func (c *toolCall) awaitStart(ctx context.Context, rec schemas.ToolRecord) (schemas.ToolRecord, error) {
	def := c.start.Definition
	select {
	case <-c.cancel:
		return c.withdraw(ctx, rec, abortedBeforeStart())
	default:
	}
	message, err := c.r.e.conn.QueueTool(ctx, c.pool, c.request(rec))
	if err != nil {
		return c.unqueueable(ctx, rec, err)
	}
	limit := time.Duration(def.QueueTimeoutMS) * time.Millisecond
	w := c.newWait(rec, c.remains(limit, requeueGrace))
	defer w.stop()
	var result schemas.ToolResult
	for result.StopReason == "" {
		happened, next, err := w.next(ctx)
		if err != nil {
			return rec, err
		}
		switch happened {
		case recordCame:
			return next, nil
		case cancelAsked:
			result = abortedBeforeStart()
		case boundReached:
			result = c.untaken(limit)
		case lookAlive:
			if c.placeGone(ctx) {
				result = c.placeLost()
			}
		case cancelOverdue: // a call that has not started is cancelled at once
		}
	}
	next, err := c.withdraw(ctx, rec, result)
	if err == nil && next.State == schemas.RecordWithdrawn {
		if err := c.r.e.conn.UnqueueTool(ctx, message); err != nil {
			c.r.log.Debug().Err(err).Msg("take a withdrawn call off the queue")
		}
	}
	return next, err
}

func abortedBeforeStart() schemas.ToolResult {
	return schemas.ToolResult{Output: "[aborted before it started]", Appends: true, StopReason: schemas.StopAborted}
}

// withdraw settles a call that has not started. If a toolrunner has started it meanwhile, that record stands
// and is returned instead.
func (c *toolCall) withdraw(ctx context.Context, rec schemas.ToolRecord, result schemas.ToolResult) (schemas.ToolRecord, error) {
	return c.write(ctx, rec.Sequence, schemas.ToolRecord{State: schemas.RecordWithdrawn, Attempt: rec.Attempt, Result: &result})
}

// unqueueable settles a call whose message the broker will never take, such as one too large.
func (c *toolCall) unqueueable(ctx context.Context, rec schemas.ToolRecord, cause error) (schemas.ToolRecord, error) {
	if ctx.Err() != nil {
		return rec, ctx.Err()
	}
	return c.withdraw(ctx, rec, schemas.ToolResult{
		Output: fmt.Sprintf("[the call could not be queued and was not run: %v]", cause), Appends: true, StopReason: schemas.StopFailed,
	})
}

// request is what toolrunners are sent; rec is the record that says the call is queued.
func (c *toolCall) request(rec schemas.ToolRecord) schemas.ToolRequest {
	def := c.start.Definition
	return schemas.ToolRequest{
		Session: c.r.ref, ToolCallID: c.id(), Name: def.Name, Arguments: c.start.Call.Arguments,
		Queued: rec.Sequence, Attempt: max(rec.Attempt, 1), Retry: def.Retry,
		Workspace: c.start.Workspace, TimeoutMS: def.TimeoutMS, OutputCap: def.OutputCap, TraceContext: c.above,
	}
}

// boundGrace is what a call may take beyond its timeout, which its toolrunner enforces, before
// its owner gives it up.
const boundGrace = 10 * time.Second

// awaitEnd waits for the result of a call that runs. If its toolrunner is lost, does not end it
// in time, or does not obey a cancel, the owner writes the end itself.
func (c *toolCall) awaitEnd(ctx context.Context, rec schemas.ToolRecord) (schemas.ToolRecord, error) {
	c.toolrunner.Store(&rec.Toolrunner)
	c.notePlace(rec)
	c.r.onLoop(c.r.resendAll) // what was sent before this owner listened
	bound := time.Duration(c.start.Definition.TimeoutMS)*time.Millisecond + boundGrace
	w := c.newWait(rec, c.remains(bound, boundGrace))
	defer w.stop()
	for {
		happened, next, err := w.next(ctx)
		if err != nil {
			return rec, err
		}
		switch happened {
		case recordCame:
			return next, nil
		case cancelAsked:
			w.overdue = time.After(c.r.e.timing.CancelBound)
			c.askCancel(rec.Toolrunner)
		case cancelOverdue:
			return c.endInPlace(ctx, rec, schemas.StopAborted, "aborted; the tool did not end in time and may still be running")
		case boundReached:
			return c.endInPlace(ctx, rec, schemas.StopTimeout, "the toolrunner did not end the call in time; the tool may still be running")
		case lookAlive:
			if gone, err := c.r.e.beat.Gone(ctx, bus.KindToolrunner, rec.Toolrunner); err != nil || !gone {
				continue
			}
			if last, ok := c.newer(ctx, rec.Sequence); ok { // it ended the call before it was lost
				return last, nil
			}
			return c.lost(ctx, rec)
		}
	}
}

// askCancel asks the toolrunner that runs the call to end it. Nobody waits for the answer: what counts
// is the record that follows.
func (c *toolCall) askCancel(toolrunner string) {
	c.r.spawn(func(ctx context.Context) {
		if err := c.r.e.conn.CancelCall(ctx, toolrunner, c.r.ref, c.id()); err != nil {
			c.r.log.Debug().Err(err).Str("call", c.id()).Msg("cancel a call")
		}
	})
}

// maxToolAttempts is how often a call is started that may run more than once: a call that toolrunner after
// toolrunner is lost with may be what kills them.
const maxToolAttempts = 3

// lost settles a call whose toolrunner is gone: again if it may run twice, else as failed with
// its outcome unknown.
func (c *toolCall) lost(ctx context.Context, rec schemas.ToolRecord) (schemas.ToolRecord, error) {
	c.r.log.Warn().Str("call", c.id()).Str("toolrunner", rec.Toolrunner).Msg("a toolrunner was lost with a call")
	if c.start.Definition.Retry == schemas.RetrySafe && rec.Attempt < maxToolAttempts {
		again, err := c.write(ctx, rec.Sequence, schemas.ToolRecord{State: schemas.RecordQueued, Attempt: rec.Attempt + 1})
		if err == nil && again.State == schemas.RecordQueued {
			tell(c.r.e.events.CallSettled, c.attempt(rec.Attempt, true, schemas.StopFailed, time.Now()))
		}
		return again, err
	}
	return c.endInPlace(ctx, rec, schemas.StopFailed, "the toolrunner was lost after it had started the call; whether the call took effect is unknown")
}

// endInPlace writes the end of a call that has started, in its toolrunner's place.
func (c *toolCall) endInPlace(ctx context.Context, rec schemas.ToolRecord, reason schemas.StopReason, note string) (schemas.ToolRecord, error) {
	return c.write(ctx, rec.Sequence, schemas.ToolRecord{
		State: schemas.RecordDone, Attempt: rec.Attempt, Toolrunner: rec.Toolrunner, Volume: rec.Volume,
		Result: &schemas.ToolResult{Output: "[" + note + "]", Appends: true, StopReason: reason},
	})
}
