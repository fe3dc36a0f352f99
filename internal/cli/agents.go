package cli

import (
	"context"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/spf13/pflag"

	"braid/bus"
	"braid/schemas"
)

// AgentFlag names the file of a project's agents.
type AgentFlag struct {
	// File is empty for none.
	File Document
}

// Register adds the flag to a command.
func (f *AgentFlag) Register(flags *pflag.FlagSet) {
	flags.Var(&f.File, "agents", "YAML `FILE` of agents; at the start they are stored, replacing any with the same names")
}

// Load reads the agents, none if no file was named.
func (f *AgentFlag) Load() ([]schemas.Agent, error) {
	if !f.File.Given() {
		return nil, nil
	}
	data, err := f.File.Read()
	if err != nil {
		return nil, fmt.Errorf("the agents: %w", err)
	}
	return ParseAgents(f.File.Path, data)
}

// PutAgents stores agents in a project.
func PutAgents(ctx context.Context, conn *bus.Conn, project string, agents []schemas.Agent) error {
	for _, a := range agents {
		if err := conn.PutAgent(ctx, project, a); err != nil {
			return fmt.Errorf("store the agent %s: %w", a.Name, err)
		}
	}
	return nil
}

// ParseAgents reads agents as YAML: a mapping of names to what the agents are, in the words of
// [schemas.Agent]. file is its name in errors, which name the line of the agent.
func ParseAgents(file string, data []byte) (agents []schemas.Agent, err error) {
	c, root, err := parseYAML(file, "agents", data)
	if err != nil || root == nil {
		return nil, err
	}
	keys, err := c.keys("what holds the agents", root, len(c.lines)+1)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		a, err := agentFrom(k.name, k.value)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: agent %s: %w", file, k.line, k.name, err)
		}
		agents = append(agents, a)
	}
	return agents, nil
}

func agentFrom(name string, node ast.Node) (schemas.Agent, error) {
	var members map[string]any
	if err := yaml.NodeToValue(node, &members); err != nil {
		return schemas.Agent{}, fmt.Errorf("it must be a mapping: model, system_prompt and so on")
	}
	if _, named := members["name"]; named {
		return schemas.Agent{}, fmt.Errorf("name: its name stands before the colon")
	}
	text, err := schemas.EncodeJSON(members)
	if err != nil {
		return schemas.Agent{}, err
	}
	var a schemas.Agent
	if err := schemas.DecodeInput(text, &a); err != nil {
		return a, atField(err)
	}
	a.Name = name
	return a, atField(a.Validate())
}
