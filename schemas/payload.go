package schemas

import "github.com/go-json-experiment/json/jsontext"

// Kind is the kind of a payload, its "type" member. A session_meta payload has none on the
// wire; its kind here is [KindSessionMeta].
type Kind string

// The kinds of payloads.
const (
	KindSessionMeta Kind = "session_meta"

	KindText           Kind = "text"
	KindThinking       Kind = "thinking"
	KindInlineThinking Kind = "inline_thinking"
	KindToolCall       Kind = "tool_call"
	KindToolCallOutput Kind = "tool_call_output"
	KindImageURL       Kind = "image_url"
	KindInlineData     Kind = "inline_data"

	KindPartialText           Kind = "partial_text"
	KindPartialThinking       Kind = "partial_thinking"
	KindPartialToolCall       Kind = "partial_tool_call"
	KindPartialToolCallOutput Kind = "partial_tool_call_output"

	KindToolListReady    Kind = "tool_list_ready"
	KindMCPConnectBegin  Kind = "mcp_connect_begin"
	KindMCPConnectEnd    Kind = "mcp_connect_end"
	KindRequestBegin     Kind = "request_begin"
	KindRequestEnd       Kind = "request_end"
	KindApprovalRequest  Kind = "approval_request"
	KindApprovalDecision Kind = "approval_decision"
	KindTokenUsage       Kind = "token_usage"
	KindCompactionBegin  Kind = "compaction_begin"
	KindCompactionEnd    Kind = "compaction_end"
	KindAbort            Kind = "abort"
	KindSubagent         Kind = "subagent"
	KindLoopDetected     Kind = "loop_detected"
	KindBudgetExceeded   Kind = "budget_exceeded"
	KindOwnerChanged     Kind = "owner_changed"
	KindWorkspaceBound   Kind = "workspace_bound"
	KindSessionChanged   Kind = "session_changed"
	KindSessionImported  Kind = "session_imported"
	KindCommandOutcome   Kind = "command_outcome"
	KindCheckpoint       Kind = "checkpoint"
	KindTaskQueued       Kind = "task_queued"
	KindTaskDequeued     Kind = "task_dequeued"
	KindTaskEnd          Kind = "task_end"
	KindSessionDeleted   Kind = "session_deleted"
)

// Payload is the content of a message. The types of this file and of usage.go,
// and *[Unknown], implement it.
type Payload interface {
	// Kind names the payload's type on the wire.
	Kind() Kind
}

// Role says whose words a model message holds.
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Sender says where a text of role user comes from; empty means a person.
type Sender string

// The senders.
const (
	SenderUser        Sender = "user"
	SenderParentAgent Sender = "parent_agent"
	SenderHarness     Sender = "harness"
	SenderServer      Sender = "server"
)

// StopReason says how a message, a request or a task ended.
type StopReason string

// The stop reasons. An empty one on a complete message means completed.
const (
	StopCompleted StopReason = "completed"
	StopFailed    StopReason = "failed"
	StopAborted   StopReason = "aborted"
	StopTimeout   StopReason = "timeout"
	StopMalformed StopReason = "malformed"
	StopAuth      StopReason = "auth"
)

// StopReasons are all that there are.
func StopReasons() []StopReason {
	return []StopReason{StopCompleted, StopFailed, StopAborted, StopTimeout, StopMalformed, StopAuth}
}

// Phase is the place of a fragment in its segment.
type Phase string

// The phases: one start, any number of deltas, one stop.
const (
	PhaseStart Phase = "start"
	PhaseDelta Phase = "delta"
	PhaseStop  Phase = "stop"
)

// Every payload's Extra holds the members this version does not know, as one JSON object, so
// that decoding and encoding again loses nothing. Fidelity is opaque to Braid: what a provider
// adapter needs to send a message back (signatures, encrypted reasoning, the provider's own
// call id). It is one JSON object without insignificant white space, kept byte for byte.

// SessionMeta opens a model context: everything it runs on, fixed for its lifetime.
type SessionMeta struct {
	SessionID string `json:"session_id"`
	Provider  string `json:"provider"`
	ModelID   string `json:"model_id"`
	// FallbackModels are who goes on, in this order, with a task that the model can't: each is
	// "provider/model".
	FallbackModels []string `json:"fallback_models,omitzero"`
	// ModelContextWindow is a number of tokens, or a text such as "unknown".
	ModelContextWindow jsontext.Value `json:"model_context_window,omitzero"`
	SystemPrompt       string         `json:"system_prompt"`
	// AgentState is a path in imported traces; Braid writes none.
	AgentState string `json:"agent_state,omitzero"`
	Workspace  string `json:"workspace"`
	// Source is empty when a user created the session.
	Source string `json:"source,omitzero"`
	// Agent names the definition the session runs.
	Agent string `json:"agent,omitzero"`
	// Tools are the tools it may use, see [ToolAllowed].
	Tools []string `json:"tools,omitzero"`
	// ApprovalMode is who decides on tool calls when the session starts; see [SessionChanged].
	ApprovalMode ApprovalMode `json:"approval_mode,omitzero"`
	// Limits are what bounds its tasks, as they were given.
	Limits Limits `json:"limits,omitzero"`
	// ApprovalTimeoutMS is how long a call waits for a decision, in milliseconds; 0: without end.
	ApprovalTimeoutMS int64          `json:"approval_timeout_ms,omitzero"`
	Extra             jsontext.Value `json:",embed"`
}

// Text is what a person, the model or the harness said.
type Text struct {
	Role       Role           `json:"role"`
	Text       string         `json:"text"`
	Sender     Sender         `json:"sender,omitzero"`
	Fidelity   jsontext.Value `json:"fidelity,omitzero"`
	StopReason StopReason     `json:"stop_reason,omitzero"`
	Extra      jsontext.Value `json:",embed"`
}

// Thinking is the model's reasoning in words; the text may be empty when only Fidelity counts.
type Thinking struct {
	Role       Role           `json:"role"`
	Thinking   string         `json:"thinking"`
	Fidelity   jsontext.Value `json:"fidelity,omitzero"`
	StopReason StopReason     `json:"stop_reason,omitzero"`
	Extra      jsontext.Value `json:",embed"`
}

// InlineThinking is reasoning in a binary form: base64 Data of a MIMEType.
type InlineThinking struct {
	Role       Role           `json:"role"`
	Data       string         `json:"data"`
	MIMEType   string         `json:"mime_type"`
	Fidelity   jsontext.Value `json:"fidelity,omitzero"`
	StopReason StopReason     `json:"stop_reason,omitzero"`
	Extra      jsontext.Value `json:",embed"`
}

// ToolCall is what the model wants done.
type ToolCall struct {
	Role Role   `json:"role"`
	Name string `json:"name"`
	// Arguments is the JSON text the model wrote, untouched; it need not be valid.
	Arguments string `json:"arguments"`
	// ToolCallID is assigned by the engine: unique in the session, a valid name.
	ToolCallID string         `json:"tool_call_id"`
	Fidelity   jsontext.Value `json:"fidelity,omitzero"`
	StopReason StopReason     `json:"stop_reason,omitzero"`
	Extra      jsontext.Value `json:",embed"`
}

// ToolCallOutput is the one complete result of a tool call.
type ToolCallOutput struct {
	Role   Role   `json:"role"`
	Output string `json:"output"`
	// Images are data URLs.
	Images     []string       `json:"images,omitzero"`
	ToolCallID string         `json:"tool_call_id"`
	Fidelity   jsontext.Value `json:"fidelity,omitzero"`
	StopReason StopReason     `json:"stop_reason,omitzero"`
	Extra      jsontext.Value `json:",embed"`
}

// ImageURL is a picture: a network URL or a data URL.
type ImageURL struct {
	Role       Role           `json:"role"`
	ImageURL   string         `json:"image_url"`
	Fidelity   jsontext.Value `json:"fidelity,omitzero"`
	StopReason StopReason     `json:"stop_reason,omitzero"`
	Extra      jsontext.Value `json:",embed"`
}

// InlineData is any other binary content: base64 Data of a MIMEType.
type InlineData struct {
	Role       Role           `json:"role"`
	Data       string         `json:"data"`
	MIMEType   string         `json:"mime_type"`
	Fidelity   jsontext.Value `json:"fidelity,omitzero"`
	StopReason StopReason     `json:"stop_reason,omitzero"`
	Extra      jsontext.Value `json:",embed"`
}

// PartialText is a fragment of a Text.
type PartialText struct {
	Role       Role           `json:"role"`
	EventType  Phase          `json:"event_type"`
	Text       string         `json:"text"`
	StopReason StopReason     `json:"stop_reason,omitzero"`
	Extra      jsontext.Value `json:",embed"`
}

// PartialThinking is a fragment of a Thinking.
type PartialThinking struct {
	Role       Role           `json:"role"`
	EventType  Phase          `json:"event_type"`
	Thinking   string         `json:"thinking"`
	StopReason StopReason     `json:"stop_reason,omitzero"`
	Extra      jsontext.Value `json:",embed"`
}

// PartialToolCall is a fragment of a ToolCall: start names the tool, deltas carry arguments.
type PartialToolCall struct {
	Role       Role           `json:"role"`
	EventType  Phase          `json:"event_type"`
	Name       string         `json:"name"`
	Arguments  string         `json:"arguments"`
	ToolCallID string         `json:"tool_call_id"`
	StopReason StopReason     `json:"stop_reason,omitzero"`
	Extra      jsontext.Value `json:",embed"`
}

// PartialToolCallOutput is a fragment of a ToolCallOutput.
type PartialToolCallOutput struct {
	Role      Role   `json:"role"`
	EventType Phase  `json:"event_type"`
	Output    string `json:"output"`
	// Images come whole, in one delta.
	Images     []string `json:"images,omitzero"`
	ToolCallID string   `json:"tool_call_id"`
	// Attempt is the attempt of the call the fragment comes from, from 1.
	Attempt int `json:"attempt,omitzero"`
	// Offset counts the bytes of that attempt's text merged into the stream once this fragment
	// is taken. A new owner of the session goes on from there.
	Offset     int64          `json:"offset,omitzero"`
	StopReason StopReason     `json:"stop_reason,omitzero"`
	Extra      jsontext.Value `json:",embed"`
}

// ToolListReady holds the tools of a session, snapshotted at its first run.
type ToolListReady struct {
	Tools []ToolDefinition `json:"tools"`
	Extra jsontext.Value   `json:",embed"`
}

// MCPConnectBegin: MCP servers are being connected.
type MCPConnectBegin struct {
	Servers []string       `json:"servers"`
	Extra   jsontext.Value `json:",embed"`
}

// MCPConnectEnd: they are connected, or not.
type MCPConnectEnd struct {
	Status  StopReason         `json:"status"`
	Results []MCPConnectResult `json:"results"`
	Extra   jsontext.Value     `json:",embed"`
}

// MCPConnectResult is how connecting to one MCP server went.
type MCPConnectResult struct {
	Server     string         `json:"server"`
	Transport  string         `json:"transport"`
	Status     StopReason     `json:"status"`
	DurationMS int64          `json:"duration_ms"`
	Tools      int            `json:"tools,omitzero"`
	Error      string         `json:"error,omitzero"`
	Extra      jsontext.Value `json:",embed"`
}

// RequestBegin: a model call starts.
type RequestBegin struct {
	// Attempt is the number of the request in its turn, from 1; absent on a first attempt.
	Attempt int `json:"attempt,omitzero"`
	// Model is the fallback model that is asked, "provider/model"; absent if it is the session's own.
	Model string         `json:"model,omitzero"`
	Extra jsontext.Value `json:",embed"`
}

// RequestEnd: a model call ended. Completed, and only completed, commits what it said.
type RequestEnd struct {
	Status       StopReason `json:"status"`
	ErrorMessage string     `json:"error_message,omitzero"`
	// Attempt is the number of the request in its turn, from 1; absent when the first succeeded.
	Attempt int `json:"attempt,omitzero"`
	// RetryInMS is the announced wait before the next attempt, in milliseconds.
	RetryInMS int64 `json:"retry_in_ms,omitzero"`
	// FallbackModel is who makes the next attempt, at once, because this model is given up for the
	// task; absent if the same model does, or nobody.
	FallbackModel string `json:"fallback_model,omitzero"`
	// ErrorInfo classifies what went wrong; absent if the request completed or was aborted.
	ErrorInfo *ErrorInfo     `json:"error_info,omitzero"`
	Extra     jsontext.Value `json:",embed"`
}

// ApprovalRequest: a tool call waits for a person.
type ApprovalRequest struct {
	ToolCallID string `json:"tool_call_id"`
	Name       string `json:"name"`
	Arguments  string `json:"arguments"`
	// Hash identifies what is asked, see [CallHash]: people approve what they saw.
	Hash string `json:"hash"`
	// Deadline is when the call counts as denied, RFC 3339; empty means never.
	Deadline string `json:"deadline,omitzero"`
	// Rule names the policy's rule for which a person is asked whatever the mode; empty if the mode asks.
	Rule  string         `json:"rule,omitzero"`
	Extra jsontext.Value `json:",embed"`
}

// Decision is the answer to "may this call run?".
type Decision string

// The decisions. Forbidden comes from the engine (a policy, a tool that does not exist);
// nobody was asked.
const (
	DecisionAllow     Decision = "allow"
	DecisionDeny      Decision = "deny"
	DecisionForbidden Decision = "forbidden"
)

// ApprovalDecision answers one tool call.
type ApprovalDecision struct {
	Decision   Decision `json:"decision"`
	ToolCallID string   `json:"tool_call_id"`
	// Rule names the policy's rule that forbids the call; empty if none does.
	Rule  string         `json:"rule,omitzero"`
	Extra jsontext.Value `json:",embed"`
}

// CompactionBegin: the context is being compacted.
type CompactionBegin struct {
	Reason  string         `json:"reason"`
	Mode    string         `json:"mode"`
	Context int64          `json:"context,omitzero"`
	Turns   int            `json:"turns,omitzero"`
	Extra   jsontext.Value `json:",embed"`
}

// CompactionEnd: it was, or not.
type CompactionEnd struct {
	Reason       string         `json:"reason"`
	Mode         string         `json:"mode"`
	Status       StopReason     `json:"status"`
	ErrorMessage string         `json:"error_message,omitzero"`
	Attempt      int            `json:"attempt,omitzero"`
	Extra        jsontext.Value `json:",embed"`
}

// Abort: somebody ended the task.
type Abort struct {
	Reason string         `json:"reason,omitzero"`
	Extra  jsontext.Value `json:",embed"`
}

// Subagent points from a parent's trace to a child session.
type Subagent struct {
	SessionID string         `json:"session_id"`
	Extra     jsontext.Value `json:",embed"`
}

// LoopDetected: the model repeats itself.
type LoopDetected struct {
	Repeated    string         `json:"kind"`
	Repetitions int            `json:"repetitions"`
	Detail      string         `json:"detail,omitzero"`
	Extra       jsontext.Value `json:",embed"`
}

// WorkspaceBound: the session's files are in one place from here on, and its tools that work on them
// run there and nowhere else.
type WorkspaceBound struct {
	// Toolrunner is where the first such call ran, Volume the shared volume it has; empty: its own disk.
	Toolrunner string         `json:"toolrunner"`
	Volume     string         `json:"volume,omitzero"`
	Extra      jsontext.Value `json:",embed"`
}

// Pool is where calls reach the place.
func (b *WorkspaceBound) Pool() string {
	if b.Volume != "" {
		return VolumePool(b.Volume)
	}
	return PrivatePool(b.Toolrunner)
}

// The causes of a change of owner.
const (
	// OwnerLost: the engine before is gone.
	OwnerLost = "lost"
	// OwnerLetGo: it has handed the session over.
	OwnerLetGo = "handover"
)

// OwnerChanged: another engine took the session over in mid-task.
type OwnerChanged struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Cause is [OwnerLost] or [OwnerLetGo].
	Cause string `json:"cause"`
	// Gap is set when fragments before had expired by then: the complete messages of what was being
	// streamed need not be all that was streamed.
	Gap   bool           `json:"gap,omitzero"`
	Extra jsontext.Value `json:",embed"`
}

// SessionChanged: a person changed settings of the session, which hold from here on. Absent members
// did not change.
type SessionChanged struct {
	ApprovalMode ApprovalMode   `json:"approval_mode,omitzero"`
	Extra        jsontext.Value `json:",embed"`
}

// SessionImported opens a session that was recorded elsewhere: the next messages are those of its
// trace, as they came. What stands behind them is the session's own.
type SessionImported struct {
	// Messages is how many they are, Visible how many of them watchers see.
	Messages int `json:"messages"`
	Visible  int `json:"visible"`
	// CommandID and Sequence are those of the import command. If it is refused after all, its
	// outcome, which is visible then, ends the trace early, and there is no session.
	CommandID string `json:"command_id"`
	Sequence  uint64 `json:"sequence"`
	// Settings are what the session runs on from there; those of the trace are what it had run on.
	Settings SessionMeta    `json:"settings"`
	Extra    jsontext.Value `json:",embed"`
}

// CommandOutcome is the one answer a command gets. It has scope trace, but for that of an import that comes
// to nothing after its [SessionImported]: watchers learn by it that nothing they saw of the trace counts.
type CommandOutcome struct {
	CommandID string `json:"command_id"`
	// Command is the command's type: an applied abort must be finished by whoever owns the
	// session next.
	Command CommandType `json:"command,omitzero"`
	// Sequence is the command's place in the command stream.
	Sequence uint64 `json:"sequence"`
	Code     Code   `json:"code"`
	// Message says why a command was refused; for an applied abort it is the abort's reason.
	Message string `json:"message,omitzero"`
	// Field is the path of what was wrong in the command, if it is one member's fault.
	Field string `json:"field,omitzero"`
	// Taken says what became of a prompt.
	Taken Taken `json:"taken,omitzero"`
	// Caller is where a prompt that was taken was sent from, see [Command].
	Caller TraceContext   `json:"caller,omitzero"`
	Extra  jsontext.Value `json:",embed"`
}

// Outcome is the answer that the message records, in the frame of that sequence.
func (p *CommandOutcome) Outcome(log uint64) Outcome {
	return Outcome{
		CommandID: p.CommandID, Sequence: p.Sequence, Code: p.Code, Message: p.Message, Field: p.Field, Taken: p.Taken, Log: log,
	}
}

// Checkpoint holds what an owner knows of everything open, so that taking the session over
// never depends on a fragment that has expired.
type Checkpoint struct {
	// Segment is the model's open segment, if any.
	Segment *OpenSegment `json:"segment,omitzero"`
	// Outputs are the open tool outputs.
	Outputs []OpenOutput   `json:"outputs,omitzero"`
	Extra   jsontext.Value `json:",embed"`
}

// OpenSegment is a streamed message so far. Of is the kind of its complete message.
type OpenSegment struct {
	Of         Kind   `json:"of"`
	Text       string `json:"text"`
	Name       string `json:"name,omitzero"`
	ToolCallID string `json:"tool_call_id,omitzero"`
}

// OpenOutput is a tool's output so far.
type OpenOutput struct {
	ToolCallID string `json:"tool_call_id"`
	Attempt    int    `json:"attempt"`
	// Offset counts the merged bytes of this attempt, Text is everything streamed.
	Offset int64  `json:"offset"`
	Text   string `json:"text"`
}

// ErrorInfo classifies why a request or a task failed.
type ErrorInfo struct {
	// Kind says whose fault it is, one of the constants that begin with Fault.
	Kind       string         `json:"kind"`
	Provider   string         `json:"provider,omitzero"`
	Retryable  bool           `json:"retryable"`
	StatusCode int            `json:"status_code,omitzero"`
	Message    string         `json:"message"`
	Extra      jsontext.Value `json:",embed"`
}

// The kinds of failures of a request or a task: whose fault it is.
const (
	// FaultProvider: the provider failed, refused, or answered with something unusable.
	FaultProvider = "provider"
	// FaultEngine: Braid failed, or stopped the request.
	FaultEngine = "engine"
	// FaultInput: the request itself can't be served; sending it again is of no use.
	FaultInput = "input"
	// FaultContext: the same, because it is more than the model's window holds.
	FaultContext = "context"
)

// The causes of a task's end; one that failed has the kind of its [ErrorInfo] instead.
const (
	// CauseDone: the last turn made no call.
	CauseDone = "done"
	// CauseUser: a person aborted the task.
	CauseUser = "user"
	// CauseMaxTurns: the task had no turns left.
	CauseMaxTurns = "max_turns"
	// CauseBudget: the session used more than it may.
	CauseBudget = "budget"
	// CauseLoop: the model repeated itself.
	CauseLoop = "loop"
	// CauseImport: the imported trace ends in the middle of the task.
	CauseImport = "import"
)

// SessionDeleted is the last message of a session: everything of it is about to be deleted. It is
// part of the record alone; who follows the session may see it before it is gone.
type SessionDeleted struct {
	// CommandID is the command that asked for it.
	CommandID string         `json:"command_id"`
	Extra     jsontext.Value `json:",embed"`
}

// TaskQueued says that a task waits: for its turn, or for the running one's next request. It
// stands behind its command's outcome, in the record alone.
type TaskQueued struct {
	// TaskID is the id of the command that asked for it.
	TaskID string `json:"task_id"`
	// Steers is set if its prompt is to be added to the running task. That counts until it ends.
	Steers bool           `json:"steers,omitzero"`
	Task   TaskBody       `json:"task"`
	Extra  jsontext.Value `json:",embed"`
}

// TaskDequeued says that a task waits no longer. Its prompt follows, unless it was withdrawn; so
// it also tells watchers, who see no prompts, which task begins.
type TaskDequeued struct {
	TaskID string         `json:"task_id"`
	Cause  DequeueCause   `json:"cause"`
	Extra  jsontext.Value `json:",embed"`
}

// DequeueCause says why a task waits no longer.
type DequeueCause string

// Why tasks wait no longer.
const (
	// DequeuedStarted: it begins, with its prompt.
	DequeuedStarted DequeueCause = "started"
	// DequeuedSteering: its prompt is added to the running task, whose next request follows.
	DequeuedSteering DequeueCause = "steering"
	// DequeuedWithdrawn: it was taken back.
	DequeuedWithdrawn DequeueCause = "withdrawn"
)

// TaskEnd closes a task; nothing of the task follows it.
type TaskEnd struct {
	// TaskID is the id of the command that started it.
	TaskID string     `json:"task_id,omitzero"`
	Status StopReason `json:"status"`
	// Cause says why in one word: one of the causes above, or the kind of the error.
	Cause     string         `json:"cause,omitzero"`
	ErrorInfo *ErrorInfo     `json:"error_info,omitzero"`
	Extra     jsontext.Value `json:",embed"`
}

// Unknown is a payload of a kind this version does not know, kept as it came.
type Unknown struct {
	// Of is the payload's type; empty if it has none.
	Of Kind
	// Raw is the whole payload.
	Raw jsontext.Value
}
