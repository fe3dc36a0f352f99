package schemas

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of the input of a task.
const (
	// MaxInput bounds all of it, in bytes: texts, arguments, outputs, and pictures in base64.
	MaxInput = 20 << 20
	// MaxInputTurns bounds the turns, the prompt included.
	MaxInputTurns = 500
	// MaxInputParts bounds the parts of all turns.
	MaxInputParts = 2000
	// MaxInputImages bounds the pictures of all turns, those of outputs included.
	MaxInputImages = 100
	// MaxInputCallID bounds the id of a call, in bytes.
	MaxInputCallID = 256
)

func (b *TaskBody) validate() error {
	if b.WhenBusy != "" {
		if _, err := ParseWhenBusy(string(b.WhenBusy)); err != nil {
			return err
		}
	}
	if b.Input == nil {
		return checkWords("prompt", b.Prompt)
	}
	if b.Prompt != "" {
		return invalid("input", "give prompt or input, not both: the last turn of the input is the prompt")
	}
	c := inputCheck{calls: map[string]bool{}}
	return c.check(b.Input)
}

// inputCheck goes through an input, turn by turn.
type inputCheck struct {
	bytes, parts, images int
	// calls are all calls so far; open are those of the turn before, whose outputs are missing.
	calls map[string]bool
	open  []string
}

func (c *inputCheck) check(turns []InputTurn) error {
	switch {
	case len(turns) == 0:
		return invalid("input", "input is empty")
	case len(turns) > MaxInputTurns:
		return tooLarge("input", "input has %d turns, the limit is %d", len(turns), MaxInputTurns)
	}
	for i, t := range turns {
		if err := c.turn(i, t); err != nil {
			return err
		}
	}
	last := len(turns) - 1
	if turns[last].Role != RoleUser {
		return invalid(turnPath(last)+".role", "the last turn must be the user's: it is the prompt")
	}
	if !slices.ContainsFunc(turns[last].Content, func(p InputPart) bool { return p.Type != KindToolCallOutput }) {
		return invalid(turnPath(last)+".content", "the last turn is the prompt, and has neither text nor image")
	}
	return nil
}

func (c *inputCheck) turn(i int, t InputTurn) error {
	path := turnPath(i)
	if err := known(path, t.Extra); err != nil {
		return err
	}
	expected := RoleUser
	if i%2 == 1 {
		expected = RoleAssistant
	}
	switch {
	case t.Role != RoleUser && t.Role != RoleAssistant:
		return invalid(path+".role", "role must be user or assistant")
	case t.Role != expected && i == 0:
		return invalid(path+".role", "the first turn must be the user's")
	case t.Role != expected:
		return invalid(path+".role", "turns of user and assistant alternate, and the one before is the %s's too", t.Role)
	case len(t.Content) == 0:
		return invalid(path+".content", "the turn is empty")
	}
	if c.parts += len(t.Content); c.parts > MaxInputParts {
		return tooLarge(path+".content", "input has over %d parts", MaxInputParts)
	}
	words := false // something but outputs was said
	for j := range t.Content {
		p := &t.Content[j]
		if words && p.Type == KindToolCallOutput {
			return invalid(partPath(i, j), "the outputs of calls come first in their turn")
		}
		words = words || p.Type != KindToolCallOutput
		if err := c.part(partPath(i, j), t.Role, p); err != nil {
			return err
		}
	}
	if t.Role == RoleUser && len(c.open) > 0 {
		return invalid(path+".content", "the call %.80q of the turn before has no tool_call_output", c.open[0])
	}
	return nil
}

// part checks one part, and that it has no members but its own.
func (c *inputCheck) part(path string, role Role, p *InputPart) error {
	if err := known(path, p.Extra); err != nil {
		return err
	}
	rest := *p
	rest.Type, rest.Extra = "", nil
	var err error
	switch kind := p.Type; {
	case kind == KindText:
		rest.Text = ""
		if err = checkWords(path+".text", p.Text); err == nil {
			err = c.weigh(path+".text", p.Text)
		}
	case kind == KindImageURL && role == RoleUser:
		rest.ImageURL = ""
		err = c.image(path+".image_url", p.ImageURL)
	case kind == KindToolCall && role == RoleAssistant:
		rest.ToolCallID, rest.Name, rest.Arguments = "", "", ""
		err = c.call(path, p)
	case kind == KindToolCallOutput && role == RoleUser:
		rest.ToolCallID, rest.Output, rest.Images, rest.StopReason = "", "", nil, ""
		err = c.output(path, p)
	case kind == KindImageURL, kind == KindToolCall, kind == KindToolCallOutput:
		return invalid(path+".type", "a turn of the %s has no %s", role, kind)
	default:
		return invalid(path+".type", "the type %.40q is none of text, image_url, tool_call and tool_call_output", string(kind))
	}
	if err != nil {
		return err
	}
	if member := rest.member(); member != "" {
		return invalid(path+"."+member, "a %s has no %s", p.Type, member)
	}
	return nil
}

// member is the name of a member that is set; empty if none is.
func (p *InputPart) member() string {
	switch {
	case p.Text != "":
		return "text"
	case p.ImageURL != "":
		return "image_url"
	case p.ToolCallID != "":
		return "tool_call_id"
	case p.Name != "":
		return "name"
	case p.Arguments != "":
		return "arguments"
	case p.Output != "":
		return "output"
	case p.Images != nil:
		return "images"
	case p.StopReason != "":
		return "stop_reason"
	}
	return ""
}

func (c *inputCheck) image(path, url string) error {
	if c.images++; c.images > MaxInputImages {
		return tooLarge(path, "input has over %d images", MaxInputImages)
	}
	if err := c.weigh(path, url); err != nil {
		return err
	}
	if _, err := ParseImage(url); err != nil {
		return at(path, err)
	}
	return nil
}

func (c *inputCheck) call(path string, p *InputPart) error {
	if err := c.callID(path, p.ToolCallID); err != nil {
		return err
	}
	if c.calls[p.ToolCallID] {
		return invalid(path+".tool_call_id", "the id %.80q names a call before already", p.ToolCallID)
	}
	c.calls[p.ToolCallID] = true
	c.open = append(c.open, p.ToolCallID)
	if err := at(path+".name", ValidateName("name", p.Name)); err != nil {
		return err
	}
	if err := checkText(path+".arguments", p.Arguments); err != nil {
		return err
	}
	v := jsontext.Value(p.Arguments)
	if p.Arguments != "" && (!v.IsValid() || v.Kind() != jsontext.KindBeginObject) {
		return invalid(path+".arguments", "arguments are a JSON object as text")
	}
	return c.weigh(path+".arguments", p.Arguments)
}

func (c *inputCheck) output(path string, p *InputPart) error {
	if err := c.callID(path, p.ToolCallID); err != nil {
		return err
	}
	open := slices.Index(c.open, p.ToolCallID)
	switch {
	case open < 0 && c.calls[p.ToolCallID]:
		return invalid(path+".tool_call_id", "the call %.80q is no call of the turn before, or has its output already", p.ToolCallID)
	case open < 0:
		return invalid(path+".tool_call_id", "there is no call %.80q", p.ToolCallID)
	}
	c.open = slices.Delete(c.open, open, open+1)
	if p.StopReason != "" && !slices.Contains(StopReasons(), p.StopReason) {
		return invalid(path+".stop_reason", "stop_reason is none that is known")
	}
	if err := checkText(path+".output", p.Output); err != nil {
		return err
	}
	for k, url := range p.Images {
		if err := c.image(fmt.Sprintf("%s.images[%d]", path, k), url); err != nil {
			return err
		}
	}
	return c.weigh(path+".output", p.Output)
}

func (c *inputCheck) callID(path, id string) error {
	if len(id) > MaxInputCallID {
		return tooLarge(path+".tool_call_id", "tool_call_id has %d bytes, the limit is %d", len(id), MaxInputCallID)
	}
	return checkWords(path+".tool_call_id", id)
}

// weigh adds to the size of the input.
func (c *inputCheck) weigh(path, s string) error {
	if c.bytes += len(s); c.bytes > MaxInput {
		return tooLarge(path, "input has over %d bytes", MaxInput)
	}
	return nil
}

// checkWords is checkText for a text that must say something.
func checkWords(field, s string) error {
	if strings.TrimSpace(s) == "" {
		return invalid(field, "%s is empty", lastName(field))
	}
	return checkText(field, s)
}

// checkText checks a text that models and terminals will get: valid UTF-8, without control
// characters but tabs and line ends, of at most [MaxPrompt] bytes.
func checkText(field, s string) error {
	if len(s) > MaxPrompt {
		return tooLarge(field, "%s has %d bytes, the limit is %d", lastName(field), len(s), MaxPrompt)
	}
	return checkClean(field, s)
}

func checkClean(field, s string) error {
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			return invalid(field, "%s is not valid UTF-8, from byte %d on", lastName(field), i)
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', 0x7F <= r && r < 0xA0:
			return invalid(field, "%s holds the control character U+%04X, at byte %d", lastName(field), r, i)
		}
	}
	return nil
}

// known refuses members that nobody knows: what they ask for would be left undone in silence.
func known(path string, extra jsontext.Value) error {
	if len(extra) == 0 {
		return nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(extra), decodeOptions)
	if _, err := d.ReadToken(); err != nil {
		return invalid(path, "there are members that can't be read")
	}
	name, err := d.ReadToken()
	if err != nil || name.Kind() != jsontext.KindString {
		return invalid(path, "there are members that can't be read")
	}
	return invalid(path+"."+shortName(name.String()), "there is no such member")
}

// shortName is a name from outside, fit for an error.
func shortName(s string) string {
	if len(s) > MaxNameLength {
		s = s[:MaxNameLength]
	}
	return strings.ToValidUTF8(s, "")
}

func turnPath(i int) string    { return fmt.Sprintf("input[%d]", i) }
func partPath(i, j int) string { return fmt.Sprintf("input[%d].content[%d]", i, j) }

// lastName is the last member that a path names.
func lastName(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

func invalid(field, format string, args ...any) error {
	e := Errorf(CodeInvalid, format, args...)
	e.Field = field
	return e
}

func tooLarge(field, format string, args ...any) error {
	e := Errorf(CodeTooLarge, format, args...)
	e.Field = field
	return e
}

// at is an error of this package as one of that field; nil if there is none.
func at(field string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{Code: e.Code, Field: field, Message: e.Message}
	}
	return err
}
