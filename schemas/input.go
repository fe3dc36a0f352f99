package schemas

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// InputTurn is one turn of what a task is given: a conversation so far, whose last turn is the
// prompt. See [TaskBody].
type InputTurn struct {
	// Role is whose turn it is: user or assistant, in turns.
	Role    Role           `json:"role"`
	Content []InputPart    `json:"content"`
	Extra   jsontext.Value `json:",embed"`
}

// InputPart is a part of a turn. Its Type says which of the other members it has; they mean what
// they mean in the payload of that kind.
type InputPart struct {
	// Type is [KindText]; [KindImageURL] or [KindToolCallOutput] in a turn of the user;
	// [KindToolCall] in one of the assistant.
	Type     Kind   `json:"type"`
	Text     string `json:"text,omitzero"`
	ImageURL string `json:"image_url,omitzero"`
	// ToolCallID ties an output to its call. It is unique in the input, and is replaced by an id of
	// the engine.
	ToolCallID string `json:"tool_call_id,omitzero"`
	Name       string `json:"name,omitzero"`
	// Arguments are a JSON object as text; empty means {}.
	Arguments string `json:"arguments,omitzero"`
	Output    string `json:"output,omitzero"`
	// Images are pictures of a tool's output, as [ParseImage] reads them.
	Images     []string       `json:"images,omitzero"`
	StopReason StopReason     `json:"stop_reason,omitzero"`
	Extra      jsontext.Value `json:",embed"`
}

// Turns are the turns of the input, whichever way it was given.
func (b *TaskBody) Turns() []InputTurn {
	if b.Input != nil {
		return b.Input
	}
	return []InputTurn{{Role: RoleUser, Content: []InputPart{{Type: KindText, Text: b.Prompt}}}}
}

// Earlier reports whether turns of a conversation come before the prompt.
func (b *TaskBody) Earlier() bool { return len(b.Turns()) > 1 }

// PromptText is the words of the prompt, and a description in the place of each picture.
func (b *TaskBody) PromptText() string {
	turns := b.Turns()
	var words []string
	for _, p := range turns[len(turns)-1].Content {
		switch p.Type {
		case KindText:
			words = append(words, p.Text)
		case KindImageURL:
			words = append(words, "[image: "+DescribeImage(p.ImageURL)+"]")
		}
	}
	return strings.Join(words, "\n")
}

// PromptImage is the path of the first picture of the prompt itself; empty if there is none.
func (b *TaskBody) PromptImage() string {
	turns := b.Turns()
	last := len(turns) - 1
	at := slices.IndexFunc(turns[last].Content, func(p InputPart) bool { return p.Type == KindImageURL })
	if at < 0 {
		return ""
	}
	return partPath(last, at) + ".image_url"
}

// Payloads are the input as a session keeps it: a complete payload a part, in order, the outputs
// of a turn's calls in the order of the calls. newID makes ids for the calls. The body must be
// valid.
func (b *TaskBody) Payloads(newID func() string) []Payload {
	var all []Payload
	ids := map[string]string{} // by the id given
	var order []string         // of the calls of the turn before
	for _, t := range b.Turns() {
		outputs := map[string]Payload{}
		var rest []Payload
		for _, p := range t.Content {
			switch p.Type {
			case KindToolCall:
				ids[p.ToolCallID] = newID()
				rest = append(rest, p.payload(t.Role, ids[p.ToolCallID]))
			case KindToolCallOutput:
				outputs[p.ToolCallID] = p.payload(t.Role, ids[p.ToolCallID])
			default:
				rest = append(rest, p.payload(t.Role, ""))
			}
		}
		for _, id := range order {
			all = append(all, outputs[id])
		}
		all = append(all, rest...)
		order = order[:0]
		for _, p := range t.Content {
			if p.Type == KindToolCall {
				order = append(order, p.ToolCallID)
			}
		}
	}
	return all
}

// payload is the part as a complete payload.
func (p *InputPart) payload(role Role, id string) Payload {
	switch p.Type {
	case KindImageURL:
		return &ImageURL{Role: role, ImageURL: p.ImageURL}
	case KindToolCall:
		arguments := p.Arguments
		if arguments == "" {
			arguments = "{}"
		}
		return NewToolCall(id, p.Name, arguments)
	case KindToolCallOutput:
		o := NewToolCallOutput(id, p.Output, p.StopReason)
		o.Images = p.Images
		return o
	}
	return &Text{Role: role, Text: p.Text}
}

// Given reports whether the message is something a task was given: its prompt, or turns of a
// conversation before it. Such messages have scope trace: whoever sent them has them.
func (m Message) Given() bool {
	return m.Type == TypeModel && m.Scope == ScopeTrace && len(m.Origin) == 0 && !m.Partial()
}

// Prompt reports whether the message can begin a task: words or pictures of a person or of a parent
// session.
func (m Message) Prompt() bool {
	if p, ok := m.Payload.(*Text); ok && p.Sender == SenderServer {
		return false
	}
	return len(m.Origin) == 0 && prompt(m)
}

// TaskInput reports whether the message is what a task was given: its prompt, or a turn that came
// with it.
func (m Message) TaskInput() bool { return m.Prompt() || m.Given() }

// Shown reports whether watchers see the message, with or without what tasks were given.
func (m Message) Shown(inputs bool) bool {
	if m.TaskInput() {
		return inputs
	}
	return m.Visible()
}
