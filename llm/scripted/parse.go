package scripted

import (
	"errors"
	"fmt"

	"braid/schemas"

	"github.com/goccy/go-yaml/ast"
)

// maxScript bounds a script, in bytes.
const maxScript = 4 << 20

// parse reads a script; file is its name in messages.
func parse(file string, data []byte) (s *Script, err error) {
	if len(data) > maxScript {
		return nil, &ParseError{File: file, Line: 1, Message: fmt.Sprintf("the script has %d bytes, the limit is %d", len(data), maxScript)}
	}
	r := &reader{file: file}
	defer func() {
		// The YAML parser is not ours: should a file make it panic, the file is at fault.
		if p := recover(); p != nil {
			s, err = nil, &ParseError{File: file, Line: 1, Message: fmt.Sprintf("this can't be read as YAML: %v", p)}
		}
	}()
	p := &scriptParser{reader: r, script: &Script{file: file, gates: make(map[string]*gate)}}
	if root := r.document(data); root != nil {
		p.read(root)
	}
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	return p.script, nil
}

// scriptParser turns YAML into a script.
type scriptParser struct {
	*reader
	script *Script
	calls  int // tool calls of the attempt being read, to number them
}

func (p *scriptParser) read(n ast.Node) {
	s := p.script
	p.mapping(n, "script", fields{
		"repeat": func(n ast.Node) { s.repeat = p.boolean(n) },
		"vision": func(n ast.Node) { s.blind = !p.boolean(n) },
		"window": func(n ast.Node) { s.window = p.number(n, 1) },
		"count":  func(n ast.Node) { s.prompts = p.oneOf(n, "context", "prompt") == "prompt" },
		"turns": func(n ast.Node) {
			p.list(n, "turns", func(n ast.Node) {
				t := p.turn(n)
				if t.when != nil {
					s.aside = append(s.aside, t)
				} else {
					s.turns = append(s.turns, t)
				}
			})
		},
	})
	if len(s.turns)+len(s.aside) == 0 && len(p.errs) == 0 {
		p.errorf(lineOf(n), "a script needs turns")
	}
}

func (p *scriptParser) turn(n ast.Node) *turn {
	t := &turn{line: lineOf(n)}
	direct := &attempt{line: t.line}
	seen := false
	p.mapping(n, "turn", fields{
		"name":   func(n ast.Node) { t.name = p.text(n) },
		"when":   func(n ast.Node) { t.when = p.expectation(n) },
		"expect": func(n ast.Node) { seen, direct.expect = true, p.expectation(n) },
		"steps":  func(n ast.Node) { seen, direct.ops = true, p.steps(n) },
		"attempts": func(n ast.Node) {
			p.list(n, "attempts", func(n ast.Node) { t.attempts = append(t.attempts, p.attempt(n)) })
		},
	})
	switch {
	case seen && len(t.attempts) > 0:
		p.errorf(t.line, "a turn has either attempts, or expect and steps")
	case len(t.attempts) == 0 && direct.ops == nil && len(p.errs) == 0:
		p.errorf(t.line, "a turn needs steps or attempts")
	case len(t.attempts) == 0:
		t.attempts = []*attempt{direct}
	}
	return t
}

func (p *scriptParser) attempt(n ast.Node) *attempt {
	a := &attempt{line: lineOf(n)}
	p.mapping(n, "attempt", fields{
		"expect": func(n ast.Node) { a.expect = p.expectation(n) },
		"steps":  func(n ast.Node) { a.ops = p.steps(n) },
	})
	if a.ops == nil && len(p.errs) == 0 {
		p.errorf(a.line, "an attempt needs steps")
	}
	return a
}

func (p *scriptParser) expectation(n ast.Node) *expectation {
	e := &expectation{line: lineOf(n)}
	p.mapping(n, "expectation", fields{
		"attempt": func(n ast.Node) { e.attempt = int(p.number(n, 1)) },
		"system":  func(n ast.Node) { e.system = p.matcher(n) },
		"tools":   func(n ast.Node) { e.tools = p.texts(n) },
		"input": func(n ast.Node) {
			p.list(n, "input", func(n ast.Node) { e.input = append(e.input, p.matcher(n)) })
		},
	})
	return e
}

func (p *scriptParser) matcher(n ast.Node) *matcher {
	m := &matcher{}
	p.mapping(n, "matcher", fields{
		"role":   func(n ast.Node) { m.role = schemas.Role(p.oneOf(n, "user", "assistant")) },
		"sender": func(n ast.Node) { m.sender = schemas.Sender(p.oneOf(n, "user", "parent_agent", "harness", "server")) },
		"kind": func(n ast.Node) {
			m.kind = schemas.Kind(p.oneOf(n, "text", "thinking", "inline_thinking", "tool_call",
				"tool_call_output", "image_url", "inline_data"))
		},
		"stop_reason": func(n ast.Node) {
			m.stopReason = schemas.StopReason(p.oneOf(n, "completed", "failed", "aborted", "timeout", "malformed", "auth"))
		},
		"name":     func(n ast.Node) { m.name = p.text(n) },
		"contains": func(n ast.Node) { m.contains = p.texts(n) },
		"lacks":    func(n ast.Node) { m.lacks = p.texts(n) },
		"equals":   func(n ast.Node) { s := p.text(n); m.equals = &s },
		"fidelity": func(n ast.Node) { m.fidelity = p.object(n) },
		"image":    func(n ast.Node) { m.image = p.texts(n) },
		"images":   func(n ast.Node) { i := int(p.number(n, 0)); m.images = &i },
	})
	if len(p.errs) == 0 {
		m.source = string(p.object(n))
	}
	return m
}
