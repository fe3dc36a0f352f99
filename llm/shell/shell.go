package shell

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"braid/llm"
	"braid/schemas"
)

// The names the provider goes by, and the tool its model calls.
const (
	ProviderName = "shell"
	ModelName    = "demo"
	ToolName     = "exec_command"
)

// Provider is the provider "shell". Its zero value is ready to use.
type Provider struct {
	// Delay is the pause before each delta, to look like a model that thinks; 0 means none.
	Delay time.Duration
	// Now is the clock that stamps messages; nil means time.Now.
	Now func() time.Time
}

// Name implements [llm.Provider].
func (p *Provider) Name() string { return ProviderName }

// Models implements [llm.Provider].
func (p *Provider) Models() []string { return []string{ModelName} }

// Model implements [llm.Provider].
func (p *Provider) Model(name string) (llm.Model, error) {
	if name != ModelName {
		return nil, schemas.Errorf(schemas.CodeUnknownModel, "provider shell has no model %q, only demo", name)
	}
	return &model{delay: p.Delay, now: p.Now}, nil
}

const help = `I am a demonstration and no language model. I run commands: write each on a line of its own, after a dollar sign. For example:

$ pwd
$ ls -l

I call the tool exec_command once for each line and then tell you how they went.`

type model struct {
	delay time.Duration
	now   func() time.Time
}

// Info implements [llm.Model]: it reads commands and nothing else.
func (m *model) Info() llm.Info { return llm.Info{} }

// Stream implements [llm.Model].
func (m *model) Stream(ctx context.Context, req llm.Request, emit func(schemas.Message) error) llm.Outcome {
	out := &speaker{ctx: ctx, delay: m.delay, Emitter: llm.NewEmitter(emit, m.now)}
	if err := answer(out, req.Input); err != nil {
		if ctx.Err() != nil {
			return out.End(llm.Interrupted(ctx))
		}
		return out.End(llm.Outcome{Status: schemas.StopFailed, Error: &llm.Error{
			Kind: llm.KindEngine, Provider: ProviderName, Message: err.Error(), Cause: err,
		}})
	}
	return out.End(llm.Completed(nil))
}

// answer says what the newest of the input asks for.
func answer(out *speaker, input []schemas.Message) error {
	prompt, isPrompt := newest(input)
	if !isPrompt {
		return out.text(summary(input))
	}
	commands := commandsOf(prompt)
	if len(commands) == 0 {
		return out.text(help)
	}
	if err := out.text(announcement(len(commands))); err != nil {
		return err
	}
	first := countCalls(input) + 1
	for i, command := range commands {
		if err := out.call(fmt.Sprintf("call_%d", first+i), command); err != nil {
			return err
		}
	}
	return nil
}

// newest is the text of the prompt if that is what the input ends with; false if it ends with
// tool outputs. What the harness adds to a context is not a prompt and not an end.
func newest(input []schemas.Message) (string, bool) {
	for _, m := range slices.Backward(input) {
		switch p := m.Payload.(type) {
		case *schemas.ToolCallOutput:
			return "", false
		case *schemas.Text:
			if p.Role == schemas.RoleUser && p.Sender != schemas.SenderHarness {
				return p.Text, true
			}
		}
	}
	return "", true
}

// commandsOf returns the commands of a prompt: its lines that start with a dollar sign.
func commandsOf(prompt string) []string {
	var commands []string
	for line := range strings.Lines(prompt) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "$")
		if command = strings.TrimSpace(command); ok && command != "" {
			commands = append(commands, command)
		}
	}
	return commands
}

func announcement(n int) string {
	if n == 1 {
		return "I will run this command."
	}
	return fmt.Sprintf("I will run these %d commands.", n)
}

func countCalls(input []schemas.Message) int {
	n := 0
	for _, m := range input {
		if _, ok := m.Payload.(*schemas.ToolCall); ok {
			n++
		}
	}
	return n
}

// speaker emits at the pace of the model.
type speaker struct {
	*llm.Emitter
	ctx   context.Context //nolint:containedctx // of the one request the speaker lives for
	delay time.Duration
}

// text says a text word by word.
func (s *speaker) text(text string) error {
	for _, word := range words(text) {
		if err := s.pause(); err != nil {
			return err
		}
		if err := s.Text(word); err != nil {
			return err
		}
	}
	return nil
}

// call calls the tool with the command.
func (s *speaker) call(id, command string) error {
	arguments, err := schemas.EncodeJSON(struct {
		Command string `json:"command"`
	}{command})
	if err != nil {
		return fmt.Errorf("write the arguments of a call: %w", err)
	}
	if err := s.ToolCallStart(id, ToolName); err != nil {
		return err
	}
	for _, word := range words(string(arguments)) {
		if err := s.pause(); err != nil {
			return err
		}
		if err := s.ToolCallArgs(word); err != nil {
			return err
		}
	}
	return s.Close()
}

// pause waits before a delta, or until ctx ends.
func (s *speaker) pause() error {
	if s.delay <= 0 {
		return context.Cause(s.ctx)
	}
	timer := time.NewTimer(s.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// words cuts a text into words, each with the space after it. Joined they are the text.
func words(text string) []string {
	var out []string
	start, inSpace := 0, false
	for i, r := range text {
		space := unicode.IsSpace(r)
		if inSpace && !space {
			out = append(out, text[start:i])
			start = i
		}
		inSpace = space
	}
	if start < len(text) {
		out = append(out, text[start:])
	}
	return out
}
