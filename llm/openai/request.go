package openai

import (
	"cmp"
	"fmt"

	"braid/llm"
	"braid/schemas"

	"github.com/go-json-experiment/json/jsontext"
)

// request is the body of a request.
type request struct {
	Model    string    `json:"model"`
	Messages []message `json:"messages"`
	Tools    []tool    `json:"tools,omitzero"`
	Stream   bool      `json:"stream"`
	Options  *options  `json:"stream_options,omitzero"`
	// Limit and Settings are members too.
	MaxTokens           int64          `json:"max_tokens,omitzero"`
	MaxCompletionTokens int64          `json:"max_completion_tokens,omitzero"`
	Settings            jsontext.Value `json:",embed"`
}

type options struct {
	IncludeUsage bool `json:"include_usage"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters"`
}

// noParameters is the schema of a tool that takes none.
var noParameters = jsontext.Value(`{"type":"object","properties":{}}`)

// body builds the request. An error means that it can't be made.
func (m *model) body(req llm.Request) ([]byte, error) {
	out := request{Model: m.name, Stream: true, Settings: m.config.Body}
	if !m.provider.config.NoStreamUsage {
		out.Options = &options{IncludeUsage: true}
	}
	if err := m.limit(&out, cmp.Or(req.MaxOutput, m.config.MaxOutput)); err != nil {
		return nil, err
	}
	for _, t := range req.Tools {
		if !schemas.ValidName(t.Name) {
			return nil, fmt.Errorf("the tool %q has a name that the provider does not take", t.Name)
		}
		parameters := t.Parameters
		if len(parameters) == 0 || parameters.Kind() == jsontext.KindNull {
			parameters = noParameters
		}
		out.Tools = append(out.Tools, tool{"function", function{t.Name, t.Description, parameters}})
	}
	if req.System != "" {
		out.Messages = append(out.Messages, message{Role: "system", Content: quote(req.System)})
	}
	messages, err := m.messages(req.Input)
	if err != nil {
		return nil, err
	}
	out.Messages = append(out.Messages, messages...)
	return schemas.EncodeJSON(out)
}

// limit bounds the answer, unless the settings do it in their own words.
func (m *model) limit(out *request, tokens int64) error {
	if tokens == 0 {
		return nil
	}
	if len(m.config.Body) > 0 {
		var members map[string]jsontext.Value
		if err := schemas.DecodeJSON(m.config.Body, &members); err != nil {
			return err
		}
		for _, name := range []string{"max_tokens", "max_completion_tokens"} {
			if _, set := members[name]; set {
				return nil
			}
		}
	}
	if m.provider.limit == "max_tokens" {
		out.MaxTokens = tokens
	} else {
		out.MaxCompletionTokens = tokens
	}
	return nil
}
