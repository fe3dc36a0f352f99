package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"braid/bus/bustest"
	"braid/engine/internal/timelinetest"
	"braid/engine/policy"
	"braid/llm"
	"braid/llm/scripted"
	"braid/schemas"
)

// stage is where a timeline's script is played. The steps are described in
// testdata/timelines/README.md, and nowhere else.
type stage struct {
	*house
	step     string // the one being played, for messages
	archive  *txtar.Archive
	scripts  map[string]*scripted.Script // by model
	models   *rememberedModels
	names    *timelinetest.Names
	audience *audience
	cursor   int // waits look at the lines from here on
	engines  map[string]*Engine
	hands    map[string]*hand
	commands timelinetest.Commands
	prices   Prices
}

func newStage(t *testing.T, archive *txtar.Archive) *stage {
	t.Helper()
	scripts, err := timelinetest.Models(archive)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{
		scripts: scripts, archive: archive,
		models: &rememberedModels{Provider: scripted.New(scripts)},
		names:  &timelinetest.Names{}, engines: map[string]*Engine{},
		hands: map[string]*hand{},
	}
	catalog, err := llm.NewCatalog(s.models)
	if err != nil {
		t.Fatal(err)
	}
	b := bustest.Single(t)
	s.house = &house{t: t, broker: b, conn: b.Conn(t), models: catalog}
	return s
}

// setPrices gives all engines a price list.
func (s *stage) setPrices(list string) {
	s.t.Helper()
	prices, err := ParsePrices([]byte(list))
	if err != nil {
		s.t.Fatalf("prices.yaml: %v", err)
	}
	s.prices = prices
}

// fail ends the test with what has happened so far.
func (s *stage) fail(format string, args ...any) {
	s.t.Helper()
	seen := "nobody watched"
	if s.audience != nil {
		seen = s.audience.String()
	}
	s.t.Fatalf("%s: %s\nwaits look from line %d on; so far:\n%s", s.step, fmt.Sprintf(format, args...), s.cursor, seen)
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.fail("%v", err)
	}
}

// perform plays a script.
func (s *stage) perform(script string) {
	s.t.Helper()
	cues, err := timelinetest.Parse(script)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range cues {
		s.step = c.String()
		s.play(c)
	}
}

// play plays one step and waits for its effect.
func (s *stage) play(c timelinetest.Cue) {
	s.t.Helper()
	switch c.Verb {
	case "engine":
		s.engines[c.Arg(0)] = s.killable(c.Arg(0), func(o *Options) { o.Prices = s.prices; s.engineOptions(o, c.Options) })
		s.t.Cleanup(func() { s.handOver(c.Arg(0)) })
	case "kill":
		s.engineNamed(c.Arg(0)).kill()
		delete(s.engines, c.Arg(0))
	case "handover":
		s.engineNamed(c.Arg(0))
		s.handOver(c.Arg(0))
	case "toolrunner":
		s.hands[c.Arg(0)] = s.toolrunner(c.Arg(0))
	case "lose":
		s.lose(c.Arg(0))
	case "create", "prompt", "allow", "deny", "abort", "set", "retry_now", "queue", "steer", "withdraw":
		s.command(c)
	case "earlier":
		s.must(s.commands.Earlier(c))
	case "reached":
		s.reached(c.Arg(0))
	case "gate":
		s.reached(c.Arg(0))
		model, gate := modelGate(c.Arg(0))
		s.must(s.scripts[model].Release(gate))
	case "tool":
		s.tool(c)
	case "await":
		s.await(c.Rest)
	case "suspended":
		s.released()
	default:
		s.fail("there is no such step")
	}
}

// thousandth is how much of an announced wait for a retry is waited.
const thousandth = 0.001

func (s *stage) engineOptions(o *Options, options map[string]string) {
	s.t.Helper()
	t := &o.Timing
	t.Retry = thousandth
	for name, value := range options {
		if name == "policy" {
			var err error
			o.Policy, err = policy.Parse(value, []byte(timelinetest.Section(s.archive, value)))
			s.must(err)
			continue
		}
		switch name + "=" + value {
		case "suspend=never":
			t.Suspend = time.Hour
		case "retries=announced":
			t.Retry = 1
		case "cancels=patiently":
			t.CancelBound = time.Hour
		default:
			s.fail("an engine has no option %s=%s", name, value)
		}
	}
}

func (s *stage) engineNamed(name string) *Engine {
	s.t.Helper()
	e := s.engines[name]
	if e == nil {
		s.fail("no engine %s lives", name)
	}
	return e
}

// handOver stops an engine, if it still lives.
func (s *stage) handOver(name string) {
	s.t.Helper()
	e := s.engines[name]
	if e == nil {
		return
	}
	delete(s.engines, name)
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	if err := e.Stop(ctx); err != nil {
		s.t.Errorf("stop %s: %v", name, err)
	}
}

// command sends a command and waits for its outcome, and for what it lets happen.
func (s *stage) command(c timelinetest.Cue) {
	s.t.Helper()
	k, effect, err := s.commands.Command(c, ref, s.call)
	s.must(err)
	if c.Code == "" {
		c.Code = schemas.CodeApplied
	}
	o := s.send(k)
	if o.Code != c.Code {
		s.fail("the outcome is %s: %s", o.Code, o.Message)
	}
	if s.audience == nil {
		s.audience = watch(s.t, s.conn, s.names)
	}
	s.await("trace event command_outcome " + k.ID)
	if effect != "" && o.Code == schemas.CodeApplied {
		s.await(effect)
	}
}

// call is the id of the call of that name, once it has appeared.
func (s *stage) call(name string) (id string) {
	s.t.Helper()
	s.eventually("there is no call "+name, func() bool { id = s.names.ID(name); return id != "" })
	return id
}

// await waits for a line that begins as the pattern does, and holds the parts behind each "...".
func (s *stage) await(pattern string) {
	s.t.Helper()
	limit := time.After(testTime)
	for {
		at, changed, err := s.audience.look(s.cursor, func(line string) bool { return timelinetest.Matches(pattern, line) })
		if at >= 0 {
			s.cursor = at + 1
			return
		}
		s.must(err)
		select {
		case <-changed:
		case <-limit:
			s.fail("no line %s", pattern)
		}
	}
}

// modelGate splits NAME, a gate of the model m, or MODEL/NAME.
func modelGate(name string) (model, gate string) {
	if model, gate, ok := strings.Cut(name, "/"); ok {
		return model, gate
	}
	return "m", name
}

// reached waits until the model waits at a gate.
func (s *stage) reached(gate string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	model, gate := modelGate(gate)
	s.must(s.scripts[model].Reached(ctx, gate))
}

// curtain waits until the session is at rest and everything of it was seen.
func (s *stage) curtain() {
	s.t.Helper()
	s.step = "at the end"
	s.eventually("the task does not end", s.audience.atRest)
	s.released()
	ends, err := s.conn.SessionEnds(context.Background(), ref)
	s.must(err)
	s.eventually("the last frames are not seen", func() bool { return s.audience.reaches(ends.Last()) })
}
