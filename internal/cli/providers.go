package cli

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"

	"braid/llm/openai"
	"braid/schemas"
)

// typeOpenAI is the type of providers that speak OpenAI's chat completions.
const typeOpenAI = "openai"

// openAIHost is the host that no request reaches without a key.
const openAIHost = "api.openai.com"

// maxProviders bounds a file of providers, in bytes.
const maxProviders = 1 << 20

// ProvidersFile is a file of model providers.
type ProvidersFile struct {
	Providers []ProviderConfig `yaml:"providers"`
}

// ProviderConfig configures a provider of models.
type ProviderConfig struct {
	// Name is its part of "provider/model".
	Name string `yaml:"name"`
	// Type is the protocol it speaks: "openai".
	Type string `yaml:"type"`
	// BaseURL is what "/chat/completions" follows.
	BaseURL string `yaml:"base_url"`
	// APIKeyEnv names the environment variable that holds the key. Without it that is
	// NAME_API_KEY (OPENAI_API_KEY for api.openai.com), if it is set.
	APIKeyEnv string `yaml:"api_key_env"`
	// APIKeyHeader is the header that takes the key; the default is "Authorization: Bearer".
	APIKeyHeader string            `yaml:"api_key_header"`
	Headers      map[string]string `yaml:"headers"`
	// Reasoning says what reasoning goes back: loop (the default), always, never.
	Reasoning string `yaml:"reasoning"`
	// StreamUsage false leaves out the question for usage, for servers that refuse it.
	StreamUsage *bool `yaml:"stream_usage"`
	// IdleTimeout is how long the provider may be silent, such as 15m.
	IdleTimeout string `yaml:"idle_timeout"`
	// Models are the models there are; without any, every name is taken to be one.
	Models []ModelConfig `yaml:"models"`
}

// ModelConfig configures a model.
type ModelConfig struct {
	Name string `yaml:"name"`
	// Window and MaxOutput are in tokens; MaxOutput bounds each answer.
	Window    int64 `yaml:"window"`
	MaxOutput int64 `yaml:"max_output"`
	Vision    bool  `yaml:"vision"`
	// Body are further members of each request.
	Body map[string]any `yaml:"body"`
}

// ParseProviders reads providers as YAML; file is its name in errors, which name the line and never
// show it: a key may stand there by mistake. Unknown and repeated keys are errors.
func ParseProviders(file string, data []byte) (_ []ProviderConfig, err error) {
	defer func() {
		// The YAML parser is not ours: should a file make it panic, the file is at fault.
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: this can't be read as YAML", file)
		}
	}()
	if len(data) > maxProviders {
		return nil, fmt.Errorf("%s has %d bytes, the limit is %d", file, len(data), maxProviders)
	}
	var f ProvidersFile
	if err := yaml.UnmarshalWithOptions(data, &f, yaml.Strict()); err != nil {
		return nil, yamlError(file, "this is not the YAML of model providers", err)
	}
	names := map[string]bool{}
	for i, p := range f.Providers {
		at := fmt.Sprintf("%s: providers[%d]", file, i)
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("%s.%w", at, err)
		}
		if names[p.Name] {
			return nil, fmt.Errorf("%s.name: there are two providers of name %q", at, p.Name)
		}
		names[p.Name] = true
	}
	return f.Providers, nil
}

// check looks for what is wrong in itself. Its errors begin with the field.
func (c ProviderConfig) check() error {
	if err := schemas.ValidateName("name", c.Name); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	if c.Type != typeOpenAI {
		return fmt.Errorf("type: it must be %s, not %q", typeOpenAI, c.Type)
	}
	if _, err := c.idle(); err != nil {
		return err
	}
	names := map[string]bool{}
	for i, m := range c.Models {
		switch {
		case m.Name == "":
			return fmt.Errorf("models[%d].name: it is missing", i)
		case names[m.Name]:
			return fmt.Errorf("models[%d].name: there are two models of name %q", i, m.Name)
		}
		names[m.Name] = true
		if _, err := m.body(); err != nil {
			return fmt.Errorf("models[%d].body: %w", i, err)
		}
	}
	// The rest is the provider's to say; a key is not needed for that.
	if _, err := openai.New(c.openAI("")); err != nil {
		if e, ok := errors.AsType[*schemas.Error](err); ok {
			return fmt.Errorf("%s: %s", e.Field, e.Message)
		}
		return err
	}
	return nil
}

// openAI is the configuration of a provider of that type, which has been checked.
func (c ProviderConfig) openAI(key string) openai.Config {
	idle, _ := c.idle()
	out := openai.Config{
		Name: c.Name, BaseURL: c.BaseURL, APIKey: key, APIKeyHeader: c.APIKeyHeader, Header: c.Headers,
		Reasoning: openai.ReasoningMode(c.Reasoning), NoStreamUsage: c.StreamUsage != nil && !*c.StreamUsage,
		Idle: idle, Models: make(map[string]openai.ModelConfig, len(c.Models)),
	}
	for _, m := range c.Models {
		body, _ := m.body()
		out.Models[m.Name] = openai.ModelConfig{Window: m.Window, MaxOutput: m.MaxOutput, Vision: m.Vision, Body: body}
	}
	return out
}

// idle is how long the provider may be silent, 0 if it does not say.
func (c ProviderConfig) idle() (time.Duration, error) {
	if c.IdleTimeout == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(c.IdleTimeout)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("idle_timeout: it must be a duration such as 15m, not %q", c.IdleTimeout)
	}
	return d, nil
}

// body is the further members as JSON, in an order that is always the same.
func (m ModelConfig) body() (jsontext.Value, error) {
	if len(m.Body) == 0 {
		return nil, nil
	}
	raw, err := schemas.EncodeJSON(m.Body)
	if err != nil {
		return nil, err
	}
	body := jsontext.Value(raw)
	return body, body.Canonicalize()
}

// key is the key from the environment; empty if none is needed.
func (c ProviderConfig) key(getenv func(string) string) (string, error) {
	name, needed := c.APIKeyEnv, c.APIKeyEnv != ""
	switch {
	case needed:
	case c.host() == openAIHost:
		name, needed = "OPENAI_API_KEY", true
	default:
		name = strings.ToUpper(strings.ReplaceAll(c.Name, "-", "_")) + "_API_KEY"
	}
	key := strings.TrimSpace(getenv(name))
	if key == "" && needed {
		return "", fmt.Errorf("its key is missing: the environment variable %s is not set", name)
	}
	return key, nil
}

func (c ProviderConfig) host() string {
	u, err := url.Parse(c.BaseURL)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// clear reports that requests leave the machine unencrypted.
func (c ProviderConfig) clear() bool {
	if !strings.HasPrefix(strings.ToLower(c.BaseURL), "http://") {
		return false
	}
	ip := net.ParseIP(c.host())
	return c.host() != "localhost" && (ip == nil || !ip.IsLoopback())
}
