package engine

import (
	"context"
	"fmt"

	"braid/bus"
	"braid/schemas"
)

// deleteSession removes everything of a session whose session_deleted is stored. If it is interrupted the
// session's running key stays, and whichever engine is rung for it goes on, see [Engine.routeDeleted].
func (r *runner) deleteSession() error {
	if err := r.e.conn.DeleteSession(r.ctx, r.ref, r.e.instance); err != nil {
		return fmt.Errorf("delete the session: %w", err)
	}
	r.log.Info().Msg("a session is deleted")
	return errDeleted
}

// routeDeleted answers a command on a deleted session. A ring or a repeated delete may come because the
// deletion was interrupted, so it is completed first.
func (e *Engine) routeDeleted(ctx context.Context, w bus.WakeUp) {
	if w.Type == schemas.CommandWake || w.Type == schemas.CommandDelete {
		if err := e.conn.DeleteSession(ctx, w.Session, e.instance); err != nil {
			e.delay(w, nakLater)
			return
		}
	}
	e.refuse(ctx, w, schemas.Errorf(schemas.CodeDeleted, "session %s was deleted", w.Session.ID))
}
