package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

func (h *house) delete(id string, force bool) schemas.Outcome {
	h.t.Helper()
	return h.send(schemas.Command{ID: id, Type: schemas.CommandDelete, Session: ref, Delete: &schemas.DeleteBody{Force: force}})
}

// deleted waits until nothing of the session is left: no frame, no record, no command, no key, and
// nothing in the traces of the engines.
func (h *house) deleted(engines ...*Engine) {
	h.t.Helper()
	h.eventually("something of the session is left", func() bool {
		ctx := context.Background()
		ends, err := h.conn.SessionEnds(ctx, ref)
		commands, readErr := h.conn.ReadCommands(ctx, ref, 0, 0)
		keys, keysErr := h.conn.RunningAll(ctx)
		if err := errors.Join(err, readErr, keysErr); err != nil {
			h.t.Fatal(err)
		}
		for _, e := range engines {
			if _, found, err := e.store.Session(ref); err != nil || found {
				return false
			}
		}
		return h.claim().State == bus.ClaimDeleted && ends.Last() == 0 && len(commands) == 0 && len(keys) == 0
	})
}

// A session that runs a task is deleted by force alone. It stays deleted: whatever is sent to it later,
// its creation included, and a repeat of its deletion.
func TestDeleteSession(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"slow": "repeat: true\nturns:\n  - steps:\n      - text: [ok, {wait: never}]\n"})
	e1, e2 := h.engine("e1"), h.engine("e2")
	h.create("scripted/slow", schemas.ApproveAll)
	h.task("t", "go")
	if o := h.delete("d1", false); o.Code != schemas.CodeTaskInProgress {
		t.Errorf("without force: %+v", o)
	}
	if o := h.delete("d2", true); o.Code != schemas.CodeApplied {
		t.Errorf("by force: %+v", o)
	}
	h.deleted(e1, e2)
	for _, c := range []schemas.Command{
		{ID: "d3", Type: schemas.CommandDelete},
		{ID: "again", Type: schemas.CommandCreate, Create: &schemas.CreateBody{Model: "scripted/slow"}},
		{ID: "late", Type: schemas.CommandTask, Task: &schemas.TaskBody{Prompt: "hello?"}},
	} {
		c.Session = ref
		if o := h.send(c); o.Code != schemas.CodeDeleted {
			t.Errorf("%s: %+v", c.ID, o)
		}
	}
}

// The engine that is to delete a session is lost before it does, while a tool that must not be lost
// sight of still runs. Another one ends the task, and the session.
func TestDeleteSurvivesItsEngine(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"m": callScript([2]string{"write", `{}`})})
	first := h.killable("e1", func(o *Options) { o.Timing.CancelBound = time.Hour })
	hands := h.toolrunner("r1")
	h.create("scripted/m", schemas.ApproveAll)
	h.task("t", "go")
	call := hands.call(`{}`)
	call.say("half")
	if o := h.delete("d", true); o.Code != schemas.CodeApplied {
		t.Fatalf("%+v", o)
	}
	first.kill()
	second := h.engine("e2")
	if err := call.end(schemas.StopAborted); err != nil {
		t.Fatal(err)
	}
	h.deleted(second)
}

// An engine is stopped when a session's last word is said, and nothing else of it is done. Nobody need
// ask for the session again: the next one deletes it.
func TestDeleteIsHandedOver(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), nil)
	first, w := h.wired("e1")
	h.create("shell/demo", schemas.ApproveAll)
	frame := w.hold("braid.p.session.", `"session_deleted"`)
	h.post(schemas.Command{ID: "d", Type: schemas.CommandDelete, Session: ref})
	frame.wait()
	r := h.runner(first)
	stopped := make(chan error, 1)
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { stopped <- first.Stop(context.Background()) })
	<-r.leave
	frame.release()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	h.deleted(h.engine("e2"))
}

// An engine is lost in the middle of a deletion: the session has its tombstone, and everything else of
// it is still there. Who is rung for it finishes.
func TestDeleteIsFinishedByOthers(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"slow": streaming})
	first := h.killable("e1")
	h.streams()
	first.kill()
	if err := h.takes("e1", 0).Release(context.Background(), bus.ClaimDeleted); err != nil {
		t.Fatal(err)
	}
	entombed := h.claim()
	if o, err := h.conn.Claim(context.Background(), ref, bus.ClaimRequest{Instance: "e3", After: entombed}); err == nil {
		t.Errorf("a deleted session was claimed: %+v", o.Claim())
	}
	h.deleted(h.engine("e2"))
}
