package engine

import (
	"context"
	"fmt"

	"braid/bus"
	"braid/schemas"
)

// deleteSession deletes the session whose last word is stored. If it does not come to its end, the
// session's running key stays: whoever is rung for it goes on, see [Engine.routeDeleted].
func (r *runner) deleteSession() error {
	if err := r.e.conn.DeleteSession(r.ctx, r.ref, r.e.instance); err != nil {
		return fmt.Errorf("delete the session: %w", err)
	}
	r.log.Info().Msg("a session is deleted")
	return errDeleted
}

// routeDeleted answers for a session that is no more. A ring, or a repeated delete, may be for one of
// which something is left.
func (e *Engine) routeDeleted(ctx context.Context, w bus.WakeUp) {
	if w.Type == schemas.CommandWake || w.Type == schemas.CommandDelete {
		if err := e.conn.DeleteSession(ctx, w.Session, e.instance); err != nil {
			e.delay(w, nakLater)
			return
		}
	}
	e.refuse(ctx, w, schemas.Errorf(schemas.CodeDeleted, "session %s was deleted", w.Session.ID))
}
