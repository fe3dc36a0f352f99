package schemas

// What follows ties each payload type to its kind and its class, in one table each.

// Kind names the payload on the wire.
func (*SessionMeta) Kind() Kind { return KindSessionMeta }

// Kind names the payload on the wire.
func (*Text) Kind() Kind { return KindText }

// Kind names the payload on the wire.
func (*Thinking) Kind() Kind { return KindThinking }

// Kind names the payload on the wire.
func (*InlineThinking) Kind() Kind { return KindInlineThinking }

// Kind names the payload on the wire.
func (*ToolCall) Kind() Kind { return KindToolCall }

// Kind names the payload on the wire.
func (*ToolCallOutput) Kind() Kind { return KindToolCallOutput }

// Kind names the payload on the wire.
func (*ImageURL) Kind() Kind { return KindImageURL }

// Kind names the payload on the wire.
func (*InlineData) Kind() Kind { return KindInlineData }

// Kind names the payload on the wire.
func (*PartialText) Kind() Kind { return KindPartialText }

// Kind names the payload on the wire.
func (*PartialThinking) Kind() Kind { return KindPartialThinking }

// Kind names the payload on the wire.
func (*PartialToolCall) Kind() Kind { return KindPartialToolCall }

// Kind names the payload on the wire.
func (*PartialToolCallOutput) Kind() Kind { return KindPartialToolCallOutput }

// Kind names the payload on the wire.
func (*ToolListReady) Kind() Kind { return KindToolListReady }

// Kind names the payload on the wire.
func (*MCPConnectBegin) Kind() Kind { return KindMCPConnectBegin }

// Kind names the payload on the wire.
func (*MCPConnectEnd) Kind() Kind { return KindMCPConnectEnd }

// Kind names the payload on the wire.
func (*RequestBegin) Kind() Kind { return KindRequestBegin }

// Kind names the payload on the wire.
func (*RequestEnd) Kind() Kind { return KindRequestEnd }

// Kind names the payload on the wire.
func (*ApprovalRequest) Kind() Kind { return KindApprovalRequest }

// Kind names the payload on the wire.
func (*ApprovalDecision) Kind() Kind { return KindApprovalDecision }

// Kind names the payload on the wire.
func (*TokenUsage) Kind() Kind { return KindTokenUsage }

// Kind names the payload on the wire.
func (*CompactionBegin) Kind() Kind { return KindCompactionBegin }

// Kind names the payload on the wire.
func (*CompactionEnd) Kind() Kind { return KindCompactionEnd }

// Kind names the payload on the wire.
func (*Abort) Kind() Kind { return KindAbort }

// Kind names the payload on the wire.
func (*Subagent) Kind() Kind { return KindSubagent }

// Kind names the payload on the wire.
func (*LoopDetected) Kind() Kind { return KindLoopDetected }

// Kind names the payload on the wire.
func (*BudgetExceeded) Kind() Kind { return KindBudgetExceeded }

// Kind names the payload on the wire.
func (*WorkspaceBound) Kind() Kind { return KindWorkspaceBound }

// Kind names the payload on the wire.
func (*OwnerChanged) Kind() Kind { return KindOwnerChanged }

// Kind names the payload on the wire.
func (*SessionChanged) Kind() Kind { return KindSessionChanged }

// Kind names the payload on the wire.
func (*SessionImported) Kind() Kind { return KindSessionImported }

// Kind names the payload on the wire.
func (*CommandOutcome) Kind() Kind { return KindCommandOutcome }

// Kind names the payload on the wire.
func (*Checkpoint) Kind() Kind { return KindCheckpoint }

// Kind names the payload on the wire.
func (*TaskQueued) Kind() Kind { return KindTaskQueued }

// Kind names the payload on the wire.
func (*TaskDequeued) Kind() Kind { return KindTaskDequeued }

// Kind names the payload on the wire.
func (*SessionDeleted) Kind() Kind { return KindSessionDeleted }

// Kind names the payload on the wire.
func (*TaskEnd) Kind() Kind { return KindTaskEnd }

// Kind is the type the payload came with.
func (u *Unknown) Kind() Kind { return u.Of }

// newPayload returns an empty payload of the kind, nil if the kind is unknown.
func newPayload(k Kind) Payload {
	switch k {
	case KindSessionMeta:
		return new(SessionMeta)
	case KindText:
		return new(Text)
	case KindThinking:
		return new(Thinking)
	case KindInlineThinking:
		return new(InlineThinking)
	case KindToolCall:
		return new(ToolCall)
	case KindToolCallOutput:
		return new(ToolCallOutput)
	case KindImageURL:
		return new(ImageURL)
	case KindInlineData:
		return new(InlineData)
	case KindPartialText:
		return new(PartialText)
	case KindPartialThinking:
		return new(PartialThinking)
	case KindPartialToolCall:
		return new(PartialToolCall)
	case KindPartialToolCallOutput:
		return new(PartialToolCallOutput)
	case KindToolListReady:
		return new(ToolListReady)
	case KindMCPConnectBegin:
		return new(MCPConnectBegin)
	case KindMCPConnectEnd:
		return new(MCPConnectEnd)
	case KindRequestBegin:
		return new(RequestBegin)
	case KindRequestEnd:
		return new(RequestEnd)
	case KindApprovalRequest:
		return new(ApprovalRequest)
	case KindApprovalDecision:
		return new(ApprovalDecision)
	case KindTokenUsage:
		return new(TokenUsage)
	case KindCompactionBegin:
		return new(CompactionBegin)
	case KindCompactionEnd:
		return new(CompactionEnd)
	case KindAbort:
		return new(Abort)
	case KindSubagent:
		return new(Subagent)
	case KindLoopDetected:
		return new(LoopDetected)
	case KindBudgetExceeded:
		return new(BudgetExceeded)
	case KindWorkspaceBound:
		return new(WorkspaceBound)
	case KindOwnerChanged:
		return new(OwnerChanged)
	case KindSessionChanged:
		return new(SessionChanged)
	case KindSessionImported:
		return new(SessionImported)
	case KindCommandOutcome:
		return new(CommandOutcome)
	case KindCheckpoint:
		return new(Checkpoint)
	case KindTaskQueued:
		return new(TaskQueued)
	case KindTaskDequeued:
		return new(TaskDequeued)
	case KindSessionDeleted:
		return new(SessionDeleted)
	case KindTaskEnd:
		return new(TaskEnd)
	}
	return nil
}

// typeOf is the class of messages that a payload belongs to.
func typeOf(p Payload) Type {
	switch p.(type) {
	case *SessionMeta:
		return TypeSessionMeta
	case *Text, *Thinking, *InlineThinking, *ToolCall, *ToolCallOutput, *ImageURL, *InlineData,
		*PartialText, *PartialThinking, *PartialToolCall, *PartialToolCallOutput:
		return TypeModel
	}
	return TypeEvent
}
