package cli

import (
	"fmt"

	"github.com/spf13/pflag"

	"braid/engine/policy"
)

// PolicyFlag names the file with the rules by which tool calls are judged.
type PolicyFlag struct {
	// File is empty for no rules.
	File Document
}

// Register adds the flag to a command.
func (f *PolicyFlag) Register(flags *pflag.FlagSet) {
	flags.Var(&f.File, "policy", "YAML `FILE` of rules that forbid tool calls, whatever the approval mode")
}

// Load reads the file; nil if none was named.
func (f *PolicyFlag) Load() (*policy.Policy, error) {
	if !f.File.Given() {
		return nil, nil
	}
	data, err := f.File.Read()
	if err != nil {
		return nil, fmt.Errorf("the policy: %w", err)
	}
	return policy.Parse(f.File.Path, data)
}
