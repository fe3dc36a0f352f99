package gateway

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"braid/bus"
	"braid/schemas"
)

// This file serves what can be asked for about tasks: start one, steer it, withdraw it, wait for its end.

// steerRequest is the body of POST /v1/sessions/{id}/steer.
type steerRequest struct {
	Prompt string              `json:"prompt,omitzero"`
	Input  []schemas.InputTurn `json:"input,omitzero"`
}

// maxWait bounds how long an answer may wait for the task's end.
const maxWait = 5 * time.Minute

// startTask starts a task, or has it wait as when_busy says. With ?wait it answers with what the
// task came to, if that is known in time.
func (g *Gateway) startTask(w http.ResponseWriter, r *http.Request) error {
	ref, err := g.session(r)
	if err != nil {
		return err
	}
	wait, err := waitParameter(r)
	if err != nil {
		return err
	}
	var body schemas.TaskBody
	if err := readLimited(w, r, &body, false, maxTaskBody); err != nil {
		return err
	}
	if wait > 0 {
		leave, err := g.watchers.enter(ref)
		if err != nil {
			return err // before anything is begun
		}
		defer leave()
	}
	answer, outcome, err := g.applied(w, r, schemas.Command{
		Type: schemas.CommandTask, Session: ref, Task: &body, Caller: caller(r),
	})
	if err != nil {
		return err
	}
	if wait == 0 || outcome.Log == 0 {
		writeJSON(w, http.StatusAccepted, answer)
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	defer context.AfterFunc(g.stopping, cancel)()
	if answer.Result = g.awaitTask(ctx, ref, outcome); answer.Result == nil {
		writeJSON(w, http.StatusAccepted, answer)
		return nil
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

// waitParameter reads "wait": whole seconds, 0 if it is not given.
func waitParameter(r *http.Request) (time.Duration, error) {
	values := r.URL.Query()
	if !values.Has("wait") {
		return 0, nil
	}
	most := int(maxWait / time.Second)
	n, err := strconv.Atoi(values.Get("wait"))
	if err != nil || n < 0 || n > most {
		return 0, &schemas.Error{Code: schemas.CodeInvalid, Field: "wait", Message: "wait must be a number of seconds from 0 to " + strconv.Itoa(most)}
	}
	return time.Duration(n) * time.Second, nil
}

// steer adds a prompt to the running task.
func (g *Gateway) steer(w http.ResponseWriter, r *http.Request) error {
	ref, err := g.session(r)
	if err != nil {
		return err
	}
	var body steerRequest
	if err := readLimited(w, r, &body, false, maxTaskBody); err != nil {
		return err
	}
	return g.accept(w, r, schemas.Command{
		Type: schemas.CommandSteer, Session: ref, Task: &schemas.TaskBody{Prompt: body.Prompt, Input: body.Input},
		Caller: caller(r),
	})
}

// withdraw takes back a task that waits.
func (g *Gateway) withdraw(w http.ResponseWriter, r *http.Request) error {
	ref, err := g.session(r)
	if err != nil {
		return err
	}
	task := r.PathValue("task")
	if err := schemas.ValidateName("task", task); err != nil {
		return err
	}
	return g.accept(w, r, schemas.Command{
		Type: schemas.CommandWithdraw, Session: ref, Withdraw: &schemas.WithdrawBody{TaskID: task},
	})
}

// awaitTask returns the event by which the task ends that a prompt went to, nil if that is not
// known before ctx ends, or the prompt was withdrawn. The task is accepted either way, so what
// keeps it from being watched is no error.
func (g *Gateway) awaitTask(ctx context.Context, ref schemas.SessionRef, outcome schemas.Outcome) *schemas.TurnEvent {
	h, release, err := g.follow(ctx, ref)
	if err != nil {
		return nil
	}
	defer release()
	if h.reach(ctx, outcome.Log) != nil {
		return nil
	}
	applied := outcome.Cursor(h.epoch)
	begin, err := g.replays.taskBegin(ctx, h, schemas.TurnCursor{Cursor: applied, Part: schemas.WholeMessage})
	if err != nil {
		return nil
	}
	ending := taskEnding{id: outcome.CommandID, view: schemas.NewTurnView(), in: outcome.Taken == schemas.TakenStarted, at: begin}
	for anew := h.now().anew; ; {
		changed := h.changes()
		if err := ending.read(ctx, g.replays, h); err != nil {
			return nil
		}
		if ending.over || h.now().anew != anew {
			return ending.event
		}
		select {
		case <-changed:
		case <-h.done:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// taskEnding looks for the end of the task that a prompt went to.
type taskEnding struct {
	id    string // of the prompt's command
	at    schemas.Position
	view  *schemas.TurnView
	in    bool // the running task has the prompt
	over  bool
	event *schemas.TurnEvent // once it is over, unless the prompt was withdrawn
}

// read takes the messages that are recorded behind its place, up to where the hub is.
func (t *taskEnding) read(ctx context.Context, replays replays, h *hub) error {
	upTo := h.recordedTo()
	if t.at.Compare(schemas.Behind(upTo)) >= 0 {
		return nil
	}
	leave, err := replays.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	for f, err := range h.conn.ReadFrames(ctx, h.ref, max(t.at.Sequence, 1)-1, upTo, bus.LogOnly) {
		if err != nil {
			return err
		}
		for _, m := range f.Entries() {
			if m.Position.Compare(t.at) > 0 && !t.over {
				t.take(m)
			}
		}
	}
	t.at = schemas.Behind(upTo)
	return nil
}

// take takes the next message that is recorded.
func (t *taskEnding) take(m schemas.Entry) {
	events := t.view.Add(m)
	switch p := m.Message.Payload.(type) {
	case *schemas.TaskDequeued:
		if p.TaskID == t.id {
			t.over = p.Cause == schemas.DequeuedWithdrawn
			t.in = !t.over
		}
	case *schemas.TaskEnd:
		if t.over = t.in && len(m.Message.Origin) == 0; t.over && len(events) > 0 {
			t.event = &events[len(events)-1]
		}
	}
}
