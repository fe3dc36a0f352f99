package main

import (
	"fmt"
	"io"
	"strings"

	"braid/schemas"
)

// renderer shows a session's stream to a person as it comes, or as JSON Lines.
type renderer struct {
	out  io.Writer
	json bool
	// speaker is whose output the cursor stands in: "" for none, "model", or a tool call's id.
	speaker string
	fresh   bool              // the cursor is at the beginning of a line
	names   map[string]string // of tool calls, by id
}

func newRenderer(out io.Writer, json bool) *renderer {
	return &renderer{out: out, json: json, fresh: true, names: map[string]string{}}
}

// object prints one JSON object on a line.
func (r *renderer) object(v any) error {
	line, err := schemas.EncodeJSON(v)
	if err == nil {
		fmt.Fprintf(r.out, "%s\n", line)
	}
	return err
}

// message shows one message.
func (r *renderer) message(m schemas.Message) error {
	if r.json {
		return r.object(m)
	}
	if len(m.Origin) > 0 {
		return nil
	}
	switch p := m.Payload.(type) {
	case *schemas.PartialText:
		r.say("model", "", p.Text)
	case *schemas.ToolCall:
		label := fmt.Sprintf("%d %s", len(r.names)+1, p.Name)
		r.names[p.ToolCallID] = label
		r.line("→ %s %s", label, p.Arguments)
	case *schemas.ApprovalDecision:
		if p.Decision != schemas.DecisionAllow {
			r.line("✗ %s: %s", r.names[p.ToolCallID], strings.TrimSpace(string(p.Decision)+" "+by(p.Rule)))
		}
	case *schemas.PartialToolCallOutput:
		r.say(p.ToolCallID, "← "+r.names[p.ToolCallID], p.Output)
		r.images(p.Images)
	case *schemas.ImageURL:
		r.images([]string{p.ImageURL})
	case *schemas.RequestEnd:
		if p.Status != schemas.StopCompleted {
			r.line("! the request ended: %s %s", p.Status, p.ErrorMessage)
		}
		if p.FallbackModel != "" {
			r.line("! %s goes on", p.FallbackModel)
		}
	case *schemas.BudgetExceeded:
		r.line("! over budget: %s are used", p.Amounts())
	case *schemas.LoopDetected:
		r.line("! the model repeats itself (%d times): %s", p.Repetitions, p.Detail)
	case *schemas.OwnerChanged:
		r.line("! another engine took over (%s)", p.Cause)
	case *schemas.SessionChanged:
		r.line("! approval mode: %s", p.ApprovalMode)
	case *schemas.TaskDequeued:
		r.line("! a prompt that waited: %s", p.Cause)
	case *schemas.SessionImported:
		r.line("! an imported trace of %d messages", p.Messages)
	case *schemas.Abort:
		r.line("! aborted %s", p.Reason)
	}
	return nil
}

// say continues a speaker's output, or begins it under a heading.
func (r *renderer) say(speaker, heading, text string) {
	if text == "" {
		return
	}
	if r.speaker != speaker {
		r.newline()
		if heading != "" {
			fmt.Fprintln(r.out, heading)
		}
		r.speaker = speaker
	}
	fmt.Fprint(r.out, text)
	r.fresh = strings.HasSuffix(text, "\n")
}

func (r *renderer) line(format string, args ...any) {
	r.newline()
	fmt.Fprintf(r.out, format+"\n", args...)
	r.speaker = ""
}

func (r *renderer) newline() {
	if !r.fresh {
		fmt.Fprintln(r.out)
		r.fresh = true
	}
}

func (r *renderer) finish() { r.newline() }

// by names the policy's rule that something is due to.
func by(rule string) string {
	if rule == "" {
		return ""
	}
	return "by the rule " + rule
}
