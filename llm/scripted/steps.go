package scripted

import (
	"time"
	"unicode/utf8"

	"braid/llm"
	"braid/schemas"

	"github.com/goccy/go-yaml/ast"
)

// This file reads the steps of a script: what the model says in one answer, piece by piece, and what
// happens in between. The steps become ops, which run.go plays.

func (p *scriptParser) steps(n ast.Node) []op {
	ops := []op{}
	p.calls = 0
	if seq, ok := n.(*ast.SequenceNode); ok && len(seq.Values) == 0 {
		return ops // a model that says nothing
	}
	p.list(n, "steps", func(n ast.Node) { ops = append(ops, p.step(n)...) })
	return ops
}

// speech is something said, while it is read.
type speech struct {
	open   *opOpen
	pieces ast.Node // a text or a list of pieces; nil: source is what is said
	source string

	deltas   int64
	pace     time.Duration
	fidelity op
}

// step reads one step into what it lets happen.
func (p *scriptParser) step(n ast.Node) []op {
	before := len(p.errs)
	heads, options := 0, 0
	var said speech
	var happens op
	say := func(kind schemas.Kind) func(ast.Node) {
		return func(n ast.Node) { heads++; said.open, said.pieces = &opOpen{kind: kind}, n }
	}
	known := fields{
		"text":      say(schemas.KindText),
		"thinking":  say(schemas.KindThinking),
		"tool_call": func(n ast.Node) { heads++; p.toolCall(n, &said) },
		"deltas":    func(n ast.Node) { options++; said.deltas = p.number(n, 1) },
		"pace":      func(n ast.Node) { options++; said.pace = p.duration(n) },
		"fidelity":  func(n ast.Node) { options++; said.fidelity = &opFidelity{p.object(n)} },
	}
	for key, read := range p.happenings() {
		known[key] = func(n ast.Node) { heads++; happens = read(n) }
	}
	p.mapping(n, "step", known)
	switch {
	case len(p.errs) > before:
		return nil
	case heads != 1:
		p.errorf(lineOf(n), "a step is one of text, thinking, tool_call, pause, wait, usage, fail, cut, hang, panic; this has %d of them", heads)
		return nil
	case happens != nil && options > 0:
		p.errorf(lineOf(n), "deltas, pace and fidelity belong to text, thinking and tool_call")
		return nil
	case happens != nil:
		return []op{happens}
	}
	return p.segment(&said)
}

// segment is what saying something comes to.
func (p *scriptParser) segment(s *speech) []op {
	ops := []op{s.open}
	if s.fidelity != nil {
		ops = append(ops, s.fidelity)
	}
	add := func(delta string) {
		if s.pace > 0 {
			ops = append(ops, &opPause{s.pace})
		}
		ops = append(ops, &opDelta{kind: s.open.kind, delta: delta})
	}
	seq, isList := s.pieces.(*ast.SequenceNode)
	switch {
	case isList && s.deltas > 0:
		p.errorf(lineOf(s.pieces), "a list of pieces is cut already: deltas is for a text in one piece")
	case isList:
		for _, n := range seq.Values {
			p.piece(n, add, func(o op) { ops = append(ops, o) })
		}
	default:
		text := s.source
		if s.pieces != nil {
			text = p.text(s.pieces)
		}
		for _, delta := range cut(text, int(max(s.deltas, 1))) {
			add(delta)
		}
	}
	return append(ops, opClose{})
}

// piece reads one piece of what is said: a delta, or something that happens in the middle.
func (p *scriptParser) piece(n ast.Node, add func(string), happen func(op)) {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
	default:
		add(p.text(n))
		return
	}
	if entries := p.entries(n, "piece"); len(entries) != 1 {
		p.errorf(lineOf(n), "a piece is a text or one thing that happens; this has %d", len(entries))
		return
	}
	known := fields{}
	for key, read := range p.happenings() {
		known[key] = func(n ast.Node) { happen(read(n)) }
	}
	p.mapping(n, "piece", known)
}

func (p *scriptParser) toolCall(n ast.Node, s *speech) {
	p.calls++
	s.open = &opOpen{kind: schemas.KindToolCall, index: p.calls}
	s.source = "{}"
	named := false
	p.mapping(n, "tool call", fields{
		"name": func(n ast.Node) { named, s.open.name = true, p.text(n) },
		"id":   func(n ast.Node) { s.open.id = p.text(n) },
		"arguments": func(n ast.Node) {
			switch n.(type) {
			case *ast.MappingNode, *ast.MappingValueNode:
				s.source = string(p.object(n))
			default:
				s.pieces = n
			}
		},
	})
	if !named {
		p.errorf(lineOf(n), "a tool call needs a name")
	}
}

// happenings are the steps that are not said, by key.
func (p *scriptParser) happenings() map[string]func(ast.Node) op {
	return map[string]func(ast.Node) op{
		"pause": func(n ast.Node) op { return &opPause{p.duration(n)} },
		"wait":  func(n ast.Node) op { return &opWait{p.gateName(n)} },
		"hang":  func(n ast.Node) op { return &opHang{p.gateName(n)} },
		"usage": p.usage,
		"fail":  p.fail,
		"cut":   p.cut,
		"panic": func(n ast.Node) op { return &opPanic{p.text(n)} },
	}
}

func (p *scriptParser) gateName(n ast.Node) string {
	name := p.text(n)
	if _, ok := p.script.gates[name]; !ok {
		p.script.gates[name] = newGate()
	}
	return name
}

func (p *scriptParser) usage(n ast.Node) op {
	o := &opUsage{}
	p.mapping(n, "usage", fields{
		"cache_read":  func(n ast.Node) { o.counts.CacheRead = p.number(n, 0) },
		"cache_write": func(n ast.Node) { o.counts.CacheWrite = p.number(n, 0) },
		"output":      func(n ast.Node) { o.counts.Output = p.number(n, 0) },
		"total":       func(n ast.Node) { o.counts.Total = p.number(n, 0) },
	})
	return o
}

func (p *scriptParser) fail(n ast.Node) op {
	o := &opEnd{status: schemas.StopFailed, err: llm.Error{
		Kind: llm.KindProvider, Provider: ProviderName, Message: "the script lets this request fail",
	}}
	retryable := (*bool)(nil)
	p.mapping(n, "failure", fields{
		"message": func(n ast.Node) { o.err.Message = p.text(n) },
		"kind":    func(n ast.Node) { o.err.Kind = p.oneOf(n, llm.KindProvider, llm.KindInput, llm.KindContext) },
		"status": func(n ast.Node) {
			o.status = schemas.StopReason(p.oneOf(n, "failed", "timeout", "malformed", "auth", "aborted"))
		},
		"status_code": func(n ast.Node) { o.err.StatusCode = int(p.number(n, 0)) },
		"retry_after": func(n ast.Node) { o.err.RetryAfter = p.duration(n) },
		"retryable":   func(n ast.Node) { b := p.boolean(n); retryable = &b },
	})
	o.err.Retryable = o.status != schemas.StopAuth && o.err.Kind == llm.KindProvider
	if retryable != nil {
		o.err.Retryable = *retryable
	}
	return o
}

func (p *scriptParser) cut(n ast.Node) op {
	o := &opEnd{status: schemas.StopMalformed, err: llm.Error{
		Kind: llm.KindProvider, Provider: ProviderName, Retryable: true,
		Message: "the stream ended without its terminal marker",
	}}
	if p.oneOf(n, "true", "timeout") == "timeout" {
		o.status, o.err.Message = schemas.StopTimeout, "the stream fell silent"
	}
	return o
}

// cut cuts a text into n parts of about the same number of characters; fewer if it is shorter.
func cut(text string, n int) []string {
	length := utf8.RuneCountInString(text)
	if n = min(n, length); n <= 1 {
		return []string{text}
	}
	runes := []rune(text)
	parts := make([]string, n)
	for i := range parts {
		parts[i] = string(runes[i*length/n : (i+1)*length/n])
	}
	return parts
}
