package client

import (
	"context"
	"errors"

	"braid/schemas"
)

// Prompt is a task of words alone.
func Prompt(text string) schemas.TaskBody { return schemas.TaskBody{Prompt: text} }

// Task is a prompt that a session has taken.
type Task struct {
	// ID is that of the task that the prompt began or will begin: the [Key] it was sent under. A
	// prompt that joined a running task has no task of its own.
	ID string
	// Taken says what became of the prompt: it started a task, waits for its turn, or is added to the
	// running task.
	Taken schemas.Taken
	// Cursor is where watching shows all that the prompt brings about.
	Cursor string

	session *Session
}

// Start gives the session a task and does not wait for its end. While the session is busy the task is
// refused with [schemas.CodeTaskInProgress], unless its WhenBusy says otherwise. However often the
// connection breaks, one call starts one task.
func (s *Session) Start(ctx context.Context, body schemas.TaskBody, options ...Option) (*Task, error) {
	return s.give(ctx, schemas.Command{Type: schemas.CommandTask, Task: &body}, options)
}

// Steer adds a prompt to the running task, before its next request. If the task ends without another
// one, the prompt begins a task of its own.
func (s *Session) Steer(ctx context.Context, body schemas.TaskBody, options ...Option) (*Task, error) {
	return s.give(ctx, schemas.Command{Type: schemas.CommandSteer, Task: &body}, options)
}

func (s *Session) give(ctx context.Context, cmd schemas.Command, options []Option) (*Task, error) {
	sending := sendingOf(options)
	cmd.ID, cmd.Caller = sending.key, sending.caller
	a, err := s.send(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return &Task{ID: cmd.ID, Taken: a.Taken, Cursor: a.Cursor, session: s}, nil
}

// Run is [Session.Start] and [Task.Wait].
func (s *Session) Run(ctx context.Context, body schemas.TaskBody, options ...Option) (Result, error) {
	t, err := s.Start(ctx, body, options...)
	if err != nil {
		return Result{}, err
	}
	return t.Wait(ctx)
}

// Withdraw takes the prompt back while it waits. The error is [schemas.CodeNotPending] if it does
// not (any more).
func (t *Task) Withdraw(ctx context.Context, options ...Option) error {
	return t.session.apply(ctx, schemas.Command{
		Type: schemas.CommandWithdraw, Withdraw: &schemas.WithdrawBody{TaskID: t.ID},
	}, options)
}

// Result is what a task came to.
type Result struct {
	// Status is completed, aborted (by a person), or failed. The marks say more: a task that ran out
	// of turns or tokens, or in circles, has failed, and yet has an output.
	Status schemas.StopReason
	// Failure says why the task failed, where no mark does; then the result has no output, usage and
	// turns.
	Failure *schemas.TurnErrorInfo
	schemas.TaskResult
}

// newResult makes a result of the event that ends a task; false for any other event.
func newResult(e schemas.TurnEvent) (Result, bool) {
	switch d := e.Data.(type) {
	case *schemas.TaskResult:
		r := Result{Status: schemas.StopFailed, TaskResult: *d}
		switch {
		case d.Success:
			r.Status = schemas.StopCompleted
		case d.Aborted:
			r.Status = schemas.StopAborted
		}
		return r, true
	case *schemas.TaskFailure:
		r := Result{Status: schemas.StopFailed, Failure: e.ErrorInfo}
		r.TaskID = d.TaskID
		if r.Failure == nil {
			r.Failure = &schemas.TurnErrorInfo{Message: d.Message}
		}
		return r, true
	}
	return Result{}, false
}

var (
	// ErrWithdrawn says that a prompt was taken back before anything came of it.
	ErrWithdrawn = errors.New("the task was withdrawn before it began")
	// ErrLost says that the stream was made anew, and does not tell what became of the task.
	ErrLost = errors.New("the broker lost the stream in which the task ran")
)

// Wait waits until the task that the prompt went to has ended: its own, or the one it joined. The end
// of ctx ends the waiting alone; the task goes on. Whoever lost the Task gets it again by starting
// it under the same [Key].
func (t *Task) Wait(ctx context.Context) (Result, error) {
	begin, err := t.Begin(ctx)
	if err != nil {
		return Result{}, err
	}
	for event, err := range t.session.Turns(ctx, WatchOptions{After: begin}) {
		if err != nil {
			return Result{}, err
		}
		switch e := event.(type) {
		case Gap:
			return Result{}, ErrLost
		case Turn: // of the one task that runs
			if r, ok := newResult(e.TurnEvent); ok {
				return r, nil
			}
		}
	}
	return Result{}, ctx.Err()
}

// Begin waits until a task runs that has the prompt, and returns a cursor from which watching shows
// all of that task that comes after the prompt. The error is [ErrWithdrawn] if that never comes.
func (t *Task) Begin(ctx context.Context) (string, error) {
	switch {
	case t.Cursor == "":
		return "", schemas.Errorf(schemas.CodeInternal, "the task is taken, and the server does not say where it begins")
	case t.Taken == schemas.TakenStarted:
		return t.Cursor, nil
	}
	for event, err := range t.session.Stream(ctx, WatchOptions{After: t.Cursor}) {
		if err != nil {
			return "", err
		}
		switch e := event.(type) {
		case Gap:
			if e.Reset {
				return "", ErrLost
			}
		case Message:
			p, ok := e.Payload.(*schemas.TaskDequeued)
			switch {
			case !ok || len(e.Origin) > 0 || p.TaskID != t.ID:
			case p.Cause == schemas.DequeuedWithdrawn:
				return "", ErrWithdrawn
			default:
				return e.Cursor, nil
			}
		}
	}
	return "", ctx.Err()
}
