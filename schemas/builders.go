package schemas

import (
	"crypto/sha256"
	"encoding/hex"
)

// Builders set what every payload of a kind has in common: the role. A payload of an event has no
// such part, so its literal is its builder; [New] and [NewTraceOnly] wrap either in an envelope.

// UserText is a payload of a person's words.
func UserText(text string) *Text { return &Text{Role: RoleUser, Text: text} }

// HarnessText is a payload of role user that Braid itself puts before the model.
func HarnessText(text string) *Text {
	return &Text{Role: RoleUser, Text: text, Sender: SenderHarness}
}

// AssistantText is a payload of the model's words.
func AssistantText(text string) *Text { return &Text{Role: RoleAssistant, Text: text} }

// AssistantThinking is a payload of the model's reasoning.
func AssistantThinking(text string) *Thinking {
	return &Thinking{Role: RoleAssistant, Thinking: text}
}

// AssistantInlineThinking is a payload of the model's reasoning in a binary form: base64 data.
func AssistantInlineThinking(mimeType, data string) *InlineThinking {
	return &InlineThinking{Role: RoleAssistant, MIMEType: mimeType, Data: data}
}

// UserImage is a payload of a picture a person sends: a network URL or a data URL.
func UserImage(url string) *ImageURL { return &ImageURL{Role: RoleUser, ImageURL: url} }

// UserData is a payload of any other binary content a person sends: base64 data.
func UserData(mimeType, data string) *InlineData {
	return &InlineData{Role: RoleUser, MIMEType: mimeType, Data: data}
}

// NewToolCall is a payload of a call the model wants made.
func NewToolCall(id, name, arguments string) *ToolCall {
	return &ToolCall{Role: RoleAssistant, ToolCallID: id, Name: name, Arguments: arguments}
}

// NewToolCallOutput is a payload of a call's complete result.
func NewToolCallOutput(id, output string, reason StopReason) *ToolCallOutput {
	return &ToolCallOutput{Role: RoleUser, ToolCallID: id, Output: output, StopReason: reason}
}

// TextFragment is a payload of a piece of streamed text.
func TextFragment(phase Phase, text string) *PartialText {
	return &PartialText{Role: RoleAssistant, EventType: phase, Text: text}
}

// ThinkingFragment is a payload of a piece of streamed reasoning.
func ThinkingFragment(phase Phase, text string) *PartialThinking {
	return &PartialThinking{Role: RoleAssistant, EventType: phase, Thinking: text}
}

// ToolCallFragment is a payload of a piece of a streamed call: start carries the name, a delta
// a piece of the arguments.
func ToolCallFragment(phase Phase, id, name, arguments string) *PartialToolCall {
	return &PartialToolCall{Role: RoleAssistant, EventType: phase, ToolCallID: id, Name: name, Arguments: arguments}
}

// ToolCallOutputFragment is a payload of a piece of a call's streamed output.
func ToolCallOutputFragment(phase Phase, id, output string) *PartialToolCallOutput {
	return &PartialToolCallOutput{Role: RoleUser, EventType: phase, ToolCallID: id, Output: output}
}

// CallHash identifies what an approval is about: the tool's name and the exact arguments. It is
// the first 32 hex digits of a SHA-256 over both, separated by a zero byte, which no name holds.
func CallHash(name, arguments string) string {
	h := sha256.New()
	h.Write([]byte(name))
	h.Write([]byte{0})
	h.Write([]byte(arguments))
	return hex.EncodeToString(h.Sum(nil)[:16])
}
