package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/schemas"
)

// play is a session in a test's hands: every step is stored at once, effects are collected.
type play struct {
	t        *testing.T
	s        *State
	log      []schemas.Message
	out      []string // what the last step asked for, rendered
	sequence uint64
	request  uint64 // of the last CallModel
	second   int64  // since the epoch of the test
}

func newPlay(t *testing.T) *play {
	p := &play{t: t, s: New(schemas.SessionRef{Project: "p", ID: "s"})}
	p.s.Own(7)
	p.do(TakenOver{To: "e1"})
	return p
}

func (p *play) now() time.Time { return time.Unix(1e9+p.second, 0) }

// at has what follows happen so many seconds after the epoch of the test.
func (p *play) at(second int64) *play {
	p.second = second
	return p
}

func (p *play) do(e Event) *play {
	out := p.s.Step(p.now(), e)
	p.log = append(p.log, out.Messages...)
	p.out = nil
	for _, m := range out.Messages {
		p.out = append(p.out, renderMessage(m))
	}
	for _, effect := range out.Effects {
		if call, ok := effect.(CallModel); ok {
			p.request = call.Request
		}
		p.out = append(p.out, renderEffect(effect))
	}
	return p
}

func (p *play) command(c schemas.Command) *play { return p.commandAt(p.second, c) }

// commandAt has the broker store a command so many seconds after the epoch of the test.
func (p *play) commandAt(second int64, c schemas.Command) *play {
	p.sequence++
	c.ID, c.Session = fmt.Sprintf("k%d", p.sequence), p.s.Session
	return p.do(CommandReceived{Sequence: p.sequence, Time: time.Unix(1e9+second, 0), Command: c})
}

func (p *play) create(mode schemas.ApprovalMode) *play {
	return p.command(schemas.Command{Type: schemas.CommandCreate, Create: &schemas.CreateBody{Model: "pro/model", ApprovalMode: mode}})
}

func (p *play) task() *play {
	return p.command(schemas.Command{Type: schemas.CommandTask, Task: &schemas.TaskBody{Prompt: "go"}})
}

func (p *play) abort() *play {
	return p.command(schemas.Command{Type: schemas.CommandAbort, Abort: &schemas.AbortBody{Reason: "enough"}})
}

func (p *play) approve(call string, d schemas.Decision) *play {
	return p.command(schemas.Command{Type: schemas.CommandApprove, Approve: &schemas.ApproveBody{ToolCallID: call, Decision: d}})
}

// deadline has the broker send the deadline of a call, so many seconds after the epoch of the test.
func (p *play) deadline(call string, second int64) *play {
	return p.commandAt(second, schemas.Command{Type: schemas.CommandDeadline, Deadline: &schemas.DeadlineBody{ToolCallID: call}})
}

func (p *play) retryNow() *play {
	return p.command(schemas.Command{Type: schemas.CommandRetryNow})
}

func (p *play) set(mode schemas.ApprovalMode) *play {
	return p.command(schemas.Command{Type: schemas.CommandSet, Set: &schemas.SetBody{ApprovalMode: mode}})
}

// begun is a session whose first request is open.
func begun(t *testing.T, mode schemas.ApprovalMode) *play {
	return newPlay(t).create(mode).task().do(ToolsListed{Tools: []schemas.ToolDefinition{
		{Name: "look", Permission: schemas.PermissionRead}, {Name: "write"},
	}})
}

// say has the model stream messages.
func (p *play) say(payloads ...schemas.Payload) *play {
	for _, payload := range payloads {
		p.do(ModelMessage{Request: p.request, Message: schemas.New(time.Unix(1e9, 0), payload)})
	}
	return p
}

// call has the model make a call.
func (p *play) call(name, arguments string) *play {
	return p.say(schemas.NewToolCall("theirs", name, arguments))
}

func (p *play) ended(status schemas.StopReason) *play {
	e := ModelEnded{Request: p.request, Status: status}
	if status != schemas.StopCompleted {
		e.Failure = &schemas.ErrorInfo{Kind: "provider", Message: "no luck"}
	}
	return p.do(e)
}

func (p *play) output(call, text string) *play {
	return p.do(ToolEnded{ToolCallID: call, Attempt: 1, Result: schemas.ToolResult{Output: text, StopReason: schemas.StopCompleted}})
}

// lost folds what is stored under another owner; cut is how many of the newest messages were not.
func (p *play) lost(cut int) *play {
	next := &play{t: p.t, s: New(p.s.Session), log: p.log[:len(p.log)-cut], sequence: p.sequence, second: p.second}
	for _, m := range next.log {
		next.s.Apply(m)
	}
	next.s.Own(8)
	return next
}

func (p *play) takeOver() *play { return p.do(TakenOver{From: "e1", To: "e2", Cause: "lost"}) }

// expect compares what the last step asked for.
func (p *play) expect(want ...string) {
	p.t.Helper()
	if diff := cmp.Diff(want, p.out); diff != "" {
		p.t.Errorf("(-want +got)\n%s", diff)
	}
}

func renderMessage(m schemas.Message) string {
	switch p := m.Payload.(type) {
	case *schemas.PartialText:
		return renderText(string(p.EventType), p.Text, p.StopReason)
	case *schemas.PartialThinking:
		return renderText(string(p.EventType), p.Thinking, p.StopReason)
	case *schemas.PartialToolCall:
		return renderText(string(p.EventType), p.Name+p.Arguments, p.StopReason)
	case *schemas.PartialToolCallOutput:
		text := renderText(string(p.EventType), p.Output, p.StopReason)
		return text + strings.Repeat(" image", len(p.Images))
	case *schemas.Text:
		return renderText("text", p.Text, p.StopReason)
	case *schemas.Thinking:
		return renderText("thinking", p.Thinking, p.StopReason)
	case *schemas.ToolCall:
		return renderText("call", p.Name+p.Arguments, p.StopReason)
	case *schemas.ToolCallOutput:
		return renderText("output", p.Output, p.StopReason) + strings.Repeat(" image", len(p.Images))
	case *schemas.ApprovalRequest:
		return strings.TrimSpace("ask " + p.ToolCallID + " " + p.Rule)
	case *schemas.ApprovalDecision:
		return strings.TrimSpace(string(p.Decision) + " " + p.ToolCallID + " " + p.Rule)
	case *schemas.OwnerChanged:
		return fmt.Sprintf("owner %s>%s %s%s", p.From, p.To, p.Cause, map[bool]string{true: " gap"}[p.Gap])
	case *schemas.WorkspaceBound:
		return strings.TrimSpace("workspace_bound " + p.Toolrunner + " " + p.Volume)
	case *schemas.SessionChanged:
		return "mode " + string(p.ApprovalMode)
	case *schemas.RequestBegin:
		return strings.TrimSpace(fmt.Sprint("begin ", max(p.Attempt, 1), " ", p.Model))
	case *schemas.RequestEnd:
		return strings.TrimSpace(fmt.Sprintf("end %s %d %d %s", p.Status, max(p.Attempt, 1), p.RetryInMS, p.FallbackModel))
	case *schemas.CommandOutcome:
		return "outcome " + string(p.Code)
	case *schemas.TaskQueued:
		return "queued " + p.TaskID
	case *schemas.TaskDequeued:
		return "dequeued " + string(p.Cause) + " " + p.TaskID
	case *schemas.Abort:
		return "abort " + p.Reason
	case *schemas.TaskEnd:
		return "task " + string(p.Status) + " " + p.Cause
	}
	return string(m.Kind())
}

func renderText(what, text string, reason schemas.StopReason) string {
	if text != "" {
		what += fmt.Sprintf(" %q", text)
	}
	if reason != "" {
		what += " " + string(reason)
	}
	return what
}

func renderEffect(e Effect) string {
	switch e := e.(type) {
	case Answer:
		return "-> answer"
	case ListTools:
		return "-> list tools"
	case CallModel:
		if e.Model != "pro/model" {
			return fmt.Sprint("-> model ", e.Attempt, " ", e.Model)
		}
		return fmt.Sprint("-> model ", e.Attempt)
	case StopModel:
		return "-> stop model"
	case StartTool:
		text := fmt.Sprintf("-> tool %s from %d.%d", e.Call.ToolCallID, e.Attempt, e.Offset)
		if e.Bound != nil {
			text += " in " + e.Bound.Pool()
		}
		return text
	case CancelTool:
		return "-> cancel " + e.ToolCallID
	case ResendOutput:
		return fmt.Sprintf("-> resend %s from %d.%d", e.ToolCallID, e.Attempt, e.From)
	case SetDeadline:
		return fmt.Sprintf("-> deadline of %s at %d", e.Command.Deadline.ToolCallID, e.At.Unix()-1e9)
	case ClearDeadline:
		return "-> no deadline of " + e.ToolCallID
	case TellRuling:
		return fmt.Sprintf("-> tell %s of %s", e.ToolCallID, e.Ruling.Rule)
	case WaitRetry:
		return fmt.Sprint("-> wait ", e.Delay)
	}
	return fmt.Sprintf("%T", e)
}
