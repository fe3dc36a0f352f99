package timelinetest

import (
	"fmt"
	"strconv"
	"strings"

	"braid/schemas"
)

// Commands makes the commands of a script's steps. The zero value is ready.
type Commands struct {
	counts  map[string]int      // how many of each there were, for their ids
	earlier []schemas.InputTurn // what comes before the next prompt
}

// IsCommand reports that the step sends a command.
func (c Cue) IsCommand() bool {
	switch c.Verb {
	case "create", "prompt", "allow", "deny", "abort", "set", "retry_now", "queue", "steer", "withdraw":
		return true
	}
	return false
}

// Command makes the command that the step sends. effect is the line that shows that it was applied,
// beside its outcome; empty if there is none. call finds a call's id by its name.
func (k *Commands) Command(c Cue, ref schemas.SessionRef, call func(name string) string) (command schemas.Command, effect string, err error) {
	if k.counts == nil {
		k.counts = map[string]int{}
	}
	k.counts[c.Verb]++
	m := schemas.Command{ID: fmt.Sprintf("%s-%d", c.Verb, k.counts[c.Verb]), Type: schemas.CommandType(c.Verb), Session: ref}
	switch c.Verb {
	case "create":
		m.Create, err = createBody(c.Options)
	case "set":
		m.Set = &schemas.SetBody{ApprovalMode: schemas.ApprovalMode(c.Options["mode"])}
		effect = "event session_changed " + c.Options["mode"]
	case "retry_now":
		effect = "event request_begin"
	case "prompt":
		m.Type, m.Task, effect = schemas.CommandTask, k.task(c), promptLine(c)
	case "queue":
		m.Type, m.Task = schemas.CommandTask, k.task(c)
		m.Task.WhenBusy = schemas.BusyQueue
		effect = "trace event task_queued " + m.ID
	case "steer":
		m.Task = k.task(c)
		effect = "trace event task_queued " + m.ID
	case "withdraw":
		m.Withdraw = &schemas.WithdrawBody{TaskID: c.Arg(0)}
		effect = "event task_dequeued " + c.Arg(0) + " withdrawn"
	case "abort":
		m.Abort = &schemas.AbortBody{Reason: c.Arg(0), DropQueue: c.Arg(1) == "drop_queue"}
	case "allow", "deny":
		m.Type, m.Approve = schemas.CommandApprove, &schemas.ApproveBody{ToolCallID: call(c.Arg(0)), Decision: schemas.Decision(c.Verb)}
		effect = "event approval_decision " + c.Verb + " " + c.Arg(0)
	default:
		err = fmt.Errorf("%q is no command", c.Verb)
	}
	return m, effect, err
}

func createBody(options map[string]string) (*schemas.CreateBody, error) {
	b := &schemas.CreateBody{Model: "scripted/m"}
	for name, value := range options {
		n, _ := strconv.Atoi(value)
		usd, _ := schemas.ParseUSD(value)
		switch name {
		case "mode":
			b.ApprovalMode = schemas.ApprovalMode(value)
		case "fallback":
			for model := range strings.SplitSeq(value, ",") {
				b.FallbackModels = append(b.FallbackModels, "scripted/"+model)
			}
		case "system":
			b.SystemPrompt = value
		case "approval_timeout_ms":
			b.ApprovalTimeoutMS = int64(n)
		case "max_turns":
			b.Limits.MaxTurns = n
		case "max_tokens_task":
			b.Limits.MaxTokensTask = int64(n)
		case "max_tokens_session":
			b.Limits.MaxTokensSession = int64(n)
		case "max_cost_task_usd":
			b.Limits.MaxCostTask = usd
		case "max_cost_session_usd":
			b.Limits.MaxCostSession = usd
		case "loop_limit":
			b.Limits.LoopLimit = n
		case "loop_window":
			b.Limits.LoopWindow = n
		case "on_loop":
			b.Limits.OnLoop = schemas.LoopAction(value)
		case "request_timeout_ms":
			b.Limits.RequestTimeoutMS = int64(n)
		case "idle_timeout_ms":
			b.Limits.IdleTimeoutMS = int64(n)
		default:
			return nil, fmt.Errorf("a session has no option %s here", name)
		}
	}
	return b, nil
}
