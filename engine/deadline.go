package engine

import (
	"context"
	"fmt"
	"time"

	"braid/engine/internal/session"
)

// clearBound is how long the broker is asked to forget a deadline. One that comes all the same is refused.
const clearBound = 5 * time.Second

// keepDeadline carries out a SetDeadline or ClearDeadline, behind those that are under way: a deadline that
// was removed before it is stored would stay. The session is not let go of before all are done.
func (r *runner) keepDeadline(e session.Effect) {
	r.deadlines = append(r.deadlines, e)
	if len(r.deadlines) == 1 {
		r.nextDeadline()
	}
}

// nextDeadline carries out the first of r.deadlines on a goroutine of the tenure, then those behind it.
func (r *runner) nextDeadline() {
	e := r.deadlines[0]
	r.spawn(func(ctx context.Context) {
		for {
			err := r.tellDeadline(ctx, e)
			if err == nil || ctx.Err() != nil {
				break
			}
			r.log.Warn().Err(err).Msg("can't store a deadline")
			pause(ctx, nakLater)
		}
		r.onLoop(func() {
			r.deadlines = r.deadlines[1:]
			if len(r.deadlines) > 0 {
				r.nextDeadline()
			}
		})
	})
}

// tellDeadline has the broker store a deadline, or forget one. Only the first can fail.
func (r *runner) tellDeadline(ctx context.Context, e session.Effect) error {
	switch e := e.(type) {
	case session.SetDeadline:
		if err := r.e.conn.Schedule(ctx, r.ref, e.Command.Deadline.ToolCallID, e.At, e.Command); err != nil {
			return fmt.Errorf("set a deadline: %w", err)
		}
	case session.ClearDeadline:
		ctx, cancel := context.WithTimeout(ctx, clearBound)
		defer cancel()
		if err := r.e.conn.Unschedule(ctx, r.ref, e.ToolCallID); err != nil {
			r.log.Debug().Err(err).Msg("a deadline stays, to no effect")
		}
	}
	return nil
}
