package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"braid/bus"
	"braid/engine/internal/timelinetest"
	"braid/llm"
	"braid/llm/scripted"
	"braid/schemas"
)

// audience watches a session live, from its beginning, and keeps all that it sees.
type audience struct {
	names *timelinetest.Names

	mu      sync.Mutex
	entries []schemas.Entry
	lines   []string
	problem error
	changed chan struct{} // closed and renewed when any of these changes
}

// watch starts an audience; it leaves at the end of the test.
func watch(t *testing.T, conn *bus.Conn, names *timelinetest.Names) *audience {
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
			a.lines = append(a.lines, a.names.Line(e.Message))
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
		case strings.HasPrefix(l, "trace user "), strings.HasPrefix(l, "trace image "):
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
