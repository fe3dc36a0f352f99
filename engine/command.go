package engine

import (
	"cmp"
	"errors"
	"fmt"

	"braid/bus"
	"braid/engine/internal/session"
	"braid/schemas"
)

// readCommands reads the session's commands up to the sequence reach, and takes them in order. An error
// means that they can't be read now, and ends the tenure.
func (r *runner) readCommands(reach uint64) error {
	if reach > r.read {
		commands, err := r.storedCommands(reach)
		if err != nil {
			return fmt.Errorf("read commands: %w", err)
		}
		for _, c := range commands {
			if err := r.takeCommand(c); err != nil {
				return err
			}
		}
		r.read = max(r.read, reach)
	}
	r.acknowledgeLater()
	return nil
}

// storedCommands returns the commands that were not read yet, up to the sequence reach, or all if that is 0. A
// body may be many megabytes on a slow line: until it is here the loop waits, and is not stuck.
func (r *runner) storedCommands(reach uint64) ([]bus.StoredCommand, error) {
	r.reading.Store(true)
	defer func() {
		r.touch()
		r.reading.Store(false)
	}()
	return r.e.conn.ReadCommands(r.ctx, r.ref, max(r.read, r.state.Cursor), reach)
}

// takeCommand gives one command to the core, with what only the engine knows about it: its agent's
// definition, and reasons to refuse it. The same command sent again is not applied again: it gets the
// outcome of the first.
func (r *runner) takeCommand(c bus.StoredCommand) error {
	if c.Sequence <= r.state.Cursor {
		return nil
	}
	for _, first := range r.commands {
		if first.ID == c.ID { // its outcome is on its way to the log
			r.commands[c.Sequence] = c
			return nil
		}
	}
	o, found, err := r.outcomeOf(c.ID)
	if err != nil {
		return err
	}
	if found {
		r.reply(c, o)
		return nil
	}
	unknown, err := r.completeAgent(&c)
	if err != nil {
		return err
	}
	refused := cmp.Or(unknown, r.refuse(c))
	r.commands[c.Sequence] = c
	r.step(session.CommandReceived{Sequence: c.Sequence, Time: c.Time, Command: c.Command, Refused: refused})
	return nil
}

// refuse says why the engine refuses a command, whatever the core would make of it; nil if it does not.
func (r *runner) refuse(c bus.StoredCommand) *schemas.Error {
	if r.skip {
		r.skip = false
		r.log.Error().Uint64("sequence", c.Sequence).Msg("a command that engines did not survive is skipped")
		return schemas.Errorf(schemas.CodeInternal, "one engine after the other was lost with this command; it is skipped")
	}
	switch {
	case c.Invalid != nil:
		return c.Invalid
	case c.Type == schemas.CommandCreate:
		return r.refuseModels(c.Create)
	case c.Type == schemas.CommandTask, c.Type == schemas.CommandSteer:
		return r.refuseImage(c.Task)
	}
	return nil
}

// refuseModels says which of a new session's models does not exist, or has no price although the session's
// cost is limited; nil if all will do.
func (r *runner) refuseModels(b *schemas.CreateBody) *schemas.Error {
	for i, model := range append([]string{b.Model}, b.FallbackModels...) {
		if _, err := r.e.models.Open(model); err != nil {
			known := *asError(err)
			if known.Field = "model"; i > 0 {
				known.Field = schemas.FallbackField(i - 1)
			}
			return &known
		}
		if refused := r.e.prices.missing(model, b.Limits); refused != nil {
			return refused
		}
	}
	return nil
}

// refuseImage refuses a prompt with pictures if the session's model can't see any, so that the person who
// sent them is told at once; nil if it can. Pictures in earlier turns are no reason: the model is given
// a note in their place.
func (r *runner) refuseImage(b *schemas.TaskBody) *schemas.Error {
	meta := r.state.Meta
	if b.PromptImage() == "" || meta == nil {
		return nil
	}
	if model, err := r.e.models.Open(meta.Provider + "/" + meta.ModelID); err == nil {
		return model.Info().Refuse(b)
	}
	return nil // a model that is gone ends the task as it ends any
}

// outcomeOf finds the outcome that a command id was given before, however long ago: in the trace, or, if
// the trace may not have it yet, among those that were seen while the log was folded or that this owner
// has given. An error means that nobody knows: the command might have been applied, so it can't be taken.
func (r *runner) outcomeOf(id string) (schemas.Outcome, bool, error) {
	if o, ok := r.outcomes[id]; ok {
		return o, true, nil
	}
	o, found, err := r.e.store.Outcome(r.ref, id)
	if err != nil {
		return o, false, fmt.Errorf("look for a command's outcome: %w", err)
	}
	return o, found, nil
}

// asError is the error as a person gets it; one that is not a *[schemas.Error] is internal.
func asError(err error) *schemas.Error {
	if known, ok := errors.AsType[*schemas.Error](err); ok {
		return known
	}
	return schemas.Errorf(schemas.CodeInternal, "%v", err)
}
