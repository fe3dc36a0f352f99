package schemas

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// TurnEventType says what a [TurnEvent] is about.
type TurnEventType string

// The types of events. A reader skips one it does not know.
const (
	// TurnText is what the model said in a whole turn.
	TurnText TurnEventType = "text"
	// TurnReasoning is a piece of the model's reasoning. A [TurnView] never gives one.
	TurnReasoning TurnEventType = "reasoning"
	// TurnToolUse is a call that a turn makes.
	TurnToolUse TurnEventType = "tool_use"
	// TurnToolResult is what came of a call.
	TurnToolResult TurnEventType = "tool_result"
	// TurnLoopDetected says that the model repeats itself.
	TurnLoopDetected TurnEventType = "loop_detected"
	// TurnBudgetExceeded says that the session used more than it may. The task still ends well.
	TurnBudgetExceeded TurnEventType = "budget_exceeded"
	// TurnDone is the last event of a task that ended well.
	TurnDone TurnEventType = "done"
	// TurnError is the last event of a task that failed.
	TurnError TurnEventType = "error"
)

// TurnEvent is what happened in a task, at the grain of turns. What Data holds depends on Type:
//
//	text, reasoning   string
//	tool_use          *ToolUseBlock
//	tool_result       *ToolResultBlock
//	loop_detected     *LoopDetectionInfo
//	budget_exceeded   *BudgetExceededInfo
//	done              *TaskResult
//	error             *TaskFailure
//
// Of a type that this version does not know it holds the raw JSON.
type TurnEvent struct {
	Type TurnEventType `json:"type"`
	Data any           `json:"data"`
	// ErrorInfo classifies an error; it is set on those alone.
	ErrorInfo *TurnErrorInfo `json:"errorInfo,omitzero"`
}

// ToolUseBlock is a call that the model wants made.
type ToolUseBlock struct {
	// Type is always "tool_use".
	Type string `json:"type"`
	// ID is the call's tool_call_id.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Input is the object that the model wrote, or a string of what it wrote if that is no
	// object.
	Input jsontext.Value `json:"input"`
}

// NewToolUseBlock is the block of a call.
func NewToolUseBlock(c *ToolCall) *ToolUseBlock {
	return &ToolUseBlock{Type: string(TurnToolUse), ID: c.ToolCallID, Name: c.Name, Input: inputOf(c.Arguments)}
}

// inputOf is what the model wrote as its arguments, as JSON whatever it is.
func inputOf(arguments string) jsontext.Value {
	if v, err := CompactRaw([]byte(arguments)); err == nil && v.Kind() == jsontext.KindBeginObject {
		return v
	}
	text, err := EncodeJSON(arguments)
	if err != nil {
		panic(fmt.Sprintf("encode a string: %v", err)) // a string always encodes
	}
	return text
}

// ToolResultBlock is what came of a call.
type ToolResultBlock struct {
	// Type is always "tool_result".
	Type string `json:"type"`
	// ToolUseID is the ID of the call's [ToolUseBlock].
	ToolUseID string `json:"tool_use_id"`
	Content   string `json:"content"`
	// Images are data URLs.
	Images []string `json:"images,omitzero"`
	// IsError is set unless the call completed.
	IsError bool `json:"is_error"`
}

func newToolResultBlock(o *ToolCallOutput) *ToolResultBlock {
	return &ToolResultBlock{
		Type: string(TurnToolResult), ToolUseID: o.ToolCallID, Content: o.Output, Images: o.Images, IsError: failed(o),
	}
}

// failed reports whether a call did not complete.
func failed(o *ToolCallOutput) bool { return o.StopReason != "" && o.StopReason != StopCompleted }

// LoopDetectionInfo says how the model repeats itself.
type LoopDetectionInfo struct {
	Kind        string `json:"kind"`
	Repetitions int    `json:"repetitions"`
	Detail      string `json:"detail"`
}

// BudgetExceededInfo says by how much. Unit is "tokens" or a currency, Message a sentence.
type BudgetExceededInfo struct {
	Message string  `json:"message"`
	Used    float64 `json:"used"`
	Limit   float64 `json:"limit"`
	Unit    string  `json:"unit"`
}

// TaskResult is all that came of a task.
type TaskResult struct {
	// TaskID is the id of the command that started it.
	TaskID string `json:"taskId,omitzero"`
	// Success is set if the task completed; one that was aborted or ran out of turns did not.
	Success bool `json:"success"`
	// Output is the text of the last turn; it may be empty.
	Output string `json:"output"`
	// Messages are what the task's turns added to the context, in context order: what the model
	// said and called, reasoning included, and then the outputs in the order of their calls.
	// Prompts are not among them.
	Messages []Message `json:"messages"`
	// ToolCalls are the calls that got an output, in call order.
	ToolCalls  []TaskToolCall `json:"toolCalls"`
	TokenUsage TaskUsage      `json:"tokenUsage"`
	// Turns counts the committed requests.
	Turns int `json:"turns"`

	// Aborted: a person ended the task.
	Aborted bool `json:"aborted"`
	// MaxTurns: the task had no turns left.
	MaxTurns bool `json:"maxTurns"`
	// BudgetExceeded: the session used more than it may, so no further turn was begun.
	BudgetExceeded bool `json:"budgetExceeded"`
	// LoopDetected: the model repeated itself, at least once.
	LoopDetected bool `json:"loopDetected"`

	// Incomplete is set if a part of the task was not seen: messages, calls, tokens and turns
	// are those of the rest.
	Incomplete bool `json:"incomplete,omitzero"`
}

// TaskToolCall is a call of a task and what came of it.
type TaskToolCall struct {
	ID       string         `json:"id"`
	ToolName string         `json:"toolName"`
	Input    jsontext.Value `json:"input"`
	Output   string         `json:"output"`
	IsError  bool           `json:"is_error"`
}

// TaskUsage counts the tokens of a task: of every request since the task before it ended, failed
// attempts and compactions included.
type TaskUsage struct {
	// InputTokens is everything but the output, what came from a cache included.
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	// CacheReadTokens and CacheWriteTokens are parts of InputTokens.
	CacheReadTokens  int64 `json:"cache_read_tokens"`
	CacheWriteTokens int64 `json:"cache_write_tokens"`
	// CostUSD is what all of them cost; 0 if no price was known.
	CostUSD USD `json:"cost_usd,omitzero"`
}

// NewTaskUsage is the usage that the counts mean.
func NewTaskUsage(c TokenCounts) TaskUsage {
	return TaskUsage{
		InputTokens: max(0, c.Total-c.Output), OutputTokens: c.Output,
		CacheReadTokens: c.CacheRead, CacheWriteTokens: c.CacheWrite, CostUSD: c.CostUSD,
	}
}

// Add returns the sum of both.
func (u TaskUsage) Add(w TaskUsage) TaskUsage {
	return TaskUsage{
		InputTokens: u.InputTokens + w.InputTokens, OutputTokens: u.OutputTokens + w.OutputTokens,
		CacheReadTokens:  u.CacheReadTokens + w.CacheReadTokens,
		CacheWriteTokens: u.CacheWriteTokens + w.CacheWriteTokens, CostUSD: u.CostUSD + w.CostUSD,
	}
}

// TaskFailure says what went wrong, for people.
type TaskFailure struct {
	// TaskID is the id of the command that started the task.
	TaskID  string `json:"taskId,omitzero"`
	Message string `json:"message"`
}

// TurnErrorInfo classifies a failure: an [ErrorInfo] under the names that events use.
type TurnErrorInfo struct {
	// Kind is that of [ErrorInfo].
	Kind       string `json:"kind"`
	Provider   string `json:"provider,omitzero"`
	Retryable  bool   `json:"retryable"`
	StatusCode int    `json:"statusCode,omitzero"`
	Message    string `json:"message"`
}

// UnmarshalJSON reads an event, with the data that its type says.
func (e *TurnEvent) UnmarshalJSON(b []byte) error {
	var raw struct {
		Type      TurnEventType  `json:"type"`
		Data      jsontext.Value `json:"data"`
		ErrorInfo *TurnErrorInfo `json:"errorInfo"`
	}
	if err := DecodeJSON(b, &raw); err != nil {
		return err
	}
	data, err := decodeTurnData(raw.Type, raw.Data)
	if err != nil {
		return fmt.Errorf("data of %s: %w", raw.Type, err)
	}
	*e = TurnEvent{Type: raw.Type, Data: data, ErrorInfo: raw.ErrorInfo}
	return nil
}

func decodeTurnData(t TurnEventType, raw jsontext.Value) (any, error) {
	switch t {
	case TurnText, TurnReasoning:
		var s string
		err := DecodeJSON(raw, &s)
		return s, err
	case TurnToolUse:
		return decodeAs[ToolUseBlock](raw)
	case TurnToolResult:
		return decodeAs[ToolResultBlock](raw)
	case TurnLoopDetected:
		return decodeAs[LoopDetectionInfo](raw)
	case TurnBudgetExceeded:
		return decodeAs[BudgetExceededInfo](raw)
	case TurnDone:
		return decodeAs[TaskResult](raw)
	case TurnError:
		return decodeAs[TaskFailure](raw)
	}
	return raw, nil
}

func decodeAs[T any](raw jsontext.Value) (any, error) {
	v := new(T)
	err := DecodeJSON(raw, v)
	return v, err
}
