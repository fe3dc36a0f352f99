package session

import (
	"fmt"
	"slices"
	"strings"

	"braid/schemas"
)

// What of a turn that did not complete is told to the model, and to nobody else, is one text of role
// user between a pair of markers:
//
//	[turn_retried]  behind the input that is sent again: the calls of the lost response that ran
//	[turn_aborted]  in place of the input that never got its answer: what was asked, said and done
//
// A retried block stays where it is. An aborted one takes in every text and block that no completed
// request has answered, so that there is one of them, however many turns in a row are cut off. What is
// no text stays in the context beside it: outputs belong to their calls, and pictures can't be told.
const (
	retriedMarker = "turn_retried"
	retriedIntro  = "The previous response to this was lost before it was complete. These tool calls of it were carried out; " +
		"do not repeat them without need:"
	abortedMarker = "turn_aborted"
	abortedIntro  = "This was cut off before it was complete. What was asked, said and done in it, in order:"
)

// block puts lines between the markers.
func block(marker, intro string, lines []string) string {
	return "[" + marker + "]\n" + intro + "\n" + strings.Join(lines, "\n") + "\n[/" + marker + "]"
}

// unblock returns the lines of a block that the harness made; false if the text is none.
func unblock(p *schemas.Text) (string, bool) {
	if p.Sender != schemas.SenderHarness {
		return "", false
	}
	for marker, intro := range map[string]string{retriedMarker: retriedIntro, abortedMarker: abortedIntro} {
		if lines, ok := strings.CutPrefix(p.Text, "["+marker+"]\n"+intro+"\n"); ok {
			return strings.TrimSuffix(lines, "\n[/"+marker+"]"), true
		}
	}
	return "", false
}

// entry is one line of a block. What it tells can't end the block, nor another entry.
func entry(tag, attributes, body string) string {
	for _, t := range []string{retriedMarker, abortedMarker, "user_input", "thinking", "text", "tool_call", "tool_call_output"} {
		body = strings.ReplaceAll(body, "[/"+t+"]", "[ /"+t+"]")
	}
	return "  [" + tag + attributes + "]" + body + "[/" + tag + "]"
}

// entries tell a call and its output.
func (c *Call) entries() []string {
	return []string{
		entry("tool_call", fmt.Sprintf(" name=%q id=%q", c.Name, c.ToolCallID), c.Arguments),
		entry("tool_call_output", fmt.Sprintf(" id=%q status=%q", c.ToolCallID, stopText(c.Output.StopReason)), c.Output.Output),
	}
}

func stopText(r schemas.StopReason) string {
	if r == "" {
		return string(schemas.StopCompleted)
	}
	return string(r)
}

// retriedBlock tells the model of tools that ran for a request it will not remember. What it had said
// is not told: it says all of it again, to readers who have taken it back.
func retriedBlock(calls []*Call) string {
	var lines []string
	for _, c := range calls {
		if c.Output != nil && c.Decision == schemas.DecisionAllow {
			lines = append(lines, c.entries()...)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return block(retriedMarker, retriedIntro, lines)
}

// pictures are those of the outputs that a block tells of.
func pictures(calls []*Call) (all []schemas.Message) {
	for _, c := range calls {
		if c.Output == nil {
			continue
		}
		for _, url := range c.Output.Images {
			all = append(all, schemas.Message{Type: schemas.TypeModel, Payload: schemas.UserImage(url)})
		}
	}
	return all
}

// carryOver leaves of an unfinished turn what the next prompt's input begins with.
func (s *State) carryOver(t *Task) {
	kept, lines := s.left(t)
	if t.Request != nil && !t.Request.folded {
		lines = append(lines, t.Request.entries()...)
		kept = append(kept, pictures(t.Request.Calls)...)
	}
	end := "  (It failed here.)"
	if t.Aborting {
		end = "  (The user interrupted it here.)"
	}
	text := schemas.HarnessText(block(abortedMarker, abortedIntro, append(lines, end)))
	answered := s.Context[:s.Committed:s.Committed] // requests share the array
	if t.refused() {
		answered = withoutLinks(answered)
	}
	s.Context = append(append(answered, kept...), schemas.Message{Type: schemas.TypeModel, Payload: text})
	s.Refused = t.refused()
}

// left is what nobody has answered: what stays in the context, and what is told.
func (s *State) left(t *Task) (kept []schemas.Message, lines []string) {
	unanswered := s.Context[s.Committed:]
	refused := 0 // how many of them were part of a request before that was refused as well
	if s.Refused {
		refused = carried(unanswered)
	}
	for i, m := range unanswered {
		how := t.telling(i < refused)
		switch p := m.Payload.(type) {
		case *schemas.ToolCallOutput:
			m.Payload = how.output(p)
			kept = append(kept, m)
		case *schemas.Text:
			if inner, ok := unblock(p); ok {
				lines = append(lines, how.text(inner))
			} else if p.Role != schemas.RoleUser || p.Sender == schemas.SenderHarness {
				kept = append(kept, m)
			} else {
				lines = append(lines, entry("user_input", "", how.text(p.Text)))
			}
		default:
			if how.blind == "" {
				kept = append(kept, m)
			} else {
				lines = append(lines, "  "+how.blind)
			}
		}
	}
	return kept, lines
}

// carried is how many of the messages were carried over already: those up to the block that says so.
func carried(messages []schemas.Message) int {
	for i, m := range slices.Backward(messages) {
		if p, ok := m.Payload.(*schemas.Text); ok && p.Sender == schemas.SenderHarness && strings.HasPrefix(p.Text, "["+abortedMarker+"]\n") {
			return i + 1
		}
	}
	return 0
}

// entries tell what the request said and what its calls came to.
func (r *Request) entries() (lines []string) {
	for _, m := range r.Messages {
		switch p := m.Payload.(type) {
		case *schemas.Thinking:
			if p.Thinking != "" {
				lines = append(lines, entry("thinking", "", p.Thinking))
			}
		case *schemas.Text:
			if p.Text != "" {
				lines = append(lines, entry("text", "", p.Text))
			}
		}
	}
	for _, c := range r.Calls {
		if c.Output != nil {
			lines = append(lines, c.entries()...)
		}
	}
	return lines
}
