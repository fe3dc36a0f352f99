package openai

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"braid/schemas"

	"github.com/go-json-experiment/json/jsontext"
)

// message is one message of a conversation as it is sent.
type message struct {
	Role             string           `json:"role"`
	Content          jsontext.Value   `json:"content"` // a string, a list of parts, or null
	ReasoningContent string           `json:"reasoning_content,omitzero"`
	Reasoning        string           `json:"reasoning,omitzero"`
	ReasoningDetails []jsontext.Value `json:"reasoning_details,omitzero"`
	ToolCalls        []toolCall       `json:"tool_calls,omitzero"`
	ToolCallID       string           `json:"tool_call_id,omitzero"`
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
	Extra jsontext.Value `json:"extra_content,omitzero"`
}

// contentPart is a piece of a message that is more than text.
type contentPart struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitzero"`
	ImageURL *imageURL `json:"image_url,omitzero"`
}

type imageURL struct {
	URL string `json:"url"`
}

// quote is a text as JSON.
func quote(s string) jsontext.Value {
	raw, _ := schemas.EncodeJSON(s) // a string
	return raw
}

// conversation is a context on its way to messages. Providers demand that the outputs of an
// answer's calls follow it directly, one for each call, and that nothing else comes between; many
// also that user and assistant take turns. So messages of one side are joined, and what the user
// said meanwhile comes after the outputs.
type conversation struct {
	model *model
	out   []message
	ids   map[string]bool // of calls, as they are sent

	answer *turn         // the assistant's, while it is being collected
	user   []contentPart // the user's, while it is
	asked  []contentPart // what the last message of the user holds
}

// turn is one answer and the outputs of its calls.
type turn struct {
	text     strings.Builder
	thinking strings.Builder
	field    string
	details  []jsontext.Value
	calls    []*schemas.ToolCall
	outputs  map[string]*schemas.ToolCallOutput
	loop     bool // no prompt follows
}

// messages turns a context into messages. An error means that it can't be sent.
func (m *model) messages(input []schemas.Message) ([]message, error) {
	c := &conversation{model: m, ids: map[string]bool{}}
	prompt := lastPrompt(input)
	for i, in := range input {
		if err := c.add(in.Payload, i > prompt); err != nil {
			return nil, err
		}
	}
	c.flush()
	return c.out, nil
}

// lastPrompt is where the user spoke last, -1 if never.
func lastPrompt(input []schemas.Message) int {
	for i, in := range slices.Backward(input) {
		switch p := in.Payload.(type) {
		case *schemas.Text:
			if p.Role == schemas.RoleUser {
				return i
			}
		case *schemas.ImageURL, *schemas.InlineData:
			return i
		}
	}
	return -1
}

func (c *conversation) add(p schemas.Payload, loop bool) error {
	switch p := p.(type) {
	case *schemas.Text:
		if p.Role == schemas.RoleUser {
			c.say(contentPart{Type: "text", Text: p.Text})
			return nil
		}
		t := c.turn(loop)
		t.text.WriteString(p.Text)
		c.keep(t, p.Fidelity)
	case *schemas.Thinking:
		t := c.turn(loop)
		if c.keep(t, p.Fidelity) {
			t.thinking.WriteString(p.Thinking)
		}
	case *schemas.ToolCall:
		t := c.turn(loop)
		t.calls = append(t.calls, p)
		c.keep(t, p.Fidelity)
	case *schemas.ToolCallOutput:
		c.output(p)
	case *schemas.ImageURL:
		if p.Role == schemas.RoleUser {
			c.say(contentPart{Type: "image_url", ImageURL: &imageURL{p.ImageURL}})
		}
	case *schemas.InlineData:
		if p.Role != schemas.RoleUser {
			return nil
		}
		if !strings.HasPrefix(p.MIMEType, "image/") {
			return fmt.Errorf("the conversation holds data of type %s, which the model can't be sent", p.MIMEType)
		}
		c.say(contentPart{Type: "image_url", ImageURL: &imageURL{"data:" + p.MIMEType + ";base64," + p.Data}})
	}
	return nil
}

// turn is the answer being collected. If the user has spoken since, a new one begins.
func (c *conversation) turn(loop bool) *turn {
	if len(c.user) > 0 || c.answer != nil && len(c.answer.outputs) > 0 {
		c.flush()
	}
	if c.answer == nil {
		c.answer = &turn{outputs: map[string]*schemas.ToolCallOutput{}}
	}
	c.answer.loop = loop
	return c.answer
}

// keep keeps what a message of the answer carries for its provider, and reports whether it is this
// model's.
func (c *conversation) keep(t *turn, raw jsontext.Value) bool {
	f := c.model.fidelityOf(raw)
	t.field = cmp.Or(t.field, f.Field)
	t.details = append(t.details, f.Details...)
	return f.From != ""
}

// output takes the output of a call. One whose call is not there, or which is the call's second, is
// told by the user instead: it must not be lost, and a provider would refuse it.
func (c *conversation) output(p *schemas.ToolCallOutput) {
	t := c.answer
	if t == nil || t.outputs[p.ToolCallID] != nil ||
		!slices.ContainsFunc(t.calls, func(call *schemas.ToolCall) bool { return call.ToolCallID == p.ToolCallID }) {
		c.say(contentPart{Type: "text", Text: "[output of an earlier tool call]\n" + p.Output})
	} else {
		t.outputs[p.ToolCallID] = p
	}
	if len(p.Images) > 0 { // a tool's own message takes text only
		c.say(contentPart{Type: "text", Text: "[pictures of the tool's output]"})
		for _, url := range p.Images {
			c.say(contentPart{Type: "image_url", ImageURL: &imageURL{url}})
		}
	}
}

func (c *conversation) say(p contentPart) {
	if p.Type != "text" || p.Text != "" {
		c.user = append(c.user, p)
	}
}

// flush writes what is being collected.
func (c *conversation) flush() {
	if c.answer != nil {
		c.writeAnswer(c.answer)
		c.answer = nil
	}
	if len(c.user) == 0 {
		return
	}
	if n := len(c.out); n > 0 && c.out[n-1].Role == "user" { // the answer between them was of nothing
		c.asked = append(c.asked, c.user...)
		c.out[n-1].Content = userContent(c.asked)
	} else {
		c.asked = c.user
		c.out = append(c.out, message{Role: "user", Content: userContent(c.asked)})
	}
	c.user = nil
}

// writeAnswer writes the answer and one output for each of its calls, in the order of the calls.
func (c *conversation) writeAnswer(t *turn) {
	m := message{Role: "assistant", Content: jsontext.Value("null")}
	if t.text.Len() > 0 {
		m.Content = quote(t.text.String())
	}
	c.reason(&m, t)
	var outputs []message
	for _, call := range t.calls {
		f := c.model.fidelityOf(call.Fidelity)
		sent := toolCall{ID: c.callID(f.CallID, call.ToolCallID), Type: "function", Extra: f.Extra}
		sent.Function.Name, sent.Function.Arguments = toolName(call.Name), sentArguments(call.Arguments)
		m.ToolCalls = append(m.ToolCalls, sent)
		text := "[no output: the call was interrupted]"
		if o := t.outputs[call.ToolCallID]; o != nil {
			text = o.Output
		}
		outputs = append(outputs, message{Role: "tool", Content: quote(text), ToolCallID: sent.ID})
	}
	if len(m.ToolCalls) == 0 && t.text.Len() == 0 {
		return // an answer of nothing, which providers refuse
	}
	c.out = append(append(c.out, m), outputs...)
}

// reason adds the reasoning that goes back.
func (c *conversation) reason(m *message, t *turn) {
	mode := c.model.provider.config.Reasoning
	if mode == ReasoningNever {
		return
	}
	m.ReasoningDetails = t.details
	if len(t.details) > 0 || mode == ReasoningLoop && !t.loop {
		return
	}
	switch t.field {
	case "reasoning_content":
		m.ReasoningContent = t.thinking.String()
	case "reasoning":
		m.Reasoning = t.thinking.String()
	}
}

// callID is an id that no other call of the conversation has: the provider's own, if that will do,
// else the session's.
func (c *conversation) callID(theirs, ours string) string {
	id := theirs
	for n := 0; id == "" || c.ids[id]; n++ {
		id = ours
		if n > 0 || ours == "" {
			id = fmt.Sprintf("%s-%d", ours, n)
		}
	}
	c.ids[id] = true
	return id
}

// userContent is a text if it is all text, since some servers take nothing else, or a list of
// parts.
func userContent(parts []contentPart) jsontext.Value {
	var texts []string
	for _, p := range parts {
		if p.Type != "text" {
			raw, _ := schemas.EncodeJSON(parts) // plain strings
			return raw
		}
		texts = append(texts, p.Text)
	}
	return quote(strings.Join(texts, "\n\n"))
}

// toolName is a name that providers take. That of a call is what the model made up, if it called a
// tool that is not there.
func toolName(name string) string {
	if schemas.ValidName(name) {
		return name
	}
	clean := strings.Map(func(r rune) rune {
		if schemas.ValidName(string(r)) {
			return r
		}
		return '_'
	}, name)
	return cmp.Or(clean[:min(len(clean), schemas.MaxNameLength)], "unknown")
}

// sentArguments are a call's arguments as they go back. What is no JSON object would be refused,
// with the whole conversation; the call's output has told the model what it had written.
func sentArguments(s string) string {
	v := jsontext.Value(strings.TrimSpace(s))
	if v.Kind() != jsontext.KindBeginObject || !v.IsValid() {
		return "{}"
	}
	return s
}
