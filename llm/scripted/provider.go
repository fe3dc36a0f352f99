package scripted

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"braid/llm"
	"braid/schemas"
)

// ProviderName is the name the provider goes by.
const ProviderName = "scripted"

// Provider is the provider "scripted": a set of scripts, each a model.
type Provider struct {
	scripts map[string]*Script
}

// New returns a provider of the scripts, by the names of their models.
func New(scripts map[string]*Script) *Provider {
	return &Provider{scripts: maps.Clone(scripts)}
}

// Dir returns a provider of the scripts in a directory: each file that ends in .yaml or .yml is
// the model of that name. They are read now; the error joins everything that is wrong in any.
func Dir(dir string) (*Provider, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read scripts: %w", err)
	}
	p := &Provider{scripts: make(map[string]*Script)}
	var errs []error
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if e.IsDir() || ext != ".yaml" && ext != ".yml" {
			continue
		}
		name := strings.TrimSuffix(e.Name(), ext)
		if p.scripts[name] != nil {
			errs = append(errs, fmt.Errorf("%s: there are two scripts of name %q", dir, name))
			continue
		}
		s, err := Load(filepath.Join(dir, e.Name()))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		p.scripts[name] = s
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return p, nil
}

// Name implements [llm.Provider].
func (p *Provider) Name() string { return ProviderName }

// Models implements [llm.Provider].
func (p *Provider) Models() []string { return slices.Sorted(maps.Keys(p.scripts)) }

// Model implements [llm.Provider].
func (p *Provider) Model(name string) (llm.Model, error) {
	if s := p.scripts[name]; s != nil {
		return s, nil
	}
	return nil, schemas.Errorf(schemas.CodeUnknownModel, "there is no script %q; the scripts are: %s", name, strings.Join(p.Models(), ", "))
}

// Script returns the script of that name, to open its gates; nil if there is none.
func (p *Provider) Script(name string) *Script { return p.scripts[name] }
