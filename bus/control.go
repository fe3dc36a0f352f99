package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// ControlOp is what a session's owner asks of a toolrunner about a running call.
type ControlOp string

// The operations.
const (
	// ControlCancel: end the call, its whole process group, and write its record.
	ControlCancel ControlOp = "cancel"
	// ControlResend: send the output again from an offset on.
	ControlResend ControlOp = "resend"
)

// Control is one request about a running call.
type Control struct {
	Op         ControlOp          `json:"op"`
	Session    schemas.SessionRef `json:"session"`
	ToolCallID string             `json:"tool_call_id"`
	// Attempt and From are set for ControlResend.
	Attempt int   `json:"attempt,omitzero"`
	From    int64 `json:"from,omitzero"`
}

func (r Control) validate() error {
	if r.Op != ControlCancel && r.Op != ControlResend {
		return schemas.Errorf(schemas.CodeInvalid, "no control operation is called %.40q", string(r.Op))
	}
	if r.From < 0 {
		return schemas.Errorf(schemas.CodeInvalid, "from is negative")
	}
	return validateCall(r.Session, r.ToolCallID)
}

// controlWorkers bounds how many requests are worked on at once.
const controlWorkers = 4

// ServeControl answers the requests to a toolrunner. handle notes what is wanted and returns at
// once: nil, or an *[schemas.Error] that the owner gets ([schemas.CodeNotFound] for a call it
// does not run). stop ends it and waits for handlers.
func (c *Conn) ServeControl(instance string, handle func(Control) error) (stop func(), err error) {
	if err := schemas.ValidateName("instance", instance); err != nil {
		return nil, err
	}
	return c.serve(controlSubject(instance), "", controlWorkers, func(_ context.Context, m *nats.Msg) {
		var request Control
		err := schemas.DecodeJSON(m.Data, &request)
		if err == nil {
			err = request.validate()
		}
		if err == nil {
			err = handle(request)
		}
		var answer queryAnswer
		if err != nil && !errors.As(err, &answer.Error) {
			c.log.Error().Err(err).Str("op", string(request.Op)).Msg("a control request failed")
			answer.Error = schemas.Errorf(schemas.CodeInternal, "the toolrunner could not do it; its log says why")
		}
		body, err := schemas.EncodeJSON(answer)
		if err == nil {
			err = m.Respond(body)
		}
		if err != nil {
			c.log.Debug().Err(err).Msg("answer a control request")
		}
	})
}

// CancelCall asks a toolrunner to end a call. That it was asked is no proof that the call ended:
// its record is. The error is the toolrunner's *[schemas.Error], or wraps [ErrNoInstance] or
// [ErrNoAnswer].
func (c *Conn) CancelCall(ctx context.Context, instance string, ref schemas.SessionRef, call string) error {
	return c.control(ctx, instance, Control{Op: ControlCancel, Session: ref, ToolCallID: call})
}

// RequestResend asks a toolrunner to send an attempt's output again, from a byte offset on. The
// errors are those of [Conn.CancelCall].
func (c *Conn) RequestResend(ctx context.Context, instance string, ref schemas.SessionRef, call string, attempt int, from int64) error {
	return c.control(ctx, instance, Control{Op: ControlResend, Session: ref, ToolCallID: call, Attempt: attempt, From: from})
}

// control sends a request to a toolrunner and returns its answer as an error; nil if it will do it.
func (c *Conn) control(ctx context.Context, instance string, request Control) error {
	if err := schemas.ValidateName("instance", instance); err != nil {
		return err
	}
	if err := request.validate(); err != nil {
		return err
	}
	body, err := schemas.EncodeJSON(request)
	if err != nil {
		return fmt.Errorf("%s call %s: %w", request.Op, request.ToolCallID, err)
	}
	m, err := c.askInstance(ctx, controlSubject(instance), body)
	if err != nil {
		return fmt.Errorf("%s call %s at toolrunner %s: %w", request.Op, request.ToolCallID, instance, err)
	}
	var answer queryAnswer
	if err := schemas.DecodeJSON(m.Data, &answer); err != nil {
		return fmt.Errorf("%s call %s at toolrunner %s: %w", request.Op, request.ToolCallID, instance, err)
	}
	if answer.Error != nil {
		return answer.Error
	}
	return nil
}
