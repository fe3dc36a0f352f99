package timelinetest

import (
	"fmt"
	"strconv"
	"strings"

	"braid/schemas"
	"braid/schemas/schematest"
)

// Earlier keeps a turn that comes before the next prompt: a part of it, if the turn is that of the
// part before.
func (k *Commands) Earlier(c Cue) error {
	role := schemas.RoleUser
	var parts []schemas.InputPart
	switch c.Arg(0) {
	case "user":
		parts = words(c.Args[1:])
	case "assistant":
		role, parts = schemas.RoleAssistant, words(c.Args[1:])
	case "call":
		role = schemas.RoleAssistant
		parts = []schemas.InputPart{{Type: schemas.KindToolCall, ToolCallID: c.Arg(1), Name: c.Arg(2), Arguments: c.Arg(3)}}
	case "output":
		p := schemas.InputPart{Type: schemas.KindToolCallOutput, ToolCallID: c.Arg(1), Output: c.Arg(2)}
		for _, i := range c.Args[min(3, len(c.Args)):] {
			p.Images = append(p.Images, picture(i))
		}
		parts = []schemas.InputPart{p}
	default:
		return fmt.Errorf("%q is no part of a turn", c.Arg(0))
	}
	k.add(role, parts)
	return nil
}

// task is what a prompt gives a task: words and pictures, and the turns before them.
func (k *Commands) task(c Cue) *schemas.TaskBody {
	if len(k.earlier) == 0 && len(c.Args) == 1 {
		return &schemas.TaskBody{Prompt: c.Arg(0)}
	}
	k.add(schemas.RoleUser, words(c.Args))
	b := &schemas.TaskBody{Input: k.earlier}
	k.earlier = nil
	return b
}

// add adds parts to the turn that is open, or to a new one if that is another's.
func (k *Commands) add(role schemas.Role, parts []schemas.InputPart) {
	if n := len(k.earlier); n > 0 && k.earlier[n-1].Role == role {
		k.earlier[n-1].Content = append(k.earlier[n-1].Content, parts...)
		return
	}
	k.earlier = append(k.earlier, schemas.InputTurn{Role: role, Content: parts})
}

// words are parts: a text, unless it is empty, and pictures.
func words(args []string) []schemas.InputPart {
	var parts []schemas.InputPart
	if len(args) > 0 && args[0] != "" {
		parts = append(parts, schemas.InputPart{Type: schemas.KindText, Text: args[0]})
	}
	for _, a := range args[min(1, len(args)):] {
		parts = append(parts, schemas.InputPart{Type: schemas.KindImageURL, ImageURL: picture(a)})
	}
	return parts
}

// picture is one of a type and a size, as in image/png:1500; or what is named by its URL.
func picture(s string) string {
	mimeType, size, ok := strings.Cut(s, ":")
	n, err := strconv.Atoi(size)
	if !ok || err != nil {
		return s
	}
	return schematest.Image(mimeType, n)
}

// promptLine is the last line of a prompt in the trace.
func promptLine(c Cue) string {
	if n := len(c.Args); n > 1 {
		return fmt.Sprintf("trace image %q", schemas.DescribeImage(picture(c.Arg(n-1))))
	}
	return fmt.Sprintf("trace user %q", c.Arg(0))
}
