package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"braid/llm"
	"braid/schemas"
)

// impatient is a model that has only so long: for a whole answer, and to be silent. A request that
// takes longer has timed out, whatever its model still says of it. Time in which the session does
// not take what the model said is not the model's silence.
type impatient struct {
	llm.Model
	provider    string
	whole, idle time.Duration
}

// newImpatient bounds the model's requests as the session's limits say.
func newImpatient(m llm.Model, provider string, limits schemas.Limits) llm.Model {
	l := limits.WithDefaults()
	return impatient{
		Model: m, provider: provider,
		whole: time.Duration(l.RequestTimeoutMS) * time.Millisecond,
		idle:  time.Duration(l.IdleTimeoutMS) * time.Millisecond,
	}
}

// lateError is why a request was ended that took too long.
type lateError struct{ message string }

func (e *lateError) Error() string { return e.message }

// Is makes it a deadline: a model tells it from an abort.
func (e *lateError) Is(target error) bool { return target == context.DeadlineExceeded }

// Stream implements [llm.Model].
func (m impatient) Stream(ctx context.Context, req llm.Request, emit func(schemas.Message) error) llm.Outcome {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	after := func(d time.Duration, why string) *time.Timer {
		return time.AfterFunc(d, func() { cancel(&lateError{fmt.Sprintf("%s %s", why, d)}) })
	}
	whole := after(m.whole, "the model did not finish within")
	defer whole.Stop()
	idle := after(m.idle, "the model said nothing for")
	defer idle.Stop()
	req.Alive = func() { idle.Reset(m.idle) }
	o := m.Model.Stream(ctx, req, func(message schemas.Message) error {
		idle.Stop()
		defer idle.Reset(m.idle)
		return emit(message)
	})
	if late, ok := errors.AsType[*lateError](context.Cause(ctx)); ok {
		o.Status = schemas.StopTimeout
		o.Error = &llm.Error{Kind: llm.KindProvider, Provider: m.provider, Message: late.message, Retryable: true, Cause: late}
	}
	return o
}
