package shell

import (
	"fmt"
	"regexp"
	"strings"

	"braid/schemas"
)

// shownLines is how many lines of each output a summary quotes.
const shownLines = 5

// exitNote is the note a tool puts after the output of a command that ended badly, and may put
// after one that ended well.
var exitNote = regexp.MustCompile(`(?i)^\W*exit(?:ed)?(?:\s+with)?\s*(?:code|status)\s*[:=]?\s*(-?\d+)\W*$`)

// summary says how the last calls of the input went, in the order of the calls.
func summary(input []schemas.Message) string {
	calls, outputs := lastCalls(input)
	var out strings.Builder
	for _, c := range calls {
		o := outputs[c.ToolCallID]
		if o == nil {
			continue
		}
		if out.Len() > 0 {
			out.WriteString("\n\n")
		}
		describe(&out, c, o)
	}
	if out.Len() == 0 {
		return "There are outputs, but I know of no call they belong to."
	}
	return out.String()
}

// lastCalls returns the calls of the last turn that made any, in order, and their outputs.
func lastCalls(input []schemas.Message) ([]*schemas.ToolCall, map[string]*schemas.ToolCallOutput) {
	outputs := make(map[string]*schemas.ToolCallOutput)
	end := len(input)
	for end > 0 { // back over all that follows the calls
		m := input[end-1]
		if _, ok := m.Payload.(*schemas.ToolCall); ok {
			break
		}
		if o, ok := m.Payload.(*schemas.ToolCallOutput); ok {
			outputs[o.ToolCallID] = o
		}
		end--
	}
	start := end
	for start > 0 && fromAssistant(input[start-1]) {
		start--
	}
	var calls []*schemas.ToolCall
	for _, m := range input[start:end] {
		if c, ok := m.Payload.(*schemas.ToolCall); ok {
			calls = append(calls, c)
		}
	}
	return calls, outputs
}

// fromAssistant reports whether the message is one the model said.
func fromAssistant(m schemas.Message) bool {
	switch p := m.Payload.(type) {
	case *schemas.ToolCall:
		return true
	case *schemas.Text:
		return p.Role == schemas.RoleAssistant
	case *schemas.Thinking:
		return true
	}
	return false
}

// describe writes what became of one call.
func describe(out *strings.Builder, c *schemas.ToolCall, o *schemas.ToolCallOutput) {
	body, code := splitNote(o.Output)
	fmt.Fprintf(out, "%s: %s", commandOf(c), ending(o.StopReason, code))
	lines := strings.Split(body, "\n")
	if body == "" {
		out.WriteString("\n  (no output)")
		return
	}
	for i, line := range lines {
		if i == shownLines {
			fmt.Fprintf(out, "\n  (%d more lines)", len(lines)-shownLines)
			return
		}
		out.WriteString("\n  " + strings.TrimRight(line, "\r"))
	}
}

func commandOf(c *schemas.ToolCall) string {
	var arguments struct {
		Command string `json:"command"`
	}
	if err := schemas.DecodeJSON([]byte(c.Arguments), &arguments); err != nil || arguments.Command == "" {
		return c.Name
	}
	return "$ " + arguments.Command
}

// ending puts into words how a command ended. A command that failed says so by its exit code;
// one that was stopped may have an exit code as well, which then is not what matters.
func ending(reason schemas.StopReason, code string) string {
	failed := reason == schemas.StopFailed
	switch {
	case reason != "" && reason != schemas.StopCompleted && (!failed || code == ""):
		return string(reason)
	case code == "":
		return "exit code 0"
	}
	return "exit code " + code
}

// splitNote separates an output from the exit code in its last line; "" if there is none.
func splitNote(output string) (body, code string) {
	body = strings.TrimRight(output, " \t\r\n")
	last := body[strings.LastIndexByte(body, '\n')+1:]
	match := exitNote.FindStringSubmatch(last)
	if match == nil {
		return body, ""
	}
	return strings.TrimRight(strings.TrimSuffix(body, last), " \t\r\n"), match[1]
}
