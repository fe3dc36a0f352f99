package client

import (
	"context"
	"fmt"
	"net/http"

	"braid/schemas"
)

// This file is the definitions of agents: what sessions run on, by name. They are kept by the broker; a
// session takes a copy when it is made.

// agentStore is a transport's way to a project's agents.
type agentStore interface {
	agents(ctx context.Context) ([]schemas.Agent, error)
	agent(ctx context.Context, name string) (schemas.Agent, error)
	putAgent(ctx context.Context, a schemas.Agent) error
	deleteAgent(ctx context.Context, name string) error
}

// Agents lists the project's agents, by name.
func (c *Client) Agents(ctx context.Context) ([]schemas.Agent, error) {
	return retry(ctx, c.pauses, func() ([]schemas.Agent, error) { return c.transport.agents(ctx) })
}

// Agent is the definition of that name. The error is [schemas.CodeNotFound] if there is none.
func (c *Client) Agent(ctx context.Context, name string) (schemas.Agent, error) {
	if err := schemas.ValidateName("name", name); err != nil {
		return schemas.Agent{}, err
	}
	return retry(ctx, c.pauses, func() (schemas.Agent, error) { return c.transport.agent(ctx, name) })
}

// PutAgent stores a definition, in place of one of its name. Sessions that there are keep what they have.
func (c *Client) PutAgent(ctx context.Context, a schemas.Agent) error {
	if err := a.Validate(); err != nil {
		return err
	}
	_, err := retry(ctx, c.pauses, func() (struct{}, error) { return struct{}{}, c.transport.putAgent(ctx, a) })
	return err
}

// DeleteAgent removes a definition, if it is there. Its sessions go on.
func (c *Client) DeleteAgent(ctx context.Context, name string) error {
	if err := schemas.ValidateName("name", name); err != nil {
		return err
	}
	_, err := retry(ctx, c.pauses, func() (struct{}, error) { return struct{}{}, c.transport.deleteAgent(ctx, name) })
	return err
}

func (t *httpTransport) agents(ctx context.Context) ([]schemas.Agent, error) {
	var answer struct {
		Agents []schemas.Agent `json:"agents"`
	}
	return answer.Agents, t.call(ctx, route{http.MethodGet, "/v1/agents", nil}, nil, &answer)
}

func (t *httpTransport) agent(ctx context.Context, name string) (schemas.Agent, error) {
	var answer struct {
		Agent schemas.Agent `json:"agent"`
	}
	err := t.call(ctx, route{http.MethodGet, "/v1/agents/" + name, nil}, nil, &answer)
	return answer.Agent, err
}

func (t *httpTransport) putAgent(ctx context.Context, a schemas.Agent) error {
	return t.call(ctx, route{http.MethodPut, "/v1/agents/" + a.Name, a}, nil, nil)
}

func (t *httpTransport) deleteAgent(ctx context.Context, name string) error {
	return t.call(ctx, route{http.MethodDelete, "/v1/agents/" + name, nil}, nil, nil)
}

func (t *natsTransport) agents(ctx context.Context) ([]schemas.Agent, error) {
	ctx, cancel := context.WithTimeout(ctx, queryWait)
	defer cancel()
	all, err := t.conn.Agents(ctx, t.project)
	if err != nil {
		return nil, fmt.Errorf("list the agents: %w", err)
	}
	return all, nil
}

func (t *natsTransport) agent(ctx context.Context, name string) (schemas.Agent, error) {
	ctx, cancel := context.WithTimeout(ctx, queryWait)
	defer cancel()
	a, err := t.conn.Agent(ctx, t.project, name)
	if err != nil {
		return a, fmt.Errorf("read the agent: %w", err)
	}
	return a, nil
}

func (t *natsTransport) putAgent(ctx context.Context, a schemas.Agent) error {
	ctx, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	if err := t.conn.PutAgent(ctx, t.project, a); err != nil {
		return fmt.Errorf("store the agent: %w", err)
	}
	return nil
}

func (t *natsTransport) deleteAgent(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	if err := t.conn.DeleteAgent(ctx, t.project, name); err != nil {
		return fmt.Errorf("delete the agent: %w", err)
	}
	return nil
}
