package schemas

// CommandType says what a command asks for.
type CommandType string

// The commands. Create, import and task start work and wait while engines are full; the others control
// work that exists and never wait behind it.
const (
	CommandCreate CommandType = "create"
	// CommandImport creates a session from a trace.
	CommandImport  CommandType = "import"
	CommandTask    CommandType = "task"
	CommandWake    CommandType = "wake"
	CommandApprove CommandType = "approve"
	CommandAbort   CommandType = "abort"
	CommandSet     CommandType = "set"
	// CommandRetryNow cuts the announced wait before the next attempt short. It has no body.
	CommandRetryNow CommandType = "retry_now"
	// CommandSteer adds a prompt to the running task, before its next request. Its body is that of
	// a task, whose when_busy does not count.
	CommandSteer CommandType = "steer"
	// CommandWithdraw takes a task that waits for its turn back.
	CommandWithdraw CommandType = "withdraw"
	// CommandDelete deletes the session, for good.
	CommandDelete CommandType = "delete"
	// CommandDeadline is sent by the broker's clock: nobody has decided on a tool call in time.
	CommandDeadline CommandType = "deadline"
)

// Control reports whether the command controls work that exists.
func (t CommandType) Control() bool {
	switch t {
	case CommandApprove, CommandAbort, CommandSet, CommandRetryNow, CommandDeadline, CommandSteer, CommandWithdraw, CommandDelete:
		return true
	}
	return false
}

// Creates reports whether the command makes a session.
func (t CommandType) Creates() bool { return t == CommandCreate || t == CommandImport }

// Command is one request to a session. The body that belongs to its type is set; others are
// ignored.
// Its ID is the caller's idempotency key: the same id is applied once.
type Command struct {
	ID      string      `json:"id"`
	Type    CommandType `json:"type"`
	Session SessionRef  `json:"session"`

	Create   *CreateBody   `json:"create,omitzero"`
	Import   *ImportBody   `json:"import,omitzero"`
	Task     *TaskBody     `json:"task,omitzero"`
	Approve  *ApproveBody  `json:"approve,omitzero"`
	Abort    *AbortBody    `json:"abort,omitzero"`
	Set      *SetBody      `json:"set,omitzero"`
	Deadline *DeadlineBody `json:"deadline,omitzero"`
	Withdraw *WithdrawBody `json:"withdraw,omitzero"`
	Delete   *DeleteBody   `json:"delete,omitzero"`

	// Caller is where a task, or what steers one, was asked for. It travels beside the command and is no
	// part of what its ID stands for: whoever asks again does so from another place.
	Caller TraceContext `json:"-"`
}

// CreateBody creates a session.
type CreateBody struct {
	// Model is "provider/model"; empty: the agent's.
	Model string `json:"model,omitzero"`
	// FallbackModels are who goes on, in this order, with a task that the model can't: each is
	// "provider/model". At most [MaxFallbackModels], none twice.
	FallbackModels []string `json:"fallback_models,omitzero"`
	// Agent names the definition that says what the other members leave open, see [CreateBody.With].
	Agent        string `json:"agent,omitzero"`
	SystemPrompt string `json:"system_prompt,omitzero"`
	// Tools are the tools the session may use, see [ToolAllowed].
	Tools        []string     `json:"tools,omitzero"`
	ApprovalMode ApprovalMode `json:"approval_mode,omitzero"`
	Workspace    string       `json:"workspace,omitzero"`
	Limits       Limits       `json:"limits,omitzero"`
	// ApprovalTimeoutMS is how long a tool call waits for a decision before it counts as denied, in
	// milliseconds; 0 means without end.
	ApprovalTimeoutMS int64 `json:"approval_timeout_ms,omitzero"`
}

// TaskBody starts a task: with a prompt of words alone, or with an input, whose last turn is the
// prompt and may hold pictures. The turns before it are a conversation that happened elsewhere; they
// need a session that has none of its own yet.
type TaskBody struct {
	Prompt string      `json:"prompt,omitzero"`
	Input  []InputTurn `json:"input,omitzero"`
	// WhenBusy says what becomes of it while another task runs; empty means reject.
	WhenBusy WhenBusy `json:"when_busy,omitzero"`
}

// WhenBusy says what becomes of a task that is asked for while another one runs.
type WhenBusy string

// The ways of a busy session.
const (
	// BusyReject refuses it.
	BusyReject WhenBusy = "reject"
	// BusyQueue has it wait until the tasks before it have ended.
	BusyQueue WhenBusy = "queue"
	// BusySteer adds its prompt to the running task, as [CommandSteer] does. If that ends without
	// another request, it waits for its turn like any other.
	BusySteer WhenBusy = "steer"
)

// ParseWhenBusy returns the value of that name. The error is an *[Error].
func ParseWhenBusy(s string) (WhenBusy, error) {
	switch w := WhenBusy(s); w {
	case BusyReject, BusyQueue, BusySteer:
		return w, nil
	}
	return "", &Error{Code: CodeInvalid, Field: "when_busy", Message: "when_busy must be reject, queue or steer"}
}

// MaxQueue bounds how many tasks of a session wait at a time.
const MaxQueue = 20

// ApproveBody decides on a tool call.
type ApproveBody struct {
	ToolCallID string `json:"tool_call_id"`
	// Decision is allow or deny.
	Decision Decision `json:"decision"`
	// Hash, when given, must be the hash of the call that was asked about.
	Hash string `json:"hash,omitzero"`
}

// AbortBody ends the running task.
type AbortBody struct {
	Reason string `json:"reason,omitzero"`
	// DropQueue takes back every task that waits as well. Without it the next one begins.
	DropQueue bool `json:"drop_queue,omitzero"`
}

// DeleteBody deletes the session; it may be left out.
type DeleteBody struct {
	// Force aborts the running task first. Without it a session that runs one is not deleted.
	Force bool `json:"force,omitzero"`
}

// WithdrawBody names a task that waits for its turn, or to be added to the running one.
type WithdrawBody struct {
	// TaskID is the id of the command that asked for it.
	TaskID string `json:"task_id"`
}

// SetBody changes settings of the session, at rest or while a task runs. A member that is absent
// leaves its setting as it is; at least one must be there.
type SetBody struct {
	// ApprovalMode is who decides on tool calls from now on, those that wait for a person included.
	ApprovalMode ApprovalMode `json:"approval_mode,omitzero"`
}

// DeadlineBody names the tool call that nobody has decided on. It is denied if it still waits and the
// deadline of its approval_request has passed when the broker stores the command.
type DeadlineBody struct {
	ToolCallID string `json:"tool_call_id"`
}

// MaxApprovalTimeout bounds how long a tool call may wait for a decision, unless it waits without
// end: 90 days, in milliseconds.
const MaxApprovalTimeout = 90 * 24 * 60 * 60 * 1000

// Limits of commands, in bytes.
const (
	// MaxPrompt bounds each text of a task's input.
	MaxPrompt = 512 << 10
	// MaxSystemPrompt bounds a system prompt.
	MaxSystemPrompt = 256 << 10
	// MaxReason bounds the reason of an abort.
	MaxReason = 4 << 10
)

// Validate checks the command's shape, before anything is stored. The error is an *[Error]
// naming the field.
func (c *Command) Validate() error {
	if err := ValidateName("id", c.ID); err != nil {
		return err
	}
	if err := c.Session.Validate(); err != nil {
		return err
	}
	missing := func(field string) error {
		return &Error{Code: CodeInvalid, Field: field, Message: "a command of type " + string(c.Type) + " needs " + field}
	}
	switch c.Type {
	case CommandCreate:
		if c.Create == nil {
			return missing("create")
		}
		return c.Create.validate()
	case CommandImport:
		if c.Import == nil {
			return missing("import")
		}
		return c.Import.validate()
	case CommandTask, CommandSteer:
		if c.Task == nil {
			return missing("task")
		}
		return c.Task.validate()
	case CommandApprove:
		if c.Approve == nil {
			return missing("approve")
		}
		return c.Approve.validate()
	case CommandAbort:
		if c.Abort != nil {
			return limit("reason", c.Abort.Reason, MaxReason)
		}
		return nil
	case CommandSet:
		if c.Set == nil {
			return missing("set")
		}
		return c.Set.validate()
	case CommandDeadline:
		if c.Deadline == nil {
			return missing("deadline")
		}
		return ValidateName("tool_call_id", c.Deadline.ToolCallID)
	case CommandWithdraw:
		if c.Withdraw == nil {
			return missing("withdraw")
		}
		return ValidateName("task_id", c.Withdraw.TaskID)
	case CommandWake, CommandRetryNow, CommandDelete:
		return nil
	}
	return &Error{Code: CodeInvalid, Field: "type", Message: "unknown command type " + string(c.Type)}
}

func (b *CreateBody) validate() error {
	if b.Model != "" || b.Agent == "" {
		if _, _, err := SplitModel(b.Model); err != nil {
			return err
		}
	}
	if err := validateFallbacks(b.Model, b.FallbackModels); err != nil {
		return err
	}
	if err := validateTools(b.Tools); err != nil {
		return err
	}
	if b.Agent != "" {
		if err := ValidateName("agent", b.Agent); err != nil {
			return err
		}
	}
	if b.ApprovalMode != "" {
		if _, err := ParseApprovalMode(string(b.ApprovalMode)); err != nil {
			return err
		}
	}
	if b.ApprovalTimeoutMS < 0 || b.ApprovalTimeoutMS > MaxApprovalTimeout {
		e := Errorf(CodeInvalid, "approval_timeout_ms must be from 0 to %d", int64(MaxApprovalTimeout))
		e.Field = "approval_timeout_ms"
		return e
	}
	if err := b.Limits.validate(); err != nil {
		return err
	}
	if err := limit("workspace", b.Workspace, MaxReason); err != nil {
		return err
	}
	if err := checkClean("workspace", b.Workspace); err != nil {
		return err
	}
	if err := limit("system_prompt", b.SystemPrompt, MaxSystemPrompt); err != nil {
		return err
	}
	return checkClean("system_prompt", b.SystemPrompt)
}

func (b *ApproveBody) validate() error {
	if err := ValidateName("tool_call_id", b.ToolCallID); err != nil {
		return err
	}
	if b.Decision != DecisionAllow && b.Decision != DecisionDeny {
		return &Error{Code: CodeInvalid, Field: "decision", Message: "decision must be allow or deny"}
	}
	return limit("hash", b.Hash, MaxNameLength)
}

func (b *SetBody) validate() error {
	if b.ApprovalMode == "" {
		return &Error{Code: CodeInvalid, Field: "approval_mode", Message: "there is nothing to set: give approval_mode"}
	}
	_, err := ParseApprovalMode(string(b.ApprovalMode))
	return err
}

func limit(field, s string, maxBytes int) error {
	if len(s) <= maxBytes {
		return nil
	}
	e := Errorf(CodeTooLarge, "%s has %d bytes, the limit is %d", field, len(s), maxBytes)
	e.Field = field
	return e
}

// Taken says what became of a prompt.
type Taken string

// What becomes of prompts.
const (
	// TakenStarted: its task began.
	TakenStarted Taken = "started"
	// TakenQueued: its task waits for its turn.
	TakenQueued Taken = "queued"
	// TakenSteering: it is added to the running task, before that one's next request.
	TakenSteering Taken = "steering"
)

// Outcome is the answer to a command.
type Outcome struct {
	CommandID string `json:"command_id"`
	Sequence  uint64 `json:"sequence"`
	Code      Code   `json:"code"`
	Message   string `json:"message,omitzero"`
	// Field is the path of what was wrong in the command, if it is one member's fault.
	Field string `json:"field,omitzero"`
	// Taken says what became of the prompt of an applied task or steer; empty for other commands.
	Taken Taken `json:"taken,omitzero"`
	// Log is the broker sequence of the frame that records the outcome; 0 if none does.
	Log uint64 `json:"log,omitzero"`
}

// Cursor is where watching shows all that the command brings about, given the stream's epoch; the
// zero cursor if no frame records the outcome. That frame begins with the outcome, which is no part
// of what watchers see.
func (o Outcome) Cursor(epoch string) Cursor {
	if o.Log == 0 {
		return Cursor{}
	}
	return Cursor{Epoch: epoch, Position: Position{Sequence: o.Log}}
}

// Err is nil for an applied command, else the outcome as an *[Error].
func (o Outcome) Err() error {
	if o.Code == CodeApplied {
		return nil
	}
	message := o.Message
	if message == "" {
		message = "the command was refused: " + string(o.Code)
	}
	return &Error{Code: o.Code, Message: message, Field: o.Field, RetryAfterMS: o.Code.RetryAfter().Milliseconds()}
}
