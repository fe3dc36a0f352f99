package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"braid/schemas"
)

// Provider offers models by name. It is safe for concurrent use.
type Provider interface {
	// Name is the provider's part of "provider/model", a valid name.
	Name() string
	// Model returns the model of that name, or an *[schemas.Error] of code
	// [schemas.CodeUnknownModel].
	Model(name string) (Model, error)
	// Models lists the names the provider knows. It may serve others as well.
	Models() []string
}

// Catalog is the set of providers of a process. It is safe for concurrent use.
type Catalog struct {
	providers map[string]Provider
	calls     calls
}

// NewCatalog returns a catalog of the providers. It refuses a provider whose name is invalid
// or taken.
func NewCatalog(providers ...Provider) (*Catalog, error) {
	c := &Catalog{providers: make(map[string]Provider, len(providers))}
	for _, p := range providers {
		name := p.Name()
		if err := schemas.ValidateName("provider", name); err != nil {
			return nil, fmt.Errorf("make a catalog: %w", err)
		}
		if _, taken := c.providers[name]; taken {
			return nil, fmt.Errorf("make a catalog: two providers are named %q", name)
		}
		c.providers[name] = p
	}
	return c, nil
}

// Open returns the model "provider/model", guarded. The error is an *[schemas.Error]: of code
// [schemas.CodeInvalid] if the name has another form, else [schemas.CodeUnknownModel].
func (c *Catalog) Open(name string) (Model, error) {
	provider, model, err := schemas.SplitModel(name)
	if err != nil {
		return nil, err
	}
	p, ok := c.providers[provider]
	if !ok {
		return nil, schemas.Errorf(schemas.CodeUnknownModel, "there is no provider %q; the providers are: %s", provider, c.names())
	}
	m, err := p.Model(model)
	if err != nil {
		return nil, err
	}
	return guard(m, &c.calls), nil
}

func (c *Catalog) names() string {
	if len(c.providers) == 0 {
		return "none"
	}
	return strings.Join(c.Providers(), ", ")
}

// Providers lists the names of the providers, sorted.
func (c *Catalog) Providers() []string { return slices.Sorted(maps.Keys(c.providers)) }

// Models lists what the providers know as "provider/model", sorted.
func (c *Catalog) Models() []string {
	var models []string
	for name, p := range c.providers {
		for _, m := range p.Models() {
			models = append(models, name+"/"+m)
		}
	}
	slices.Sort(models)
	return models
}

// Abandoned counts the requests that were given up and whose model still has not returned.
func (c *Catalog) Abandoned() int { return c.calls.abandoned() }

// Close waits until every request of the catalog's models has returned, the abandoned ones
// included, or ctx ends. It stops none: that is what their contexts are for. Then it closes the
// providers that can be closed.
func (c *Catalog) Close(ctx context.Context) error {
	err := c.calls.wait(ctx)
	for _, p := range c.providers {
		if p, ok := p.(io.Closer); ok {
			err = errors.Join(err, p.Close())
		}
	}
	return err
}
