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

	added   bus.Mark           // of the newest messages in the batch, or taken from it
	done    bus.Mark           // everything up to here is stored
	ack     bus.Ack            // of the newest stored frame
	cursor  uint64             // the last command whose outcome is in a frame that was handed out
	cursors []markedCursor     // the same for messages that wait, in order
	waiting []waitingEffects   // effects whose messages are not stored yet, in order
	confirm *session.CallModel // a model call that waits for an acknowledgement that is fresh
}

// job is a frame to append; one without messages confirms the claim.
type job struct {
	messages []schemas.Message
	mark     bus.Mark
	cursor   uint64
	confirm  *session.CallModel
}

// result is what became of a job. took is the time from sending it to its acknowledgement.
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

// waitingEffects may be carried out once everything up to the mark is stored.
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

// add queues the messages that a step returns, and its effects behind them. Effects without messages wait
// for whatever was added before; if all of that is stored they are carried out at once.
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

// flush hands the next frame to appendFrames, if none is in flight and something waits. A model call that
// waits for a fresh acknowledgement goes first, in a frame without messages.
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

// appendFrames is the goroutine that appends the loop's frames, one at a time, and reports each.
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

// stored takes the result of a job: it notes the acknowledged frame and carries out the effects that waited
// for it. An error is that of the append, and ends the tenure.
func (r *runner) stored(res result) error {
	if err := r.noteStored(res); err != nil {
		return err
	}
	if res.confirm != nil {
		r.startModel(*res.confirm)
	}
	r.performStored()
	return nil
}

// performStored carries out the waiting effects whose messages are stored.
func (r *runner) performStored() {
	for len(r.waiting) > 0 && r.waiting[0].mark <= r.done {
		w := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.perform(w.effects, r.ack)
	}
}

// noteStored is stored without any effect.
func (r *runner) noteStored(res result) error {
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
