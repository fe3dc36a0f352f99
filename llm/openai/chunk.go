package openai

import (
	"strings"

	"braid/llm/internal/transport"
	"braid/schemas"

	"github.com/go-json-experiment/json/jsontext"
)

// chunk is one event of a streamed answer, or a whole answer that came at once. What servers give
// in several forms is kept raw until it is looked at.
type chunk struct {
	Object  string         `json:"object"`
	Choices []choice       `json:"choices"`
	Usage   jsontext.Value `json:"usage"`
	Error   jsontext.Value `json:"error"`
}

// choice is a part of the answer. Only one answer is ever asked for, so all choices are parts of
// it, as some servers send them.
type choice struct {
	Delta        *delta         `json:"delta"`
	Message      *delta         `json:"message"` // in an answer that came at once
	FinishReason jsontext.Value `json:"finish_reason"`
}

// delta is what is said.
type delta struct {
	Content          jsontext.Value   `json:"content"`
	Refusal          jsontext.Value   `json:"refusal"`
	ReasoningContent jsontext.Value   `json:"reasoning_content"`
	Reasoning        jsontext.Value   `json:"reasoning"`
	ReasoningDetails []jsontext.Value `json:"reasoning_details"`
	ToolCalls        []callPart       `json:"tool_calls"`
}

// callPart is a fragment of a tool call, or all of it.
type callPart struct {
	Index    *int           `json:"index"` // absent is not 0
	ID       jsontext.Value `json:"id"`
	Function struct {
		Name      jsontext.Value `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	} `json:"function"`
	Extra jsontext.Value `json:"extra_content"`
}

// parseChunk reads one event's data.
func parseChunk(data []byte) (chunk, error) {
	var c chunk
	err := schemas.DecodeJSON(data, &c)
	return c, err
}

// failure is the error that a chunk reports, if it does.
func (c chunk) failure(data []byte) (transport.Detail, bool) {
	if k := c.Error.Kind(); k == jsontext.KindBeginObject || k == jsontext.KindString {
		return transport.ParseDetail(data), true
	}
	if c.Object == "error" && c.Choices == nil {
		return transport.ParseDetail(data), true
	}
	return transport.Detail{}, false
}

// text is a string's text; that of other values is empty.
func text(v jsontext.Value) string {
	if v.Kind() != jsontext.KindString {
		return ""
	}
	var s string
	_ = schemas.DecodeJSON(v, &s) // it has been parsed before
	return s
}

// part is a piece of content that came as a list.
type part struct {
	Type     string         `json:"type"`
	Text     jsontext.Value `json:"text"`
	Thinking jsontext.Value `json:"thinking"` // a string, or a list of parts
}

// contents splits content into what is said and what is reasoned: a string, or a list of parts.
func contents(v jsontext.Value) (said, reasoned string) {
	if v.Kind() != jsontext.KindBeginArray {
		return text(v), ""
	}
	var parts []part
	if schemas.DecodeJSON(v, &parts) != nil {
		return "", ""
	}
	var s, r strings.Builder
	for _, p := range parts {
		switch p.Type {
		case "text", "output_text":
			s.WriteString(text(p.Text))
		case "thinking", "reasoning":
			inner, _ := contents(p.Thinking)
			r.WriteString(inner)
			r.WriteString(text(p.Text))
		}
	}
	return s.String(), r.String()
}

// arguments is the JSON text of a call's arguments: servers send it as a string, or as the object
// itself.
func arguments(v jsontext.Value) string {
	if v.Kind() == jsontext.KindBeginObject {
		if compact, err := schemas.CompactRaw(v); err == nil {
			return string(compact)
		}
	}
	return text(v)
}

// usage is what a request used, as servers say it. They write whole numbers, not always as such.
type usage struct {
	Prompt     float64 `json:"prompt_tokens"`
	Completion float64 `json:"completion_tokens"`
	Total      float64 `json:"total_tokens"`
	CacheHit   float64 `json:"prompt_cache_hit_tokens"` // DeepSeek
	Details    *struct {
		Cached float64 `json:"cached_tokens"`
		Write  float64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
}

// counts are the numbers of a usage, nil if it holds none. Cached tokens are a part of the prompt;
// where they exceed it they are not, and are added. Output is what the total leaves beside the
// prompt: some servers don't count reasoning as completion.
func counts(v jsontext.Value) *schemas.TokenCounts {
	var u usage
	if v.Kind() != jsontext.KindBeginObject || schemas.DecodeJSON(v, &u) != nil {
		return nil
	}
	prompt, output, total := tokens(u.Prompt), tokens(u.Completion), tokens(u.Total)
	c := &schemas.TokenCounts{CacheRead: tokens(u.CacheHit)}
	if u.Details != nil {
		c.CacheRead = max(c.CacheRead, tokens(u.Details.Cached))
		c.CacheWrite = tokens(u.Details.Write)
	}
	if cached := c.CacheRead + c.CacheWrite; cached > prompt {
		prompt += cached
	}
	c.Output = max(output, total-prompt)
	c.Total = prompt + c.Output
	if c.Total == 0 {
		return nil
	}
	return c
}

// tokens is a number of tokens that makes sense.
func tokens(n float64) int64 {
	if !(n > 0) {
		return 0
	}
	return int64(min(n, 1<<40))
}
