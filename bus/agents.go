package bus

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"braid/schemas"
)

// This file keeps the definitions of a project's agents, one key each in the registry, until they are
// deleted. What is read is checked again: who wrote it may have been another version.

func agentKey(project, name string) string { return "agent." + project + "." + name }

func checkAgentKey(project, name string) error {
	if err := schemas.ValidateName("project", project); err != nil {
		return err
	}
	return schemas.ValidateName("name", name)
}

// PutAgent stores a project's agent, in place of one of its name. An agent that makes no sense is an
// *[schemas.Error].
func (c *Conn) PutAgent(ctx context.Context, project string, a schemas.Agent) error {
	if err := checkAgentKey(project, a.Name); err != nil {
		return err
	}
	if err := a.Validate(); err != nil {
		return err
	}
	body, err := schemas.EncodeJSON(a)
	if err != nil {
		return fmt.Errorf("store agent %s: %w", a.Name, err)
	}
	if room := c.maxBody(); len(body) > room {
		return schemas.Errorf(schemas.CodeTooLarge, "the agent has %d bytes, the limit is %d", len(body), room)
	}
	_, err = c.kvPut(ctx, bucketRegistry, agentKey(project, a.Name), body, 0)
	return err
}

// Agent returns a project's agent as it was put last. One that is not there is an *[schemas.Error] of
// code not_found.
func (c *Conn) Agent(ctx context.Context, project, name string) (schemas.Agent, error) {
	if err := checkAgentKey(project, name); err != nil {
		return schemas.Agent{}, err
	}
	last, err := c.leaderRead(ctx, kvStream(bucketRegistry), directRequest{LastFor: kvSubject(bucketRegistry, agentKey(project, name))})
	if err != nil && !errors.Is(err, errNotFound) {
		return schemas.Agent{}, fmt.Errorf("read agent %s: %w", name, err)
	}
	e, ok := kvEntryFrom(bucketRegistry, last)
	if err != nil || !ok {
		return schemas.Agent{}, schemas.Errorf(schemas.CodeNotFound, "there is no agent %s", name)
	}
	return agentOf(project, e)
}

// Agents lists a project's agents by name, as any replica knows them.
func (c *Conn) Agents(ctx context.Context, project string) ([]schemas.Agent, error) {
	if err := schemas.ValidateName("project", project); err != nil {
		return nil, err
	}
	entries, err := c.kvList(ctx, bucketRegistry, agentKey(project, "*"))
	if err != nil {
		return nil, err
	}
	agents := make([]schemas.Agent, 0, len(entries))
	for _, e := range entries {
		a, err := agentOf(project, e)
		if err != nil {
			c.log.Warn().Err(err).Str("key", e.Key).Msg("an agent that can't be read is left out")
			continue
		}
		agents = append(agents, a)
	}
	slices.SortFunc(agents, func(a, b schemas.Agent) int { return cmp.Compare(a.Name, b.Name) })
	return agents, nil
}

// DeleteAgent removes a project's agent, if it is there.
func (c *Conn) DeleteAgent(ctx context.Context, project, name string) error {
	if err := checkAgentKey(project, name); err != nil {
		return err
	}
	m := kvPurgeMessage(bucketRegistry, agentKey(project, name))
	m.Header.Set(headerMsgID, rand.Text())
	if _, err := c.publishRetry(ctx, m, nil); err != nil {
		return fmt.Errorf("delete agent %s: %w", name, err)
	}
	return nil
}

// agentOf reads an agent from its key. What others put there may be anything.
func agentOf(project string, e kvEntry) (schemas.Agent, error) {
	var a schemas.Agent
	err := schemas.DecodeJSON(e.Value, &a)
	if err == nil {
		err = a.Validate()
	}
	if err == nil && agentKey(project, a.Name) != e.Key {
		err = fmt.Errorf("it names itself %s", a.Name)
	}
	if err != nil {
		return schemas.Agent{}, schemas.Errorf(schemas.CodeInternal, "the stored agent at %s can't be used: %v", e.Key, err)
	}
	return a, nil
}
