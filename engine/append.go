package engine

import (
	"context"
	"fmt"
	"time"

	"braid/bus"
	"braid/engine/internal/session"
	"braid/schemas"
)

// appender keeps one frame in flight. Whatever the session says meanwhile waits in a batch and
// joins the next frame, so a busy session has large frames, not many. Effects wait until the
// frame with the messages that announce them is acknowledged.
type appender struct {
	batch   bus.Batch
	jobs    chan job
	results chan result
	flying  bool

	added   bus.Mark // of the newest messages
	done    bus.Mark // stored up to here
	ack     bus.Ack  // of the newest stored frame
	cursor  uint64   // the last command whose outcome is in a frame that was handed out
	cursors []markedCursor
	waiting []waitingEffects
	confirm *session.CallModel // a model call that waits for a fresh acknowledgement
}

// job is a frame to append; one without messages confirms the claim.
type job struct {
	messages []schemas.Message
	mark     bus.Mark
	cursor   uint64
	confirm  *session.CallModel
}

type result struct {
	job
	ack  bus.Ack
	took time.Duration
	err  error
}

// markedCursor is the last command whose outcome is among the messages up to a mark.
type markedCursor struct {
	mark   bus.Mark
	cursor uint64
}

type waitingEffects struct {
	mark    bus.Mark
	effects []session.Effect
}

// backlogBytes is how much may wait for the frame in flight before the model and the tools are
// held back.
const backlogBytes = 512 << 10

func newAppender() appender {
	return appender{jobs: make(chan job), results: make(chan result, 1)}
}

// backlog reports that producers should wait.
func (a *appender) backlog() bool { return a.batch.Size() > backlogBytes }

// quiet reports that nothing is on its way to the log and no effect waits for it.
func (a *appender) quiet() bool {
	return !a.flying && a.batch.Empty() && len(a.waiting) == 0 && a.confirm == nil
}

// add queues what a step asks for. Effects without messages wait for whatever was added before.
func (r *runner) add(out session.Output) {
	if len(out.Messages) > 0 {
		mark, err := r.batch.Add(out.Messages...)
		if err != nil { // a message that can't be encoded: nothing the core makes
			r.cancel(fmt.Errorf("append: %w", err))
			return
		}
		r.added = mark
		if n := len(r.cursors); r.state.Cursor > r.cursor && (n == 0 || r.state.Cursor > r.cursors[n-1].cursor) {
			r.cursors = append(r.cursors, markedCursor{mark, r.state.Cursor})
		}
	}
	if len(out.Effects) == 0 {
		return
	}
	if r.added <= r.done && r.batch.Empty() && !r.flying {
		r.perform(out.Effects, r.ack)
		return
	}
	r.waiting = append(r.waiting, waitingEffects{mark: r.added, effects: out.Effects})
}

// flush hands the next frame out, if none is in flight.
func (r *runner) flush() error {
	if r.flying || (r.batch.Empty() && r.confirm == nil) {
		return nil
	}
	j := job{confirm: r.confirm}
	if r.confirm == nil {
		j.messages, j.mark = r.batch.Take(r.e.conn.MaxFrame())
		for len(r.cursors) > 0 && r.cursors[0].mark <= j.mark {
			r.cursor = r.cursors[0].cursor
			r.cursors = r.cursors[1:]
		}
	}
	j.cursor = r.cursor
	r.confirm = nil
	select {
	case r.jobs <- j:
		r.flying = true
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

// appendFrames is the goroutine that talks to the broker for the loop.
func (r *runner) appendFrames(ctx context.Context) {
	for {
		select {
		case j := <-r.jobs:
			out, sent := result{job: j}, time.Now()
			if j.confirm != nil {
				out.ack, out.err = r.owner.Confirm(ctx)
			} else {
				out.ack, out.err = r.owner.Append(ctx, j.messages, j.cursor)
			}
			out.took = time.Since(sent)
			r.results <- out
		case <-ctx.Done():
			return
		}
	}
}

// stored notes an acknowledged frame and lets the effects go that waited for it.
func (r *runner) stored(res result) error {
	if err := r.storedOnly(res); err != nil {
		return err
	}
	if res.confirm != nil {
		r.startModel(*res.confirm)
	}
	r.performStored()
	return nil
}

// performStored lets the effects go whose messages are stored.
func (r *runner) performStored() {
	for len(r.waiting) > 0 && r.waiting[0].mark <= r.done {
		w := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.perform(w.effects, r.ack)
	}
}

// storedOnly notes an acknowledged frame without any effect.
func (r *runner) storedOnly(res result) error {
	r.flying = false
	if res.err != nil {
		return res.err
	}
	r.ack = res.ack
	r.appended = time.Now()
	if res.confirm == nil {
		r.done = res.mark
		r.tellStored(res)
	}
	return nil
}

// tellStored tells what a stored frame amounts to.
func (r *runner) tellStored(res result) {
	tell(r.e.events.Appended, res.took)
	for _, m := range res.messages {
		r.ledger.read(m, r.e.events)
	}
}
