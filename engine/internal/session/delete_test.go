package session

import (
	"testing"

	"braid/schemas"
)

func (p *play) delete(force bool) *play {
	return p.command(schemas.Command{Type: schemas.CommandDelete, Delete: &schemas.DeleteBody{Force: force}})
}

// A session at rest is deleted at once, and takes nothing more.
func TestDeleteAtRest(t *testing.T) {
	p := newPlay(t).create(schemas.ApproveAll).delete(false)
	p.expect("outcome applied", "session_deleted", "-> answer")
	p.task().expect("outcome deleted", "-> answer")
	p.delete(false).expect("outcome applied", "-> answer")
	p.create(schemas.ApproveAll).expect("outcome deleted", "-> answer")
}

// One that runs a task is deleted by force alone: the task is aborted, and ends as it would otherwise;
// what waits is taken back. An owner that takes over in between goes on with that.
func TestDeleteWhileATaskRuns(t *testing.T) {
	p := begun(t, schemas.ApproveAll).call("write", "{}").ended(schemas.StopCompleted).queue("later")
	p.delete(false).expect("outcome task_in_progress", "-> answer")
	p.delete(true).expect("outcome applied", "dequeued withdrawn k3", "-> answer", "-> cancel c7-1")
	p.lost(0).takeOver().output("c7-1", "x").
		expect("start", `delta "x"`, "stop", `output "x"`, "abort the session is deleted", "task aborted user", "session_deleted")
}
