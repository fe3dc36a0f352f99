package schematest

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"braid/schemas"
)

// args are the words of one message: those by place and those by name.
type args struct {
	words []string
	named map[string]string
	used  int
}

// next returns the next word, empty if there is none.
func (a *args) next() string {
	if a.used >= len(a.words) {
		return ""
	}
	a.used++
	return a.words[a.used-1]
}

// take returns and removes a named value.
func (a *args) take(name string) string {
	v := a.named[name]
	delete(a.named, name)
	return v
}

func (a *args) number(name string) int {
	n, _ := strconv.Atoi(a.take(name))
	return n
}

func (a *args) reason() schemas.StopReason { return schemas.StopReason(a.take("stop_reason")) }

// namedMembers are the members that lines may give by name.
const namedMembers = " stop_reason attempt error_message retry_in_ms fallback_model model cause code rule sender steers request session "

func newArgs(words []string) *args {
	a := &args{named: map[string]string{}}
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if ok && strings.Contains(namedMembers, " "+name+" ") {
			a.named[name] = value
			continue
		}
		a.words = append(a.words, w)
	}
	return a
}

// parsePayloads reads what follows position, origin and scope.
func parsePayloads(words []string) ([]schemas.Payload, error) {
	a := newArgs(words)
	kind := a.next()
	var payloads []schemas.Payload
	switch kind {
	case "event":
		payloads = []schemas.Payload{parseEvent(a)}
	case "streamed":
		payloads = Streamed(parseModel(a.next(), a))
	default:
		payloads = []schemas.Payload{parseModel(kind, a)}
	}
	switch {
	case len(payloads) == 0 || payloads[0] == nil:
		return nil, fmt.Errorf("unknown message")
	case a.used < len(a.words):
		return nil, fmt.Errorf("unexpected %q", a.words[a.used])
	case len(a.named) > 0:
		return nil, fmt.Errorf("unexpected names %v", a.named)
	}
	return payloads, nil
}

func parseModel(kind string, a *args) schemas.Payload {
	switch kind {
	case "session_meta":
		return &schemas.SessionMeta{SessionID: a.next()}
	case "user":
		return &schemas.Text{Role: schemas.RoleUser, Text: a.next(), Sender: schemas.Sender(a.take("sender"))}
	case "image":
		return schemas.UserImage(a.next())
	case "text":
		return &schemas.Text{Role: schemas.RoleAssistant, Text: a.next(), StopReason: a.reason()}
	case "thinking":
		return &schemas.Thinking{Role: schemas.RoleAssistant, Thinking: a.next(), StopReason: a.reason()}
	case "inline_thinking":
		return &schemas.InlineThinking{Role: schemas.RoleAssistant, Data: a.next(), StopReason: a.reason()}
	case "image_url":
		return &schemas.ImageURL{Role: schemas.RoleAssistant, ImageURL: a.next()}
	case "inline_data":
		return &schemas.InlineData{Role: schemas.RoleAssistant, Data: a.next()}
	case "tool_call":
		return &schemas.ToolCall{Role: schemas.RoleAssistant, ToolCallID: a.next(), Name: a.next(), Arguments: a.next(), StopReason: a.reason()}
	case "tool_call_output":
		return &schemas.ToolCallOutput{Role: schemas.RoleUser, ToolCallID: a.next(), Output: a.next(), Images: a.images(), StopReason: a.reason()}
	case "partial_text":
		return &schemas.PartialText{Role: schemas.RoleAssistant, EventType: schemas.Phase(a.next()), Text: a.next(), StopReason: a.reason()}
	case "partial_thinking":
		return &schemas.PartialThinking{Role: schemas.RoleAssistant, EventType: schemas.Phase(a.next()), Thinking: a.next(), StopReason: a.reason()}
	case "partial_tool_call":
		p := &schemas.PartialToolCall{Role: schemas.RoleAssistant, ToolCallID: a.next(), EventType: schemas.Phase(a.next()), StopReason: a.reason()}
		if p.EventType == schemas.PhaseStart {
			p.Name = a.next()
		}
		p.Arguments = a.next()
		return p
	case "partial_tool_call_output":
		return &schemas.PartialToolCallOutput{
			Role: schemas.RoleUser, ToolCallID: a.next(), EventType: schemas.Phase(a.next()), Output: a.next(),
			Images: a.images(), Attempt: a.number("attempt"), StopReason: a.reason(),
		}
	}
	return nil
}

// images returns the rest of the words.
func (a *args) images() []string {
	rest := a.words[a.used:]
	a.used = len(a.words)
	if len(rest) == 0 {
		return nil
	}
	return rest
}

func parseEvent(a *args) schemas.Payload {
	switch kind := schemas.Kind(a.next()); kind {
	case schemas.KindToolListReady:
		return &schemas.ToolListReady{Tools: []schemas.ToolDefinition{}}
	case schemas.KindMCPConnectBegin:
		return &schemas.MCPConnectBegin{Servers: []string{}}
	case schemas.KindMCPConnectEnd:
		return &schemas.MCPConnectEnd{Status: schemas.StopReason(a.next()), Results: []schemas.MCPConnectResult{}}
	case schemas.KindRequestBegin:
		return &schemas.RequestBegin{Attempt: a.number("attempt"), Model: a.take("model")}
	case schemas.KindRequestEnd:
		return &schemas.RequestEnd{
			Status: schemas.StopReason(a.next()), ErrorMessage: a.take("error_message"), Attempt: a.number("attempt"),
			RetryInMS: int64(a.number("retry_in_ms")), FallbackModel: a.take("fallback_model"),
		}
	case schemas.KindApprovalRequest:
		p := &schemas.ApprovalRequest{ToolCallID: a.next(), Name: a.next(), Arguments: a.next(), Rule: a.take("rule")}
		p.Hash = schemas.CallHash(p.Name, p.Arguments)
		return p
	case schemas.KindApprovalDecision:
		return &schemas.ApprovalDecision{Decision: schemas.Decision(a.next()), ToolCallID: a.next(), Rule: a.take("rule")}
	case schemas.KindTokenUsage:
		return &schemas.TokenUsage{
			Request: schemas.TokenCounts{Total: int64(a.number("request"))}, Session: schemas.TokenCounts{Total: int64(a.number("session"))},
		}
	case schemas.KindCompactionBegin:
		return &schemas.CompactionBegin{Reason: "context", Mode: "summarize"}
	case schemas.KindCompactionEnd:
		return &schemas.CompactionEnd{Reason: "context", Mode: "summarize", Status: schemas.StopReason(a.next())}
	case schemas.KindAbort:
		return &schemas.Abort{Reason: a.next()}
	case schemas.KindSubagent:
		return &schemas.Subagent{SessionID: a.next()}
	case schemas.KindLoopDetected:
		return &schemas.LoopDetected{Repeated: "tool_calls"}
	case schemas.KindBudgetExceeded:
		return &schemas.BudgetExceeded{Unit: "tokens"}
	case schemas.KindWorkspaceBound:
		return &schemas.WorkspaceBound{Toolrunner: cmp.Or(a.next(), "r1"), Volume: a.take("volume")}
	case schemas.KindOwnerChanged:
		return &schemas.OwnerChanged{From: cmp.Or(a.next(), "e1"), To: cmp.Or(a.next(), "e2"), Cause: cmp.Or(a.take("cause"), "lost")}
	case schemas.KindSessionImported:
		messages, _ := strconv.Atoi(a.next())
		visible, _ := strconv.Atoi(a.next())
		return &schemas.SessionImported{Messages: messages, Visible: visible, CommandID: "import"}
	case schemas.KindSessionChanged:
		return &schemas.SessionChanged{ApprovalMode: schemas.ApprovalMode(a.next())}
	case schemas.KindCommandOutcome:
		return &schemas.CommandOutcome{CommandID: a.next(), Code: cmp.Or(schemas.Code(a.take("code")), schemas.CodeApplied)}
	case schemas.KindCheckpoint:
		return &schemas.Checkpoint{}
	case schemas.KindTaskQueued:
		return &schemas.TaskQueued{TaskID: a.next(), Task: schemas.TaskBody{Prompt: a.next()}, Steers: a.take("steers") != ""}
	case schemas.KindTaskDequeued:
		return &schemas.TaskDequeued{TaskID: a.next(), Cause: schemas.DequeueCause(a.next())}
	case schemas.KindSessionDeleted:
		return &schemas.SessionDeleted{CommandID: a.next()}
	case schemas.KindTaskEnd:
		return &schemas.TaskEnd{Status: schemas.StopReason(a.next()), Cause: a.take("cause")}
	default: // of a newer version
		return &schemas.Unknown{Of: kind, Raw: jsontext.Value(`{"type":` + strconv.Quote(string(kind)) + `}`)}
	}
}

// Streamed returns a payload as a producer streams it: start, deltas of a few characters each,
// stop and the complete payload. A payload that never streams is returned alone.
func Streamed(p schemas.Payload) []schemas.Payload {
	var text string
	var piece func(schemas.Phase, string) schemas.Payload
	switch p := p.(type) {
	case *schemas.Text:
		text, piece = p.Text, func(ph schemas.Phase, s string) schemas.Payload {
			f := schemas.TextFragment(ph, s)
			f.StopReason = atStop(ph, p.StopReason)
			return f
		}
	case *schemas.Thinking:
		text, piece = p.Thinking, func(ph schemas.Phase, s string) schemas.Payload {
			f := schemas.ThinkingFragment(ph, s)
			f.StopReason = atStop(ph, p.StopReason)
			return f
		}
	case *schemas.ToolCall:
		text, piece = p.Arguments, func(ph schemas.Phase, s string) schemas.Payload {
			f := schemas.ToolCallFragment(ph, p.ToolCallID, "", s)
			if ph == schemas.PhaseStart {
				f.Name = p.Name
			}
			f.StopReason = atStop(ph, p.StopReason)
			return f
		}
	case *schemas.ToolCallOutput:
		text, piece = p.Output, func(ph schemas.Phase, s string) schemas.Payload {
			f := schemas.ToolCallOutputFragment(ph, p.ToolCallID, s)
			f.StopReason = atStop(ph, p.StopReason)
			return f
		}
	default:
		return []schemas.Payload{p}
	}
	all := []schemas.Payload{piece(schemas.PhaseStart, "")}
	for _, s := range cut(text, 4) {
		all = append(all, piece(schemas.PhaseDelta, s))
	}
	if out, ok := p.(*schemas.ToolCallOutput); ok && len(out.Images) > 0 {
		images := schemas.ToolCallOutputFragment(schemas.PhaseDelta, out.ToolCallID, "")
		images.Images = out.Images
		all = append(all, images)
	}
	return append(all, piece(schemas.PhaseStop, ""), p)
}

func atStop(ph schemas.Phase, reason schemas.StopReason) schemas.StopReason {
	if ph == schemas.PhaseStop {
		return reason
	}
	return ""
}

// cut cuts a text into pieces of n characters.
func cut(s string, n int) []string {
	var pieces []string
	runes := []rune(s)
	for len(runes) > n {
		pieces, runes = append(pieces, string(runes[:n])), runes[n:]
	}
	if len(runes) > 0 {
		pieces = append(pieces, string(runes))
	}
	return pieces
}
