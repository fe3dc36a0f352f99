package main

import (
	"fmt"
	"io"
	"strings"

	"braid/schemas"
)

// renderer shows a session's stream to a person as it comes, or as JSON Lines.
type renderer struct {
	screen
	json bool
	// speaker is whose output the cursor stands in: "" for none, "model", or a tool call's id.
	speaker string
	fresh   bool              // the cursor is at the beginning of a line
	names   map[string]string // of tool calls, by id
	// most is how many lines of a tool call's output are shown, and how much of its arguments; 0: all.
	// lines are how many there were, by call.
	most  int
	lines map[string]int
}

func newRenderer(out io.Writer, json bool) *renderer {
	return &renderer{screen: newScreen(out), json: json, fresh: true, names: map[string]string{}, lines: map[string]int{}}
}

// object prints one JSON object on a line.
func (r *renderer) object(v any) error { return printObject(r.Writer, v) }

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
		r.say("model", "", p.Text, plain)
	case *schemas.PartialThinking:
		r.think(p.Thinking)
	case *schemas.ToolCall:
		r.call(p.ToolCallID, p.Name, p.Arguments)
	case *schemas.ApprovalDecision:
		if p.Decision != schemas.DecisionAllow {
			r.line(red, "✗ %s: %s", r.names[p.ToolCallID], strings.TrimSpace(string(p.Decision)+" "+by(p.Rule)))
		}
	case *schemas.PartialToolCallOutput:
		r.output(p.ToolCallID, p.Output)
		r.images(p.Images)
	case *schemas.ToolCallOutput:
		r.omitted(p.ToolCallID)
	case *schemas.ImageURL:
		r.images([]string{p.ImageURL})
	case *schemas.RequestEnd:
		if p.Status != schemas.StopCompleted {
			r.line(yellow, "! the request ended: %s %s", p.Status, p.ErrorMessage)
		}
		if p.FallbackModel != "" {
			r.line(yellow, "! continuing with %s", p.FallbackModel)
		}
	default:
		if said := notice(m.Payload); said != "" {
			r.line(yellow, "! %s", said)
		}
	}
	return nil
}

// notice tells what happened around what is said; nothing if that is nothing for people.
func notice(payload schemas.Payload) string {
	switch p := payload.(type) {
	case *schemas.BudgetExceeded:
		return fmt.Sprintf("over budget: %s used", p.Amounts())
	case *schemas.LoopDetected:
		return fmt.Sprintf("the model is repeating itself (%d times): %s", p.Repetitions, p.Detail)
	case *schemas.OwnerChanged:
		return fmt.Sprintf("another engine took over (%s)", p.Cause)
	case *schemas.SessionChanged:
		return fmt.Sprintf("approval mode: %s", p.ApprovalMode)
	case *schemas.TaskDequeued:
		return fmt.Sprintf("a queued prompt: %s", p.Cause)
	case *schemas.SessionImported:
		return fmt.Sprintf("an imported trace of %d messages", p.Messages)
	case *schemas.Abort:
		return "aborted " + p.Reason
	}
	return ""
}

// think shows a part of the model's reasoning. It is for people who watch alone: in a file it would
// pass for an answer.
func (r *renderer) think(text string) {
	if r.terminal {
		r.say("thinking", r.paint(dim, "thinking"), text, dim)
	}
}

// maxArguments is how much of a call's arguments is shown where not all is, in characters.
const maxArguments = 200

// call shows a tool call, and gives it the name by which it is referred to.
func (r *renderer) call(id, name, arguments string) {
	label := fmt.Sprintf("%d %s", len(r.names)+1, name)
	r.names[id] = label
	if r.most > 0 {
		arguments = shorten(arguments, maxArguments)
	}
	r.newline()
	fmt.Fprintf(r, "%s %s\n", r.paint(cyan, "→ "+r.safe(label)), r.safe(arguments))
	r.speaker = ""
}

// output shows a part of a tool call's output, as much of it as is to be shown.
func (r *renderer) output(call, text string) {
	before := r.lines[call]
	r.lines[call] += strings.Count(text, "\n")
	if r.most > 0 {
		rest, left := text, max(0, r.most-before)
		for ; left > 0; left-- {
			_, after, more := strings.Cut(rest, "\n")
			if rest = after; !more {
				break
			}
		}
		text = strings.TrimSuffix(text, rest)
	}
	r.say(call, r.paint(cyan, "← "+r.safe(r.names[call])), text, plain)
}

// omitted tells how much of a tool call's output was not shown.
func (r *renderer) omitted(call string) {
	if n := r.lines[call] - r.most; r.most > 0 && n > 0 {
		r.line(dim, "  … %s", count(n, "more line"))
	}
}

// say continues a speaker's output, or begins it under a heading.
func (r *renderer) say(speaker, heading, text string, as style) {
	if text == "" {
		return
	}
	if r.speaker != speaker {
		r.newline()
		if heading != "" {
			fmt.Fprintln(r, heading)
		}
		r.speaker = speaker
	}
	fmt.Fprint(r, r.paint(as, r.safe(text)))
	r.fresh = strings.HasSuffix(text, "\n")
}

func (r *renderer) line(as style, format string, args ...any) {
	r.newline()
	fmt.Fprintln(r, r.paint(as, r.safe(fmt.Sprintf(format, args...))))
	r.speaker = ""
}

func (r *renderer) newline() {
	if !r.fresh {
		fmt.Fprintln(r)
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
