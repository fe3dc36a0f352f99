package openai

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"braid/llm"
	"braid/llm/internal/transport"
	"braid/schemas"

	"github.com/go-json-experiment/json/jsontext"
)

// Config says where a provider is and how to talk to it.
type Config struct {
	// Name is the provider's part of "provider/model".
	Name string
	// BaseURL is what "/chat/completions" follows, such as "https://api.openai.com/v1". It may
	// have a query.
	BaseURL string
	// APIKey is sent with each request; empty sends none.
	APIKey string
	// APIKeyHeader is the header that takes the key as it is; empty means "Authorization: Bearer".
	APIKeyHeader string
	// Header is sent as well.
	Header map[string]string
	// Models are the models by name. Without any, every name is taken to be one.
	Models map[string]ModelConfig
	// Reasoning says what reasoning goes back to the provider; the zero value is ReasoningLoop.
	Reasoning ReasoningMode
	// NoStreamUsage leaves out stream_options, for servers that refuse it. Usage is then estimated,
	// unless the server gives it anyway.
	NoStreamUsage bool
	// Idle is how long the provider may be silent; 0 means [transport.DefaultIdle].
	Idle time.Duration
}

// ModelConfig is what is known of a model, and how to ask it. The zero value knows nothing.
type ModelConfig struct {
	// Window and MaxOutput are in tokens, 0 if not known. MaxOutput is sent as the limit of each
	// answer, or less if no more is left of Window.
	Window, MaxOutput int64
	// Vision says that the model takes pictures.
	Vision bool
	// Body are further members of each request, as one JSON object: {"temperature":0.2}.
	Body jsontext.Value
}

// ReasoningMode says what reasoning of earlier answers is sent back. Servers disagree: some refuse
// a conversation without it, some with it.
type ReasoningMode string

const (
	// ReasoningLoop: of the answers since the last prompt, which is while tools are at work, and
	// everything that is signed.
	ReasoningLoop ReasoningMode = "loop"
	// ReasoningAlways: of all answers.
	ReasoningAlways ReasoningMode = "always"
	// ReasoningNever: none.
	ReasoningNever ReasoningMode = "never"
)

// patience is how long an answer that gave its finish reason may still bring its usage.
const patience = 3 * time.Second

// Provider is a provider of chat completions.
type Provider struct {
	config Config
	url    string
	header http.Header
	limit  string // the name of the member that bounds an answer
	client *transport.Client

	patience time.Duration
}

// New returns a provider. An error is an *[schemas.Error] of code [schemas.CodeInvalid] that names
// the field of the configuration, and never holds the key.
func New(c Config) (*Provider, error) {
	if err := schemas.ValidateName("name", c.Name); err != nil {
		return nil, err
	}
	endpoint, err := endpointOf(c.BaseURL)
	if err != nil {
		return nil, err
	}
	switch c.Reasoning {
	case "":
		c.Reasoning = ReasoningLoop
	case ReasoningLoop, ReasoningAlways, ReasoningNever:
	default:
		return nil, invalid("reasoning", "reasoning must be one of loop, always, never")
	}
	for name, m := range c.Models {
		if err := m.check(name); err != nil {
			return nil, err
		}
	}
	p := &Provider{config: c, url: endpoint.String(), limit: "max_tokens", patience: patience}
	if hosts(endpoint, "openai.com", "azure.com") {
		p.limit = "max_completion_tokens" // reasoning models there refuse the old name
	}
	secrets, err := p.headers()
	if err != nil {
		return nil, err
	}
	for name, values := range endpoint.Query() {
		if tellsSecret(name) {
			secrets = append(secrets, values...)
		}
	}
	p.client = transport.New(transport.Options{Provider: c.Name, Secrets: secrets, Idle: c.Idle})
	return p, nil
}

func invalid(field, format string, args ...any) *schemas.Error {
	return &schemas.Error{Code: schemas.CodeInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

// endpointOf is where requests go.
func endpointOf(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil, u.Host == "", u.Scheme != "http" && u.Scheme != "https":
		return nil, invalid("base_url", "base_url must be an http or https URL such as https://api.openai.com/v1")
	case u.User != nil:
		return nil, invalid("base_url", "base_url must not hold a user or password: others see it")
	case u.Fragment != "":
		return nil, invalid("base_url", "base_url must not have a fragment")
	}
	if path := strings.TrimRight(u.Path, "/"); !strings.HasSuffix(path, "/chat/completions") {
		u = u.JoinPath("chat", "completions")
	}
	return u, nil
}

// hosts reports that the URL's host is one of the domains or below one.
func hosts(u *url.URL, domains ...string) bool {
	host := strings.ToLower(u.Hostname())
	return slices.ContainsFunc(domains, func(d string) bool { return host == d || strings.HasSuffix(host, "."+d) })
}

// headers builds what is sent with each request, and returns what of it is secret.
func (p *Provider) headers() (secrets []string, err error) {
	c := p.config
	p.header = http.Header{}
	for name, value := range c.Header {
		if !headerName(name) || !headerValue(value) {
			return nil, invalid("headers", "the header %q is invalid", name)
		}
		p.header.Set(name, value)
		if tellsSecret(name) {
			secrets = append(secrets, value)
		}
	}
	if c.APIKey == "" {
		return secrets, nil
	}
	if !headerValue(c.APIKey) {
		return nil, invalid("api_key_env", "the key of provider %s holds characters that no header can: a line break at its end, maybe", c.Name)
	}
	if c.APIKeyHeader == "" {
		p.header.Set("Authorization", "Bearer "+c.APIKey)
	} else if !headerName(c.APIKeyHeader) {
		return nil, invalid("api_key_header", "%q is no header's name", c.APIKeyHeader)
	} else {
		p.header.Set(c.APIKeyHeader, c.APIKey)
	}
	return append(secrets, c.APIKey), nil
}

func headerName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) })
}

func headerValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// tellsSecret reports that the value of a header or parameter is likely a secret.
func tellsSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"auth", "key", "token", "secret", "cookie", "password"}, func(s string) bool {
		return strings.Contains(name, s)
	})
}

// check refuses settings that can't be sent.
func (m ModelConfig) check(name string) error {
	field := "models." + name
	if _, _, err := schemas.SplitModel("x/" + name); err != nil {
		return invalid(field, "%q is not a model's name", name)
	}
	if m.Window < 0 || m.MaxOutput < 0 {
		return invalid(field, "model %s: window and max_output are numbers of tokens", name)
	}
	if len(m.Body) == 0 {
		return nil
	}
	var members map[string]jsontext.Value
	if err := schemas.DecodeJSON(m.Body, &members); err != nil || m.Body.Kind() != jsontext.KindBeginObject {
		return invalid(field+".body", "model %s: body must be an object", name)
	}
	for _, ours := range []string{"model", "messages", "tools", "stream", "stream_options"} {
		if _, taken := members[ours]; taken {
			return invalid(field+".body", "model %s: body must not set %s, which is set for each request", name, ours)
		}
	}
	return nil
}

// Name implements [llm.Provider].
func (p *Provider) Name() string { return p.config.Name }

// Models implements [llm.Provider].
func (p *Provider) Models() []string { return slices.Sorted(maps.Keys(p.config.Models)) }

// Model implements [llm.Provider].
func (p *Provider) Model(name string) (llm.Model, error) {
	c, ok := p.config.Models[name]
	if !ok && len(p.config.Models) > 0 {
		return nil, schemas.Errorf(schemas.CodeUnknownModel, "provider %s has no model %q; its models are: %s", p.config.Name, name, strings.Join(p.Models(), ", "))
	}
	return &model{provider: p, name: name, config: c, from: p.config.Name + "/" + name}, nil
}

// Close closes idle connections. Requests that run are not touched.
func (p *Provider) Close() error {
	p.client.Close()
	return nil
}
