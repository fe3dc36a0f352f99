package schematest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"braid/schemas"
)

// Step is one step of a timeline: a message, or what happens between messages.
type Step struct {
	// Line is the line of the timeline, from 1.
	Line int
	// Entry is the message; unset when Gap or Finish is set.
	Entry schemas.Entry
	// Gap: live frames were lost here. Finish: the stream is finished here.
	Gap, Finish bool
	// Want are the rules that the step is expected to break.
	Want []schemas.RuleName
}

// start is the timestamp of the first message of a timeline.
var start = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

// Parse reads a timeline. An error names the line.
func Parse(timeline string) ([]Step, error) {
	var p parser
	for i, line := range strings.Split(timeline, "\n") {
		words, err := split(line)
		if err == nil && len(words) > 0 {
			err = p.line(i+1, words)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %q: %w", i+1, line, err)
		}
	}
	return p.steps, nil
}

// MustParse returns the messages of a timeline and panics if it can't be read.
func MustParse(timeline string) []schemas.Entry {
	steps, err := Parse(timeline)
	if err != nil {
		panic(err)
	}
	var entries []schemas.Entry
	for _, s := range steps {
		if !s.Gap && !s.Finish {
			entries = append(entries, s.Entry)
		}
	}
	return entries
}

type parser struct {
	steps []Step
	last  schemas.Position
	count int
}

// split cuts a line into words and takes quotes and comments away.
func split(line string) ([]string, error) {
	var words []string
	for rest := strings.TrimSpace(line); rest != "" && rest[0] != '#'; rest = strings.TrimSpace(rest) {
		if rest[0] == '"' {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, fmt.Errorf("unfinished quotes in %q", rest)
			}
			word, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, err
			}
			words, rest = append(words, word), rest[len(quoted):]
			continue
		}
		end := strings.IndexAny(rest, " \t")
		if end < 0 {
			end = len(rest)
		}
		if name, value, ok := strings.Cut(rest, `="`); ok && len(name) < end { // name="quoted"
			quoted, err := strconv.QuotedPrefix(`"` + value)
			if err != nil {
				return nil, fmt.Errorf("unfinished quotes in %q", rest)
			}
			word, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, err
			}
			words, rest = append(words, name+"="+word), rest[len(name)+1+len(quoted):]
			continue
		}
		words, rest = append(words, rest[:end]), rest[end:]
	}
	return words, nil
}

func (p *parser) line(n int, words []string) error {
	step := Step{Line: n}
	for i, w := range words {
		if w == "!" {
			for _, rule := range words[i+1:] {
				step.Want = append(step.Want, schemas.RuleName(rule))
			}
			words = words[:i]
			break
		}
	}
	switch {
	case len(words) == 0:
		return fmt.Errorf("no message")
	case words[0] == "gap":
		step.Gap = true
		p.steps = append(p.steps, step)
		return nil
	case words[0] == "finish":
		step.Finish = true
		p.steps = append(p.steps, step)
		return nil
	}
	return p.message(step, words)
}

// message reads position, origin and scope, then the payloads of the line.
func (p *parser) message(step Step, words []string) error {
	sameFrame := false
	next := schemas.Position{Sequence: p.last.Sequence + 1}
	switch w := words[0]; {
	case w == "+":
		sameFrame, words = true, words[1:]
	case strings.HasPrefix(w, "@"):
		var err error
		if next.Sequence, err = strconv.ParseUint(w[1:], 10, 64); err != nil {
			return fmt.Errorf("bad sequence %q", w)
		}
		words = words[1:]
	}
	var origin []string
	if len(words) > 0 && strings.HasSuffix(words[0], ":") {
		origin, words = strings.Split(strings.TrimSuffix(words[0], ":"), "/"), words[1:]
	}
	scope := schemas.ScopeAll
	if len(words) > 0 && words[0] == "trace" {
		scope, words = schemas.ScopeTrace, words[1:]
	}
	payloads, err := parsePayloads(words)
	if err != nil {
		return err
	}
	for i, payload := range payloads {
		if sameFrame {
			next = schemas.Position{Sequence: p.last.Sequence, Line: p.last.Line + 1}
		} else if i > 0 {
			next = schemas.Position{Sequence: p.last.Sequence + 1}
		}
		m := schemas.New(start.Add(time.Duration(p.count)*time.Millisecond), payload)
		m.Origin, m.Scope = origin, scope
		s := Step{Line: step.Line, Entry: schemas.Entry{Position: next, Message: m}}
		if i == len(payloads)-1 {
			s.Want = step.Want
		}
		p.steps, p.last = append(p.steps, s), next
		p.count++
	}
	return nil
}
