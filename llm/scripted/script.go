package scripted

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"braid/llm"
	"braid/schemas"
)

// Script is a model that says what its file tells it to. It is safe for concurrent use and keeps
// nothing of a request, except which gates are open.
type Script struct {
	// Now is the clock that stamps messages; nil means time.Now. Set it before the first use.
	Now func() time.Time
	// Wait is what requests do at gates; nil means they wait until the gate is released, or ctx ends.
	// A test that has no second goroutine tells here whether and when they go on; an error from it is
	// that of ctx. Set it before the first use.
	Wait func(ctx context.Context, gate string) error

	file    string
	repeat  bool
	blind   bool    // it sees no pictures
	window  int64   // in tokens; 0 if it has no end
	prompts bool    // turns are counted from the last prompt on
	turns   []*turn // by number
	aside   []*turn // those with "when", outside of the count
	gates   map[string]*gate
}

// turn is what the model does when it is its turn.
type turn struct {
	line     int
	name     string
	when     *expectation
	attempts []*attempt
}

// attempt is what it does at one attempt.
type attempt struct {
	line   int
	expect *expectation
	ops    []op
}

// Parse reads a script. The error joins everything that is wrong, each an *[ParseError].
func Parse(data []byte) (*Script, error) { return parse("script", data) }

// Load reads the script at path. Errors name the file.
func Load(path string) (*Script, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load script: %w", err)
	}
	return parse(filepath.Base(path), data)
}

// Release opens a gate, for good: every request that waits at it goes on, and none will wait at
// it again. Opening it twice is nothing. The script must have a gate of that name.
func (s *Script) Release(name string) error {
	g, err := s.gate(name)
	if err != nil {
		return err
	}
	g.release()
	return nil
}

// Reached returns when a request waits at the gate, or has waited at it before, or ctx ends.
func (s *Script) Reached(ctx context.Context, name string) error {
	g, err := s.gate(name)
	if err != nil {
		return err
	}
	select {
	case <-g.reached:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no request has reached gate %q of %s: %w", name, s.file, context.Cause(ctx))
	}
}

func (s *Script) gate(name string) (*gate, error) {
	g, ok := s.gates[name]
	if !ok {
		return nil, fmt.Errorf("%s has no gate %q", s.file, name)
	}
	return g, nil
}

// Info implements [llm.Model].
func (s *Script) Info() llm.Info { return llm.Info{Vision: !s.blind, Window: s.window} }

// Stream implements [llm.Model].
func (s *Script) Stream(ctx context.Context, req llm.Request, emit func(schemas.Message) error) llm.Outcome {
	r := &run{ctx: ctx, script: s, Emitter: llm.NewEmitter(emit, s.Now)}
	t, number, err := s.choose(req)
	if err != nil {
		return r.End(refused(err))
	}
	a := t.attempts[min(max(req.Attempt, 1), len(t.attempts))-1]
	if diff := a.expect.mismatch(req); diff != "" {
		return r.End(refused(fmt.Errorf("%s:%d: %s, attempt %d, expects another request\n%s",
			s.file, a.expect.line, t.title(number), req.Attempt, diff)))
	}
	r.number = number
	return r.do(a.ops)
}

// choose returns the turn that answers the request, and its number from 0.
func (s *Script) choose(req llm.Request) (*turn, int, error) {
	number := s.countTurns(req.Input)
	for _, t := range s.aside {
		if t.when.mismatch(req) == "" {
			return t, number, nil
		}
	}
	i := number
	if s.repeat && len(s.turns) > 0 {
		i %= len(s.turns)
	}
	if i >= len(s.turns) {
		return nil, 0, fmt.Errorf("%s has %d turns, and this request is for turn %d", s.file, len(s.turns), number+1)
	}
	return s.turns[i], number, nil
}

// countTurns counts the assistant's turns in the input: messages of role assistant that follow
// one another are one turn.
func (s *Script) countTurns(input []schemas.Message) int {
	n, inTurn := 0, false
	for _, m := range input {
		c := contentOf(m)
		assistant := c.role == schemas.RoleAssistant
		if assistant && !inTurn {
			n++
		}
		inTurn = assistant
		if s.prompts && c.prompt() {
			n = 0
		}
	}
	return n
}

func (t *turn) title(number int) string {
	title := fmt.Sprintf("turn %d", number+1)
	if t.when != nil {
		title = "a turn out of the count"
	}
	if t.name != "" {
		title += " (" + t.name + ")"
	}
	return title
}

// refused is the outcome of a request the script has no answer to: trying again is no use.
func refused(err error) llm.Outcome {
	return llm.Outcome{Status: schemas.StopFailed, Error: &llm.Error{
		Kind: llm.KindInput, Provider: ProviderName, Message: err.Error(),
	}}
}
