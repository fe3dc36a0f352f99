package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"braid/bus/bustest"
	"braid/llm"
	"braid/llm/scripted"
	"braid/schemas"
)

// stage is where a timeline's script is played. The steps are described in
// testdata/timelines/README.md, and nowhere else.
type stage struct {
	*house
	step     string // the one being played, for messages
	script   *scripted.Script
	models   *rememberedModels
	names    *callNames
	audience *audience
	cursor   int // waits look at the lines from here on
	engines  map[string]*Engine
	hands    map[string]*hand
	commands map[string]int // how many of each there were, for their ids
}

func newStage(t *testing.T, model string) *stage {
	t.Helper()
	script, err := scripted.Parse([]byte(model))
	if err != nil {
		t.Fatalf("model.yaml: %v", err)
	}
	s := &stage{
		script: script,
		models: &rememberedModels{Provider: scripted.New(map[string]*scripted.Script{"m": script})},
		names:  &callNames{names: map[string]string{}}, engines: map[string]*Engine{},
		hands: map[string]*hand{}, commands: map[string]int{},
	}
	catalog, err := llm.NewCatalog(s.models)
	if err != nil {
		t.Fatal(err)
	}
	b := bustest.Single(t)
	s.house = &house{t: t, broker: b, conn: b.Conn(t), models: catalog}
	return s
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
	for i, line := range strings.Split(script, "\n") {
		s.step = fmt.Sprintf("line %d: %s", i+1, line)
		words, err := cutWords(line)
		s.must(err)
		if len(words) == 0 {
			continue
		}
		c := cue{verb: words[0], options: map[string]string{}}
		if n := len(words); n > 2 && words[n-2] == "->" {
			c.code, words = schemas.Code(words[n-1]), words[:n-2]
		}
		for _, w := range words[1:] {
			if name, value, ok := strings.Cut(w, "="); ok && slices.Contains([]string{"create", "set", "engine"}, c.verb) {
				c.options[name] = value
				continue
			}
			c.args = append(c.args, w)
		}
		_, c.rest, _ = strings.Cut(strings.TrimSpace(line), " ")
		s.play(c)
	}
}

// cue is one step as it is written.
type cue struct {
	verb    string
	args    []string          // without options
	rest    string            // all behind the verb, as it stands
	options map[string]string // name=value
	code    schemas.Code      // behind "->"
}

func (c cue) arg(i int) string {
	if i < len(c.args) {
		return c.args[i]
	}
	return ""
}

// cutWords cuts a line at its blanks. A quoted word, or the quoted value of name="...", is one.
func cutWords(line string) (words []string, err error) {
	word, in := "", false
	flush := func() {
		if in {
			words = append(words, word)
		}
		word, in = "", false
	}
	for line != "" && (in || line[0] != '#') {
		switch line[0] {
		case ' ', '\t':
			flush()
			line = line[1:]
		case '"':
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, fmt.Errorf("unfinished quotes: %s", line)
			}
			text, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, err
			}
			word, in, line = word+text, true, line[len(quoted):]
		default:
			word, in, line = word+line[:1], true, line[1:]
		}
	}
	flush()
	return words, nil
}

// play plays one step and waits for its effect.
func (s *stage) play(c cue) {
	s.t.Helper()
	switch c.verb {
	case "engine":
		s.engines[c.arg(0)] = s.killable(c.arg(0), func(o *Options) { s.timing(&o.Timing, c.options) })
		s.t.Cleanup(func() { s.handOver(c.arg(0)) })
	case "kill":
		s.engineNamed(c.arg(0)).kill()
		delete(s.engines, c.arg(0))
	case "handover":
		s.engineNamed(c.arg(0))
		s.handOver(c.arg(0))
	case "toolrunner":
		s.hands[c.arg(0)] = s.toolrunner(c.arg(0))
	case "lose":
		s.lose(c.arg(0))
	case "create", "prompt", "allow", "deny", "abort", "set", "retry_now":
		s.command(c)
	case "reached":
		s.reached(c.arg(0))
	case "gate":
		s.reached(c.arg(0))
		s.must(s.script.Release(c.arg(0)))
	case "tool":
		s.tool(c)
	case "await":
		s.await(c.rest)
	case "suspended":
		s.released()
	default:
		s.fail("there is no such step")
	}
}

// thousandth is how much of an announced wait for a retry is waited.
const thousandth = 0.001

func (s *stage) timing(t *Timing, options map[string]string) {
	t.Retry = thousandth
	for name, value := range options {
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
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := e.Stop(ctx); err != nil {
		s.t.Errorf("stop %s: %v", name, err)
	}
}

// command sends a command and waits for its outcome, and for what it lets happen.
func (s *stage) command(c cue) {
	s.t.Helper()
	s.commands[c.verb]++
	k := schemas.Command{ID: fmt.Sprintf("%s-%d", c.verb, s.commands[c.verb]), Type: schemas.CommandType(c.verb), Session: ref}
	wait := "trace event command_outcome " + k.ID
	effect := ""
	switch c.verb {
	case "create":
		k.Create = s.createBody(c.options)
	case "set":
		k.Set = &schemas.SetBody{ApprovalMode: schemas.ApprovalMode(c.options["mode"])}
		effect = "event session_changed " + c.options["mode"]
	case "retry_now":
		effect = "event request_begin"
	case "prompt":
		k.Type, k.Task = schemas.CommandTask, &schemas.TaskBody{Prompt: c.arg(0)}
		effect = fmt.Sprintf("trace user %q", c.arg(0))
	case "abort":
		k.Abort = &schemas.AbortBody{Reason: c.arg(0)}
	default:
		k.Type, k.Approve = schemas.CommandApprove, &schemas.ApproveBody{ToolCallID: s.call(c.arg(0)), Decision: schemas.Decision(c.verb)}
		effect = "event approval_decision " + c.verb + " " + c.arg(0)
	}
	if c.code == "" {
		c.code = schemas.CodeApplied
	}
	o := s.send(k)
	if o.Code != c.code {
		s.fail("the outcome is %s: %s", o.Code, o.Message)
	}
	if s.audience == nil {
		s.audience = watch(s.t, s.conn, s.names)
	}
	s.await(wait)
	if effect != "" && o.Code == schemas.CodeApplied {
		s.await(effect)
	}
}

func (s *stage) createBody(options map[string]string) *schemas.CreateBody {
	s.t.Helper()
	b := &schemas.CreateBody{Model: "scripted/m"}
	for name, value := range options {
		n, _ := strconv.Atoi(value)
		switch name {
		case "mode":
			b.ApprovalMode = schemas.ApprovalMode(value)
		case "system":
			b.SystemPrompt = value
		case "approval_timeout_ms":
			b.ApprovalTimeoutMS = int64(n)
		case "max_turns":
			b.Limits.MaxTurns = n
		case "max_tokens_task":
			b.Limits.MaxTokensTask = int64(n)
		case "loop_limit":
			b.Limits.LoopLimit = n
		case "on_loop":
			b.Limits.OnLoop = schemas.LoopAction(value)
		case "idle_timeout_ms":
			b.Limits.IdleTimeoutMS = int64(n)
		default:
			s.fail("a session has no option %s here", name)
		}
	}
	return b
}

// call is the id of the call of that name, once it has appeared.
func (s *stage) call(name string) (id string) {
	s.t.Helper()
	s.eventually("there is no call "+name, func() bool { id = s.names.id(name); return id != "" })
	return id
}

// await waits for a line that begins as the pattern does, and holds the parts behind each "...".
func (s *stage) await(pattern string) {
	s.t.Helper()
	parts := strings.Split(strings.TrimSpace(pattern), "...")
	limit := time.After(20 * time.Second)
	for {
		at, changed, err := s.audience.look(s.cursor, func(line string) bool {
			if !strings.HasPrefix(line, strings.TrimSpace(parts[0])) {
				return false
			}
			return !slices.ContainsFunc(parts[1:], func(p string) bool { return !strings.Contains(line, strings.TrimSpace(p)) })
		})
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

// reached waits until the model waits at a gate.
func (s *stage) reached(gate string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s.must(s.script.Reached(ctx, gate))
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
