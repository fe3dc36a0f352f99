package cli

import (
	"github.com/spf13/pflag"

	"braid/engine/policy"
)

// PolicyFlag names the file with the rules by which tool calls are judged.
type PolicyFlag struct {
	// File is its path; empty for no rules.
	File string
}

// Register adds the flag to a command.
func (f *PolicyFlag) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.File, "policy", "", "YAML file with rules that forbid tool calls, whatever the approval mode")
}

// Load reads the file; nil if none was named.
func (f *PolicyFlag) Load() (*policy.Policy, error) {
	if f.File == "" {
		return nil, nil
	}
	return policy.Load(f.File)
}
