package scripted

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"braid/llm"
	"braid/schemas"

	"github.com/go-json-experiment/json/jsontext"
)

// expectation is what a request must be like. A nil expectation fits every request.
type expectation struct {
	line    int
	attempt int
	system  *matcher
	tools   []string
	input   []*matcher
}

// mismatch returns "" if the request fits, else a text that shows where it does not: lines with
// "-" are wanted, lines with "+" are there instead, the others are as they should be.
func (e *expectation) mismatch(req llm.Request) string {
	if e == nil {
		return ""
	}
	var d diff
	if e.attempt != 0 && e.attempt != req.Attempt {
		d.section("attempt")
		d.differ(fmt.Sprint(e.attempt), fmt.Sprint(req.Attempt))
	}
	if e.system != nil && !e.system.fits(content{text: req.System}) {
		d.section("system")
		d.differ(e.system.source, quote(req.System))
	}
	e.compareTools(&d, req.Tools)
	e.compareInput(&d, req.Input)
	return d.String()
}

func (e *expectation) compareTools(d *diff, tools []schemas.ToolDefinition) {
	var offered, missing []string
	for _, t := range tools {
		offered = append(offered, t.Name)
	}
	for _, name := range e.tools {
		if !slices.Contains(offered, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		d.section("tools")
		d.differ(strings.Join(missing, ", "), "["+strings.Join(offered, ", ")+"]")
	}
}

func (e *expectation) compareInput(d *diff, input []schemas.Message) {
	n := len(e.input)
	if n == 0 {
		return
	}
	missing := max(0, n-len(input))
	last := input[max(0, len(input)-n):]
	fits := missing == 0
	for i, m := range last {
		fits = fits && e.input[missing+i].fits(contentOf(m))
	}
	if fits {
		return
	}
	d.section(fmt.Sprintf("input (the last %d of %d messages)", len(last), len(input)))
	for i, want := range e.input {
		switch {
		case i < missing:
			d.differ(want.source, "no message")
		case want.fits(contentOf(last[i-missing])):
			d.same(contentOf(last[i-missing]).String())
		default:
			d.differ(want.source, contentOf(last[i-missing]).String())
		}
	}
}

// diff is a text that shows differences.
type diff struct{ strings.Builder }

func (d *diff) section(name string)      { fmt.Fprintf(d, "  %s:\n", name) }
func (d *diff) same(have string)         { fmt.Fprintf(d, "      %s\n", have) }
func (d *diff) differ(want, have string) { fmt.Fprintf(d, "    - %s\n    + %s\n", want, have) }

// matcher says what one message must be like.
type matcher struct {
	// source is the matcher as the script has it, on one line.
	source string

	role       schemas.Role
	kind       schemas.Kind
	sender     schemas.Sender
	stopReason schemas.StopReason
	name       string
	contains   []string
	lacks      []string
	equals     *string
	fidelity   jsontext.Value
	image      []string
	images     *int
}

func (m *matcher) fits(c content) bool {
	switch {
	case m.role != "" && m.role != c.role,
		m.kind != "" && m.kind != c.kind,
		m.sender != "" && m.sender != c.sender,
		m.stopReason != "" && m.stopReason != c.stopReason,
		m.name != "" && m.name != c.name,
		m.equals != nil && *m.equals != c.text,
		m.images != nil && *m.images != len(c.images),
		m.fidelity != nil && !bytes.Equal(m.fidelity, c.fidelity):
		return false
	}
	for _, s := range m.image {
		if !slices.ContainsFunc(c.images, func(i string) bool { return strings.Contains(i, s) }) {
			return false
		}
	}
	for _, s := range m.contains {
		if !strings.Contains(c.text, s) {
			return false
		}
	}
	for _, s := range m.lacks {
		if strings.Contains(c.text, s) {
			return false
		}
	}
	return true
}

// content is what matchers look at of a message.
type content struct {
	kind       schemas.Kind
	role       schemas.Role
	sender     schemas.Sender
	stopReason schemas.StopReason // never empty for a message
	name       string
	text       string
	fidelity   jsontext.Value
	images     []string // descriptions of its pictures
}

func contentOf(m schemas.Message) content {
	c := content{kind: m.Kind()}
	switch p := m.Payload.(type) {
	case *schemas.Text:
		c.role, c.text, c.sender, c.stopReason, c.fidelity = p.Role, p.Text, p.Sender, p.StopReason, p.Fidelity
		if c.sender == "" && c.role == schemas.RoleUser {
			c.sender = schemas.SenderUser
		}
	case *schemas.Thinking:
		c.role, c.text, c.stopReason, c.fidelity = p.Role, p.Thinking, p.StopReason, p.Fidelity
	case *schemas.InlineThinking:
		c.role, c.text, c.stopReason, c.fidelity = p.Role, p.Data, p.StopReason, p.Fidelity
	case *schemas.ToolCall:
		c.role, c.text, c.name, c.stopReason, c.fidelity = p.Role, p.Arguments, p.Name, p.StopReason, p.Fidelity
	case *schemas.ToolCallOutput:
		c.role, c.text, c.stopReason, c.fidelity = p.Role, p.Output, p.StopReason, p.Fidelity
		for _, url := range p.Images {
			c.images = append(c.images, schemas.DescribeImage(url))
		}
	case *schemas.ImageURL:
		c.role, c.text, c.stopReason, c.fidelity = p.Role, p.ImageURL, p.StopReason, p.Fidelity
		c.images = []string{schemas.DescribeImage(p.ImageURL)}
	case *schemas.InlineData:
		c.role, c.text, c.stopReason, c.fidelity = p.Role, p.Data, p.StopReason, p.Fidelity
	}
	if c.stopReason == "" {
		c.stopReason = schemas.StopCompleted
	}
	return c
}

// prompt reports whether the message is a text that somebody sent, not the harness.
func (c content) prompt() bool {
	return c.kind == schemas.KindText && c.role == schemas.RoleUser && c.sender != schemas.SenderHarness
}

// String describes the content on one line.
func (c content) String() string {
	s := string(c.role) + " " + string(c.kind)
	if c.name != "" {
		s += " " + c.name
	}
	if c.kind != schemas.KindImageURL { // described below
		s += " " + quote(c.text)
	}
	for _, i := range c.images {
		s += " [image: " + i + "]"
	}
	if c.stopReason != schemas.StopCompleted {
		s += " (" + string(c.stopReason) + ")"
	}
	if c.fidelity != nil {
		s += " fidelity " + string(c.fidelity)
	}
	return s
}

// quote quotes a text for a message, cut in the middle if it is long.
func quote(s string) string {
	const half = 100
	if runes := []rune(s); len(runes) > 2*half+20 {
		cut := len(runes) - 2*half
		return fmt.Sprintf("%q (%d more) %q", string(runes[:half]), cut, string(runes[len(runes)-half:]))
	}
	return fmt.Sprintf("%q", s)
}
