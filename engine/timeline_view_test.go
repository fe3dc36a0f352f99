package engine

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"braid/bus"
	"braid/llm"
	"braid/llm/scripted"
	"braid/schemas"
	"braid/schemas/schematest"
)

// callNames gives the calls of a session the names A, B, ... in the order in which they appear.
type callNames struct {
	mu    sync.Mutex
	names map[string]string // by call id
}

var callID = regexp.MustCompile(`\bc\d+-\d+\b`)

// line renders a message, with the names of calls in place of their ids.
func (c *callNames) line(m schemas.Message) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return callID.ReplaceAllStringFunc(schematest.FormatMessage(m), func(id string) string {
		if c.names[id] == "" {
			c.names[id] = string(rune('A' + len(c.names)))
		}
		return c.names[id]
	})
}

// id is the call of that name; empty if it has not appeared.
func (c *callNames) id(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, n := range c.names {
		if n == name {
			return id
		}
	}
	return ""
}

// render writes entries as a timeline. It leaves out the outcomes of what the broker's clock sends:
// how often it sends it depends on the machine.
func (c *callNames) render(entries []schemas.Entry) string {
	var b strings.Builder
	entries = slices.DeleteFunc(joined(entries), func(e schemas.Entry) bool {
		p, ok := e.Message.Payload.(*schemas.CommandOutcome)
		return ok && p.Command == schemas.CommandDeadline
	})
	for i, e := range entries {
		if i > 0 && e.Position.Sequence == entries[i-1].Position.Sequence && sharesFrame(e.Message) {
			b.WriteString("+ ")
		}
		b.WriteString(c.line(e.Message) + "\n")
	}
	return b.String()
}

// sharesFrame reports that a message must be in the frame of the one before it.
func sharesFrame(m schemas.Message) bool {
	switch p := m.Payload.(type) {
	case *schemas.RequestEnd:
		return p.Status == schemas.StopCompleted
	case *schemas.BudgetExceeded, *schemas.LoopDetected:
		return true
	}
	return false
}

// renderInput writes what a request sends to the model.
func (c *callNames) renderInput(r llm.Request) string {
	var b strings.Builder
	if r.Attempt > 1 {
		fmt.Fprintf(&b, "# attempt %d\n", r.Attempt)
	}
	if r.System != "" {
		fmt.Fprintf(&b, "system %q\n", r.System)
	}
	for _, m := range r.Input {
		m.Scope = schemas.ScopeAll
		b.WriteString(c.line(m) + "\n")
	}
	return b.String()
}

// joined joins the deltas of one segment that follow one another.
func joined(entries []schemas.Entry) (out []schemas.Entry) {
	for _, e := range entries {
		if n := len(out); n > 0 {
			if m, ok := join(out[n-1].Message, e.Message); ok {
				out[n-1].Message = m
				continue
			}
		}
		out = append(out, e)
	}
	return out
}

// join is two deltas as one; false if they are not of one segment.
func join(m, next schemas.Message) (schemas.Message, bool) {
	const delta = schemas.PhaseDelta
	switch a := m.Payload.(type) {
	case *schemas.PartialText:
		if b, ok := next.Payload.(*schemas.PartialText); ok && a.EventType == delta && b.EventType == delta {
			m.Payload = schemas.TextFragment(delta, a.Text+b.Text)
			return m, true
		}
	case *schemas.PartialThinking:
		if b, ok := next.Payload.(*schemas.PartialThinking); ok && a.EventType == delta && b.EventType == delta {
			m.Payload = schemas.ThinkingFragment(delta, a.Thinking+b.Thinking)
			return m, true
		}
	case *schemas.PartialToolCall:
		if b, ok := next.Payload.(*schemas.PartialToolCall); ok && a.EventType == delta && b.EventType == delta {
			m.Payload = schemas.ToolCallFragment(delta, a.ToolCallID, "", a.Arguments+b.Arguments)
			return m, true
		}
	case *schemas.PartialToolCallOutput:
		if b, ok := next.Payload.(*schemas.PartialToolCallOutput); ok && a.EventType == delta && b.EventType == delta &&
			a.ToolCallID == b.ToolCallID && a.Attempt == b.Attempt && len(a.Images)+len(b.Images) == 0 {
			p := *b
			p.Output = a.Output + b.Output
			m.Payload = &p
			return m, true
		}
	}
	return m, false
}

// audience watches a session live, from its beginning, and keeps all that it sees.
type audience struct {
	names *callNames

	mu      sync.Mutex
	entries []schemas.Entry
	lines   []string
	problem error
	changed chan struct{} // closed and renewed when any of these changes
}

// watch starts an audience; it leaves at the end of the test.
func watch(t *testing.T, conn *bus.Conn, names *callNames) *audience {
	t.Helper()
	a := &audience{names: names, changed: make(chan struct{})}
	ctx, leave := context.WithCancel(context.Background())
	f, err := conn.Follow(ctx, ref, bus.FollowOptions{Beginning: true})
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		defer f.Close()
		for ctx.Err() == nil {
			ev, err := f.Next(ctx)
			a.take(ev, err)
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(func() { leave(); done.Wait() })
	return a
}

func (a *audience) take(ev bus.Event, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch ev := ev.(type) {
	case bus.Frame:
		if ev.AfterGap {
			err = errors.New("fragments are missing")
		}
		for _, e := range ev.Entries() {
			a.entries = append(a.entries, e)
			a.lines = append(a.lines, a.names.line(e.Message))
		}
	case bus.ResyncEvent:
		err = fmt.Errorf("the stream begins anew: %+v", ev)
	}
	if a.problem == nil {
		a.problem = err
	}
	close(a.changed)
	a.changed = make(chan struct{})
}

// seen is everything seen so far.
func (a *audience) seen() []schemas.Entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.entries)
}

// look finds the first line from the given one on that matches; -1 if there is none, and then
// changed tells when it is worth looking again.
func (a *audience) look(from int, match func(string) bool) (at int, changed <-chan struct{}, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.IndexFunc(a.lines[from:], match); i >= 0 {
		return from + i, nil, nil
	}
	return -1, a.changed, a.problem
}

// reaches reports whether the audience has seen the frame of that sequence.
func (a *audience) reaches(sequence uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.entries) > 0 && a.entries[len(a.entries)-1].Position.Sequence >= sequence
}

// atRest reports that every prompt seen has the end of its task behind it.
func (a *audience) atRest() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	rest := false
	for _, l := range a.lines {
		switch {
		case strings.HasPrefix(l, "trace user "):
			rest = false
		case strings.HasPrefix(l, "event task_end "):
			rest = true
		}
	}
	return rest
}

func (a *audience) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var b strings.Builder
	for i, l := range a.lines {
		b.WriteString(strconv.Itoa(i) + "\t" + l + "\n")
	}
	return b.String()
}

// rememberedModels are scripted models that remember what they were asked.
type rememberedModels struct {
	*scripted.Provider
	mu       sync.Mutex
	requests []llm.Request
}

// Model implements [llm.Provider].
func (p *rememberedModels) Model(name string) (llm.Model, error) {
	m, err := p.Provider.Model(name)
	return rememberedModel{m, p}, err
}

func (p *rememberedModels) asked() []llm.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

type rememberedModel struct {
	llm.Model
	all *rememberedModels
}

// Stream implements [llm.Model].
func (m rememberedModel) Stream(ctx context.Context, req llm.Request, emit func(schemas.Message) error) llm.Outcome {
	m.all.mu.Lock()
	m.all.requests = append(m.all.requests, req)
	m.all.mu.Unlock()
	return m.Model.Stream(ctx, req, emit)
}
