package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"braid/schemas"
)

// Schedule has the broker store a command at an instant, by the broker's clock: the deadline of
// a decision, which must come also when no engine holds the session. It is acknowledged when
// stored. A second schedule of the same call replaces the first; an instant in the past is now.
// The fired message is a command like any other; it is late by up to a second, and can arrive
// after [Conn.Unschedule], so the command must be one that does no harm then.
func (c *Conn) Schedule(ctx context.Context, ref schemas.SessionRef, call string, at time.Time, cmd schemas.Command) error {
	if err := validateCall(ref, call); err != nil {
		return err
	}
	if err := cmd.Validate(); err != nil {
		return err
	}
	if cmd.Session != ref {
		return schemas.Errorf(schemas.CodeInvalid, "the scheduled command is for session %s, not %s", cmd.Session, ref)
	}
	body, err := schemas.EncodeJSON(cmd)
	if err != nil {
		return fmt.Errorf("schedule a command: %w", err)
	}
	// A schedule rolls up its own subject, so that one is no command subject: on one it would
	// erase the commands stored there. It has no lifetime of its own, however far the instant is.
	m := nats.NewMsg(scheduleSubject(ref, call))
	m.Data = body
	m.Header.Set("Nats-Schedule", "@at "+at.UTC().Format(time.RFC3339Nano))
	m.Header.Set("Nats-Schedule-Target", commandSubject(ref, LaneControl))
	m.Header.Set("Nats-Schedule-TTL", ttl(commandTTL))
	m.Header.Set(headerCommandHash, commandHash(body))
	m.Header.Set(headerCommandType, string(cmd.Type))
	if _, err := c.publishRetry(ctx, m, nil); err != nil {
		return fmt.Errorf("schedule a command: %w", err)
	}
	return nil
}

// Unschedule removes a call's schedule, if it has not fired.
func (c *Conn) Unschedule(ctx context.Context, ref schemas.SessionRef, call string) error {
	if err := validateCall(ref, call); err != nil {
		return err
	}
	err := retryRead(ctx, func(ctx context.Context) error {
		return c.purge(ctx, streamCommands, scheduleSubject(ref, call))
	})
	if err != nil {
		return fmt.Errorf("remove a schedule: %w", err)
	}
	return nil
}

// validateCall checks the names that make up a call's subjects.
func validateCall(ref schemas.SessionRef, call string) error {
	if err := ref.Validate(); err != nil {
		return err
	}
	return schemas.ValidateName("tool_call_id", call)
}
