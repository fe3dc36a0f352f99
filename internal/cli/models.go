package cli

import (
	"fmt"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"braid/engine"
	"braid/llm"
	"braid/llm/openai"
	"braid/llm/scripted"
	"braid/llm/shell"
)

// ModelFlags say which models sessions may run on, and what these cost.
type ModelFlags struct {
	// File holds providers, see [ParseProviders].
	File Document
	// OpenAI lists providers as NAME=BASE_URL, for which no file is needed.
	OpenAI []string
	// Scripts is a directory of YAML files, each a model of the provider "scripted".
	Scripts string
	// Prices holds prices, see [engine.ParsePrices].
	Prices Document
}

// Register adds the flags to a command.
func (f *ModelFlags) Register(flags *pflag.FlagSet) {
	flags.Var(&f.File, "models", "YAML `FILE` of model providers")
	flags.StringArrayVar(&f.OpenAI, "openai", nil, "an OpenAI-compatible provider, as `NAME=BASE_URL`: its models are NAME/..., its key is in the environment variable NAME_API_KEY; can be repeated")
	flags.StringVar(&f.Scripts, "scripts", "", "`DIRECTORY` of scripted models: NAME.yaml is the model scripted/NAME")
	flags.Var(&f.Prices, "prices", "YAML `FILE` of model prices, in US dollars per million tokens")
}

// PriceList reads the prices; none if no file was named.
func (f *ModelFlags) PriceList() (engine.Prices, error) {
	if !f.Prices.Given() {
		return nil, nil
	}
	data, err := f.Prices.Read()
	if err != nil {
		return nil, fmt.Errorf("the price list: %w", err)
	}
	prices, err := engine.ParsePrices(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Prices.Path, err)
	}
	return prices, nil
}

// Catalog opens the providers. Keys come from the environment.
func (f *ModelFlags) Catalog(getenv func(string) string, log zerolog.Logger) (*llm.Catalog, error) {
	providers := []llm.Provider{&shell.Provider{}}
	if f.Scripts != "" {
		p, err := scripted.Dir(f.Scripts)
		if err != nil {
			return nil, fmt.Errorf("scripted models: %w", err)
		}
		providers = append(providers, p)
	}
	configured, err := f.providers()
	if err != nil {
		return nil, err
	}
	for _, c := range configured {
		p, err := c.open(getenv, log)
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", c.Name, err)
		}
		providers = append(providers, p)
	}
	return llm.NewCatalog(providers...)
}

// providers reads what file and flags configure.
func (f *ModelFlags) providers() ([]ProviderConfig, error) {
	var configured []ProviderConfig
	if f.File.Given() {
		data, err := f.File.Read()
		if err != nil {
			return nil, fmt.Errorf("the models: %w", err)
		}
		if configured, err = ParseProviders(f.File.Path, data); err != nil {
			return nil, err
		}
	}
	for _, flag := range f.OpenAI {
		name, base, ok := strings.Cut(flag, "=")
		if !ok {
			return nil, Usage("--openai must be NAME=BASE_URL, for example local=http://127.0.0.1:11434/v1")
		}
		configured = append(configured, ProviderConfig{Name: name, Type: typeOpenAI, BaseURL: base})
	}
	return configured, nil
}

// open makes the provider.
func (c ProviderConfig) open(getenv func(string) string, log zerolog.Logger) (llm.Provider, error) {
	if c.clear() {
		log.Warn().Str("provider", c.Name).Msg("base_url is http to another machine: prompts, answers and the key travel in the clear")
	}
	key, err := c.key(getenv)
	if err != nil {
		return nil, err
	}
	return openai.New(c.openAI(key))
}
