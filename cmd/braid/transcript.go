package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"braid/schemas"
)

// transcript shows what is recorded of a session: complete messages, tool calls with how long they took.
type transcript struct {
	screen
	// times has each entry begin with when it was.
	times bool
	// most is how many lines of a tool call's output are shown; 0: all.
	most int

	names map[string]string    // of tool calls, by id
	since map[string]time.Time // when calls began to run, by id
	// request and task are when the open ones began; zero if none is.
	request, task time.Time
}

func newTranscript(out io.Writer) *transcript {
	return &transcript{screen: newScreen(out), names: map[string]string{}, since: map[string]time.Time{}}
}

// message shows a message. What only machines care about is left out.
func (t *transcript) message(m schemas.Message) {
	if m.Prompt() && t.task.IsZero() {
		t.task = m.Time()
	}
	switch p := m.Payload.(type) {
	case *schemas.Text:
		t.text(m, p)
	case *schemas.Thinking:
		if p.Thinking != "" {
			t.entry(m, "~", dim, p.Thinking)
		}
	case *schemas.ImageURL:
		t.entry(m, " ", plain, "[image: "+schemas.DescribeImage(p.ImageURL)+"]")
	case *schemas.ToolCall:
		t.names[p.ToolCallID] = fmt.Sprintf("%d %s", len(t.names)+1, p.Name)
		t.since[p.ToolCallID] = m.Time()
		t.entry(m, "→", cyan, t.names[p.ToolCallID]+" "+p.Arguments)
	case *schemas.ApprovalDecision:
		t.decision(m, p)
	case *schemas.ToolCallOutput:
		t.output(m, p)
	default:
		t.event(m)
	}
}

func (t *transcript) text(m schemas.Message, p *schemas.Text) {
	switch {
	case p.Role != schemas.RoleUser:
		t.entry(m, " ", plain, p.Text)
	case p.Sender == "" || p.Sender == schemas.SenderUser:
		t.entry(m, ">", bold, p.Text)
	default:
		t.entry(m, ">", dim, "("+string(p.Sender)+") "+p.Text)
	}
}

func (t *transcript) decision(m schemas.Message, p *schemas.ApprovalDecision) {
	if t.since[p.ToolCallID] = m.Time(); p.Decision != schemas.DecisionAllow {
		t.entry(m, "✗", red, t.names[p.ToolCallID]+": "+strings.TrimSpace(string(p.Decision)+" "+by(p.Rule)))
	}
}

func (t *transcript) output(m schemas.Message, p *schemas.ToolCallOutput) {
	mark, as, said := "←", cyan, t.names[p.ToolCallID]+took(t.since[p.ToolCallID], m)
	if p.StopReason != "" && p.StopReason != schemas.StopCompleted {
		mark, as, said = "✗", red, said+" "+string(p.StopReason)
	}
	t.entry(m, mark, as, said)
	lines := strings.Split(strings.TrimSuffix(p.Output, "\n"), "\n")
	more := 0
	if t.most > 0 && len(lines) > t.most {
		more = len(lines) - t.most
		lines = lines[:t.most]
	}
	if p.Output != "" {
		t.rest(plain, strings.Join(lines, "\n"))
	}
	if more > 0 {
		t.rest(dim, "… "+count(more, "more line"))
	}
	for _, url := range p.Images {
		t.rest(plain, "[image: "+schemas.DescribeImage(url)+"]")
	}
}

// event shows what happened around the model.
func (t *transcript) event(m schemas.Message) {
	switch p := m.Payload.(type) {
	case *schemas.SessionMeta:
		t.entry(m, "·", dim, fmt.Sprintf("session %s on %s/%s, %s", p.SessionID, p.Provider, p.ModelID, p.ApprovalMode))
	case *schemas.ApprovalRequest:
		t.entry(m, "?", yellow, t.names[p.ToolCallID]+" is waiting for a person"+because(p.Rule))
	case *schemas.RequestBegin:
		t.request = m.Time()
	case *schemas.RequestEnd:
		t.requestEnd(m, p)
	case *schemas.TokenUsage:
		said := count(p.Request.Total, "token")
		if p.Request.CostUSD > 0 {
			said += ", " + dollars(p.Request.CostUSD)
		}
		t.entry(m, "·", dim, said)
	case *schemas.TaskEnd:
		as, said := dim, "the task "+string(p.Status)+took(t.task, m)
		if reason := why(p); reason != "" {
			as, said = red, "the task ended"+took(t.task, m)+": "+reason
		}
		t.entry(m, "■", as, strings.TrimSpace(said+" "+p.TaskID))
		t.task = time.Time{}
	default:
		if said := notice(m.Payload); said != "" {
			t.entry(m, "!", yellow, said)
		}
	}
}

func (t *transcript) requestEnd(m schemas.Message, p *schemas.RequestEnd) {
	as, said := dim, "a request "+string(p.Status)+took(t.request, m)
	if p.Status != schemas.StopCompleted {
		as, said = yellow, strings.TrimSuffix(said+": "+p.ErrorMessage, ": ")
	}
	if p.RetryInMS > 0 {
		said += fmt.Sprintf("; again in %s", time.Duration(p.RetryInMS)*time.Millisecond)
	}
	if p.FallbackModel != "" {
		said += "; continuing with " + p.FallbackModel
	}
	t.entry(m, "·", as, said)
}

// because names the policy's rule for which a person is asked.
func because(rule string) string {
	if rule == "" {
		return ""
	}
	return ", as the rule " + rule + " can't tell"
}

// took is how long something took that began at a time, to go behind it; nothing if that is not known.
func took(since time.Time, m schemas.Message) string {
	end := m.Time()
	if since.IsZero() || end.IsZero() || end.Before(since) {
		return ""
	}
	if d := end.Sub(since); d < time.Second {
		return fmt.Sprintf(" (%d ms)", d.Milliseconds())
	}
	return fmt.Sprintf(" (%.1f s)", end.Sub(since).Seconds())
}

// clock is how a time is shown before an entry.
const clock = "15:04:05"

// entry shows one thing: when, what kind of thing, and its text, whose lines stay below one another.
func (t *transcript) entry(m schemas.Message, mark string, as style, text string) {
	lead := mark + " "
	if t.times {
		at := strings.Repeat(" ", len(clock))
		if when := m.Time(); !when.IsZero() {
			at = when.Local().Format(clock)
		}
		lead = at + " " + lead
	}
	first, more, several := strings.Cut(strings.TrimSuffix(text, "\n"), "\n")
	fmt.Fprintln(t, t.paint(dimTime(t.times, as), lead)+t.paint(as, t.safe(first)))
	if several {
		t.rest(as, more)
	}
}

// dimTime is how what stands before an entry looks.
func dimTime(times bool, as style) style {
	if times {
		return dim
	}
	return as
}

// rest shows further lines of an entry.
func (t *transcript) rest(as style, text string) {
	indent := "  "
	if t.times {
		indent += strings.Repeat(" ", len(clock)+1)
	}
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintln(t, strings.TrimRight(indent+t.paint(as, t.safe(line)), " "))
	}
}
