package engine

import (
	"errors"
	"fmt"

	"braid/bus"
	"braid/schemas"
)

// completeAgent fills in, from the definition of the agent that the command names, what a command that makes
// a session does not say itself. The session keeps it from then on, whatever becomes of the definition.
// refused says why there can be no such session; err means that the definition can't be read now.
func (r *runner) completeAgent(c *bus.StoredCommand) (refused *schemas.Error, err error) {
	var name string
	switch {
	case c.Create != nil:
		name = c.Create.Agent
	case c.Import != nil && !r.state.Importing(c.Sequence): // else an owner before has read the definition
		name = c.Import.Agent
	}
	if name == "" {
		return nil, nil
	}
	agent, err := r.e.conn.Agent(r.ctx, r.ref.Project, name)
	known, ours := errors.AsType[*schemas.Error](err)
	switch {
	case ours && known.Code == schemas.CodeNotFound:
		return &schemas.Error{Code: schemas.CodeInvalid, Field: "agent", Message: known.Message}, nil
	case ours:
		return known, nil
	case err != nil:
		return nil, fmt.Errorf("look for the session's agent: %w", err)
	}
	if c.Create != nil {
		body := c.Create.With(agent)
		c.Create = &body
	} else {
		body := c.Import.With(agent)
		c.Import = &body
	}
	if err := c.Validate(); err != nil { // what both say may not go together
		return asError(err), nil
	}
	return nil, nil
}
