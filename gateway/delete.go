package gateway

import (
	"context"
	"errors"
	"net/http"

	"braid/schemas"
)

// eventDeleted is the last event of a stream whose session is deleted.
const eventDeleted = "session_deleted"

// errDeleted ends a hub whose session is deleted.
var errDeleted = errors.New("the session is deleted")

// deleteSession deletes a session, or finishes what was begun before.
func (g *Gateway) deleteSession(w http.ResponseWriter, r *http.Request) error {
	ref, err := g.session(r)
	if err != nil {
		return err
	}
	force, err := flagParameter("force", r.URL.Query().Get("force"))
	if err != nil {
		return err
	}
	err = g.accept(w, r, schemas.Command{
		Type: schemas.CommandDelete, Session: ref, Delete: &schemas.DeleteBody{Force: force},
	})
	if errors.Is(err, &schemas.Error{Code: schemas.CodeDeleted}) {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return err
}

// gone reports that the session is deleted, as far as the end of its hub tells: its last message was
// seen, or there is no such session any more.
func gone(ctx context.Context, err error) bool {
	return ctx.Err() == nil && (errors.Is(err, errDeleted) || errors.Is(err, &schemas.Error{Code: schemas.CodeUnknownSession}))
}
