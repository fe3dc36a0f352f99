package toolrunner

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync"
	"time"

	"braid/bus"
	"braid/schemas"
)

// queue is a pool's queue at the broker.
type queue struct {
	s     *server
	calls *bus.ToolQueue
	// pool is empty for the queue of this toolrunner alone.
	pool string
}

// Pull is [Queue]'s. It takes nothing while this toolrunner can't prove that it lives: its calls
// would be taken for lost as soon as they were started.
func (q *queue) Pull(ctx context.Context, most int) ([]Delivery, error) {
	if err := q.awaitHealth(ctx); err != nil {
		return nil, err
	}
	calls, err := q.calls.Pull(ctx, most)
	deliveries := make([]Delivery, 0, len(calls))
	for _, call := range calls {
		d := &busDelivery{q: q, call: call}
		if !q.s.beat.Healthy() {
			d.GiveBack()
			continue
		}
		deliveries = append(deliveries, d)
	}
	return deliveries, err
}

func (q *queue) awaitHealth(ctx context.Context) error {
	if q.s.beat.Healthy() {
		return nil
	}
	q.s.log.Warn().Msg("this toolrunner can't prove that it lives, so it starts no calls")
	again := time.NewTicker(healthPause)
	defer again.Stop()
	for !q.s.beat.Healthy() {
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	q.s.log.Info().Msg("this toolrunner starts calls again")
	return nil
}

// busDelivery is a call from a queue at the broker.
type busDelivery struct {
	q    *queue
	call bus.QueuedTool

	started uint64 // the sequence of the started record
	acked   sync.WaitGroup
}

func (d *busDelivery) Request() schemas.ToolRequest { return d.call.Request }

func (d *busDelivery) Offers(tool schemas.ToolDefinition) bool {
	if volume := d.q.s.options.Volume; volume != "" && d.q.pool == schemas.VolumePool(volume) {
		return tool.Workspace
	}
	return d.q.pool == "" || tool.Pool == d.q.pool
}

func (d *busDelivery) GiveBack() {
	if err := d.q.calls.Nak(d.call, 0); err != nil {
		d.q.s.log.Debug().Err(err).Msg("give a call back") // redelivery will
	}
}

// Claim writes the started record, which follows the very queued record that the request names.
// The broker stores one such record, so of all who try only one starts the call. The nonce is
// new with each delivery: it recognises this try when its acknowledgement was lost, and nothing
// that an earlier delivery has done.
func (d *busDelivery) Claim(ctx context.Context) (bool, error) {
	ctx, cancel := d.q.s.within(ctx)
	request := d.call.Request
	seq, err := d.q.s.conn.WriteRecord(ctx, request.Session, request.ToolCallID, request.Queued, schemas.ToolRecord{
		State: schemas.RecordStarted, Attempt: request.Attempt,
		Toolrunner: d.q.s.options.Instance, Volume: d.q.s.options.Volume, Nonce: rand.Text(),
	})
	_, refused := errors.AsType[*bus.RecordConflict](err)
	if err != nil && !refused {
		cancel()
		return false, err
	}
	// Started here or never to be started: either way it leaves the queue. Losing that costs
	// another delivery, and nothing else.
	d.acked.Go(func() {
		defer cancel()
		if err := d.q.calls.Ack(ctx, d.call); err != nil {
			d.q.s.log.Debug().Err(err).Msg("take a call off the queue")
		}
	})
	if refused {
		d.q.s.log.Debug().Err(err).Str("call", request.ToolCallID).Int("deliveries", d.call.Deliveries).Msg("a call can't be started")
		d.acked.Wait()
	}
	d.started = seq
	return !refused, nil
}

// Fragment is lost while the broker is away; the owner sees the gap and asks, or takes the whole
// text from the record.
func (d *busDelivery) Fragment(f schemas.ToolFragment) {
	if err := d.q.s.conn.PublishFragment(d.call.Request.Session, f); err != nil {
		d.q.s.log.Debug().Err(err).Msg("a fragment was not sent")
	}
}

func (d *busDelivery) FullOutput(ctx context.Context, text io.ReadSeeker) (string, error) {
	return d.q.s.conn.KeepOutput(ctx, d.call.Request.Session, d.call.Request.ToolCallID, text)
}

// Done writes the done record, however long the broker is away. If the owner has given the call
// up meanwhile its own record stands, and this result is dropped.
func (d *busDelivery) Done(ctx context.Context, result schemas.ToolResult) error {
	defer d.acked.Wait()
	ctx, cancel := d.q.s.within(ctx)
	defer cancel()
	request := d.call.Request
	_, err := d.q.s.conn.WriteRecord(ctx, request.Session, request.ToolCallID, d.started, schemas.ToolRecord{
		State: schemas.RecordDone, Attempt: request.Attempt, Toolrunner: d.q.s.options.Instance,
		Volume: d.q.s.options.Volume, Result: &result,
	})
	if conflict, ok := errors.AsType[*bus.RecordConflict](err); ok {
		d.q.s.log.Warn().Stringer("session", request.Session).Str("call", request.ToolCallID).Int("attempt", request.Attempt).
			Err(conflict).Msg("the call was settled without this toolrunner; its result is dropped")
		return nil
	}
	return err
}

// within is a context that also ends when the server gives up.
func (s *server) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.limit, func() { cancel(ErrShutdown) })
	return ctx, func() { stop(); cancel(nil) }
}
