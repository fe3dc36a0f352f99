package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"braid/llm"
	"braid/llm/scripted"
	"braid/llm/shell"
)

// ModelFlags say which models sessions may run on.
type ModelFlags struct {
	// Scripts is a directory of YAML files, each a model of the provider "scripted".
	Scripts string
}

// Register adds the flags to a command.
func (f *ModelFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.Scripts, "scripts", "", "directory of scripted models: NAME.yaml is scripted/NAME")
}

// Catalog opens the providers.
func (f *ModelFlags) Catalog() (*llm.Catalog, error) {
	providers := []llm.Provider{&shell.Provider{}}
	if f.Scripts != "" {
		p, err := scripted.Dir(f.Scripts)
		if err != nil {
			return nil, fmt.Errorf("scripted models: %w", err)
		}
		providers = append(providers, p)
	}
	return llm.NewCatalog(providers...)
}

// Close calls f when a function ends and adds its error to the one the function returns.
func Close(err *error, f func() error) { *err = errors.Join(*err, f()) }
