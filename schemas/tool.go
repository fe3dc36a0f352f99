package schemas

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Permission says what a tool may touch.
type Permission string

// The permissions.
const (
	// PermissionRead: the tool only reads.
	PermissionRead Permission = "r"
	// PermissionReadWrite: the tool may change something outside the session.
	PermissionReadWrite Permission = "rw"
)

// RetryPolicy says what happens to a call whose toolrunner was lost after it had started.
type RetryPolicy string

// The retry policies.
const (
	// RetryNever, the default: the call fails, its outcome unknown. Nothing runs twice.
	RetryNever RetryPolicy = "never"
	// RetrySafe: the call may run again, as a new attempt.
	RetrySafe RetryPolicy = "safe"
)

// ApprovalMode says who decides on tool calls.
type ApprovalMode string

// The approval modes.
const (
	// ApproveAll allows every call.
	ApproveAll ApprovalMode = "allow-all"
	// ApproveNone denies every call.
	ApproveNone ApprovalMode = "deny-all"
	// ApproveReadOnly allows tools of permission "r" and asks for all others.
	ApproveReadOnly ApprovalMode = "read-only"
	// ApproveAsk asks for every call.
	ApproveAsk ApprovalMode = "always-ask"
)

// approvalModes lists the modes in the order people meet them.
var approvalModes = []ApprovalMode{ApproveReadOnly, ApproveAsk, ApproveAll, ApproveNone}

// ParseApprovalMode returns the mode of that name, or an *[Error] that lists them.
func ParseApprovalMode(s string) (ApprovalMode, error) {
	for _, m := range approvalModes {
		if s == string(m) {
			return m, nil
		}
	}
	return "", &Error{Code: CodeInvalid, Field: "approval_mode", Message: "approval mode must be one of read-only, always-ask, allow-all, deny-all"}
}

// ToolDefinition describes a tool: to the model (name, description, parameters) and to the
// engine (the rest). Durations are in milliseconds, sizes in bytes; zero means the default.
type ToolDefinition struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Parameters is a JSON Schema of the arguments object.
	Parameters jsontext.Value `json:"parameters,omitzero"`

	Permission Permission `json:"permission,omitzero"`
	// Pool is the set of toolrunners that serve the tool.
	Pool  string      `json:"pool,omitzero"`
	Retry RetryPolicy `json:"retry,omitzero"`
	// TimeoutMS bounds one execution; the default is [DefaultToolTimeoutMS].
	TimeoutMS int64 `json:"timeout_ms,omitzero"`
	// QueueTimeoutMS bounds the wait for a toolrunner; the default is [DefaultQueueTimeoutMS].
	QueueTimeoutMS int64 `json:"queue_timeout_ms,omitzero"`
	// OutputCap bounds the output the model sees; the default is [DefaultOutputCap].
	OutputCap int64 `json:"output_cap,omitzero"`
	// Workspace says that the tool works on the session's files: it runs where they are.
	Workspace bool           `json:"workspace,omitzero"`
	Extra     jsontext.Value `json:",embed"`
}

// Defaults of tool definitions, in the units of their fields.
const (
	DefaultToolTimeoutMS  = 120_000
	DefaultQueueTimeoutMS = 30_000
	DefaultOutputCap      = 32 << 10
	DefaultPool           = "default"
)

// WithDefaults fills what the definition leaves open. A tool that says nothing about itself
// counts as one that may change things and must not run twice.
func (d ToolDefinition) WithDefaults() ToolDefinition {
	if d.Permission == "" {
		d.Permission = PermissionReadWrite
	}
	if d.Pool == "" {
		d.Pool = DefaultPool
	}
	if d.Retry == "" {
		d.Retry = RetryNever
	}
	if d.TimeoutMS <= 0 {
		d.TimeoutMS = DefaultToolTimeoutMS
	}
	if d.QueueTimeoutMS <= 0 {
		d.QueueTimeoutMS = DefaultQueueTimeoutMS
	}
	if d.OutputCap <= 0 {
		d.OutputCap = DefaultOutputCap
	}
	return d
}

// PrivatePool is the pool that addresses one toolrunner: calls queued there run on it alone.
func PrivatePool(instance string) string { return "r-" + instance }

// VolumePool is the pool of all toolrunners that have a shared volume.
func VolumePool(volume string) string { return "v-" + volume }

// ToolRequest is a call on its way to a toolrunner. It carries bounds as durations, never as
// instants, since clocks of two machines differ.
type ToolRequest struct {
	Session    SessionRef `json:"session"`
	ToolCallID string     `json:"tool_call_id"`
	Name       string     `json:"name"`
	Arguments  string     `json:"arguments"`
	// Queued is the sequence of the call's queued record: starting the call expects it.
	Queued uint64 `json:"queued"`
	// Attempt is 1, or higher when a safe call runs again.
	Attempt   int         `json:"attempt"`
	Retry     RetryPolicy `json:"retry"`
	Workspace string      `json:"workspace,omitzero"`
	TimeoutMS int64       `json:"timeout_ms"`
	OutputCap int64       `json:"output_cap"`
	// TraceContext is what the call belongs to in a trace; it travels beside the request.
	TraceContext `json:"-"`
}

// RecordState is what a call record says of its call.
type RecordState string

// The states, in the order they can follow one another: queued, started, then done; or
// withdrawn in place of queued or started. A safe call that was lost is queued again.
const (
	RecordQueued    RecordState = "queued"
	RecordStarted   RecordState = "started"
	RecordDone      RecordState = "done"
	RecordWithdrawn RecordState = "withdrawn"
)

// ToolRecord is one link in the chain of records that says what became of a call. Each link is
// written by compare-and-set on the one before it.
type ToolRecord struct {
	State   RecordState `json:"state"`
	Attempt int         `json:"attempt,omitzero"`
	// Toolrunner and Nonce say who started the call: a toolrunner whose own acknowledgement
	// was lost recognises itself by the nonce.
	Toolrunner string `json:"toolrunner,omitzero"`
	Nonce      string `json:"nonce,omitzero"`
	// Volume is the shared volume of the toolrunner that started the call; empty if it has none.
	Volume string `json:"volume,omitzero"`
	// Result is set when the call is done.
	Result *ToolResult `json:"result,omitzero"`
	// Sequence is the record's place in its stream, Stored when the broker stored it, by the
	// broker's clock; readers fill them in.
	Sequence uint64    `json:"-"`
	Stored   time.Time `json:"-"`
}

// ToolResult is the whole result of a call: the text the fragments add up to, terminal note
// and cap marker included.
type ToolResult struct {
	Output string `json:"output"`
	// Appends is set when Output follows what was streamed instead of repeating it: the owner
	// wrote the result because nobody else could.
	Appends    bool       `json:"appends,omitzero"`
	Images     []string   `json:"images,omitzero"`
	StopReason StopReason `json:"stop_reason"`
	// FullOutput names the blob with the untruncated text, when the cap cut it.
	FullOutput string `json:"full_output,omitzero"`
}

// ToolFragment is a piece of a running call's output on its way to the session's owner.
type ToolFragment struct {
	ToolCallID string `json:"tool_call_id"`
	Attempt    int    `json:"attempt"`
	// Offset is where Text begins, in bytes of the attempt's made-safe text.
	Offset int64  `json:"offset"`
	Text   string `json:"text"`
}
