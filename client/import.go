package client

import (
	"bytes"
	"context"

	"braid/schemas"
)

// ImportOptions say what becomes of a trace. What is left out is as the definition of the agent has it,
// and what that leaves out, or if none is named, as the trace has it, but for the approval mode: that
// is read-only then.
type ImportOptions struct {
	// ID names the session; empty: one is made up, and is the same for the same [Key].
	ID string
	// Model is "provider/model".
	Model string
	// Agent is the one as which the session goes on.
	Agent        string
	ApprovalMode schemas.ApprovalMode
	Workspace    string
	// Lenient leaves out a last line that is torn.
	Lenient bool
}

// Import makes a session of a trace, JSON Lines, that can go on like any other. Nothing is stored of
// a trace that can't be one.
func (c *Client) Import(ctx context.Context, trace []byte, o ImportOptions, options ...Option) (*Session, error) {
	if o.Lenient {
		trace = cutTorn(trace)
	}
	cmd := schemas.Command{Type: schemas.CommandImport, ID: commandID(options), Import: &schemas.ImportBody{
		Model: o.Model, Agent: o.Agent, ApprovalMode: o.ApprovalMode, Workspace: o.Workspace,
	}}
	s := c.newSession(o.ID, cmd.ID)
	cmd.Session.ID = s.id
	if err := checkNames(cmd); err != nil {
		return nil, err
	}
	_, err := retry(ctx, c.pauses, func() (struct{}, error) {
		return struct{}{}, c.transport.importTrace(ctx, cmd, trace)
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// cutTorn leaves out a last line that has no end and is no message.
func cutTorn(trace []byte) []byte {
	begin := bytes.LastIndexByte(trace, '\n') + 1
	if _, err := schemas.Decode(trace[begin:]); err != nil {
		return trace[:begin]
	}
	return trace
}
