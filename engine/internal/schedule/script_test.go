package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"braid/engine/internal/session"
	"braid/engine/internal/timelinetest"
	"braid/engine/policy"
	"braid/schemas"
)

// script says whose turn it is.
type script struct {
	commands timelinetest.Commands
	// strict: what is left of the script, and from which line of the log on waits look.
	rest   []task
	cursor int
	// free: what is left of each actor's part.
	parts []part
}

// task is a step of a strict script: a cue to play, or a line to wait for.
type task struct {
	cue  timelinetest.Cue
	wait string
}

// part is what one actor has still to do.
type part struct {
	actor string
	cues  []timelinetest.Cue
}

// newScript plays what comes before the session is there, and takes the rest apart.
func newScript(s *stage) *script {
	p := &script{}
	i := slices.IndexFunc(s.cues, func(c timelinetest.Cue) bool { return c.Verb == "create" })
	for _, c := range s.cues[:i] {
		s.script = p
		s.play(c)
	}
	for _, c := range s.cues[i:] {
		if !s.free {
			p.rest = append(p.rest, strictTasks(c)...)
			continue
		}
		if actor := actorOf(c); actor != "" {
			p.give(actor, c)
		}
	}
	return p
}

func (p *script) give(actor string, c timelinetest.Cue) {
	i := slices.IndexFunc(p.parts, func(p part) bool { return p.actor == actor })
	if i < 0 {
		i, p.parts = len(p.parts), append(p.parts, part{actor: actor})
	}
	p.parts[i].cues = append(p.parts[i].cues, c)
}

// actorOf names who does the step; empty if it is a wait.
func actorOf(c timelinetest.Cue) string {
	switch {
	case c.IsCommand(), c.Verb == "earlier":
		return "people"
	case c.Verb == "gate":
		return c.Text
	case c.Verb == "tool" && (c.Arg(1) == "says" || c.Arg(1) == "ends"):
		return "tool " + c.Arg(0)
	case c.Verb == "toolrunner", c.Verb == "lose":
		return "toolrunners"
	case c.Verb == "engine", c.Verb == "kill", c.Verb == "handover":
		return "engines"
	}
	return ""
}

// strictTasks are the cue and what is waited for behind it.
func strictTasks(c timelinetest.Cue) []task {
	tasks := []task{{cue: c}}
	then := func(line string) { tasks = append(tasks, task{wait: line}) }
	switch {
	case c.Verb == "await":
		return []task{{wait: c.Rest}}
	case c.Verb == "tool" && c.Arg(1) == "says" && c.Arg(3) == "":
		text := strconv.Quote(c.Arg(2))
		then("partial_tool_call_output " + c.Arg(0) + " delta ... " + text[1:len(text)-1])
	case c.Verb == "tool" && c.Arg(1) == "ends" && c.Arg(3) == "":
		then("tool_call_output " + c.Arg(0) + " ")
	}
	return tasks
}

// supported are the steps, beside commands, that can be played here.
var supported = []string{
	"engine", "kill", "handover", "toolrunner", "lose", "reached", "gate", "tool", "await", "suspended", "earlier",
}

// unplayable says why a story can't be played on the core alone; empty if it can.
func unplayable(t *story) string {
	for _, name := range timelinetest.SectionNames(t.archive) {
		if !slices.Contains([]string{"script", "policy.yaml", "prices.yaml", "stream", "trace", "usage"}, name) && !strings.HasPrefix(name, "input ") && !strings.HasSuffix(name, "model.yaml") {
			return "it has a section " + name
		}
	}
	for _, c := range t.cues {
		if !c.IsCommand() && !slices.Contains(supported, c.Verb) {
			return c.String() + ": this is not played here"
		}
		for option := range c.Options {
			if c.Verb == "engine" && !slices.Contains([]string{"cancels", "retries", "suspend", "policy"}, option) {
				return c.String() + ": an engine has no such option here"
			}
		}
	}
	return ""
}

// turn moves past the waits that are over.
func (s *stage) turn() {
	for len(s.rest) > 0 {
		next := s.rest[0]
		switch c := next.cue; {
		case next.wait != "":
			i := slices.IndexFunc(s.lines[s.cursor:], func(line string) bool { return timelinetest.Matches(next.wait, line) })
			if i < 0 {
				return
			}
			s.cursor += i + 1
		case c.Verb == "reached":
			if !s.modelAt(c.Arg(0)) {
				return
			}
		case c.Verb == "suspended":
			if s.owner != nil || s.claim.held {
				return
			}
		case c.Verb == "tool" && c.Arg(1) == "starts":
			if t := s.toolNamed(c.Arg(0)); t == nil || t.state == queued {
				return
			}
		case c.Verb == "tool" && c.Arg(1) == "is":
			if t := s.toolNamed(c.Arg(0)); t == nil || !t.cancelled {
				return
			}
		default:
			return
		}
		s.rest = s.rest[1:]
	}
}

func (s *stage) modelAt(gate string) bool {
	return s.gates[gate] || s.owner != nil && s.owner.model != nil && s.owner.model.gate == gate
}

// cueMoves are the script's next steps that can be played now.
func (s *stage) cueMoves() (moves []move) {
	if !s.free {
		if len(s.rest) > 0 && s.playable(s.rest[0].cue) {
			c := s.rest[0].cue
			moves = append(moves, move{name: nameOf(c), do: func() {
				s.rest = s.rest[1:]
				s.play(c)
			}})
		}
		return moves
	}
	for i := range s.parts {
		p := &s.parts[i]
		if len(p.cues) == 0 || !s.playable(p.cues[0]) {
			continue
		}
		moves = append(moves, move{name: nameOf(p.cues[0]), line: p.cues[0].Line, do: func() {
			c := p.cues[0]
			p.cues = p.cues[1:]
			s.play(c)
		}})
	}
	slices.SortStableFunc(moves, func(a, b move) int { return a.line - b.line })
	return moves
}

// left are the steps that nobody has played.
func (s *stage) left() (cues []string) {
	for _, t := range s.rest {
		if t.wait != "" {
			cues = append(cues, "await "+t.wait)
		} else {
			cues = append(cues, nameOf(t.cue))
		}
	}
	for _, p := range s.parts {
		for _, c := range p.cues {
			cues = append(cues, nameOf(c))
		}
	}
	return cues
}

// nameOf is a step as orders name it.
func nameOf(c timelinetest.Cue) string {
	text, _, _ := strings.Cut(c.Text, " #")
	return strings.Join(strings.Fields(text), " ")
}

// playable reports that the step can be played now.
func (s *stage) playable(c timelinetest.Cue) bool {
	switch c.Verb {
	case "await", "reached", "suspended", "":
		return false
	case "prompt":
		return c.Code != "" || s.stored.Meta != nil && s.stored.AtRest() && s.stored.Cursor == uint64(len(s.commands))
	case "allow", "deny":
		return s.decidable(c)
	case "gate":
		return s.free || s.modelAt(c.Arg(0))
	case "tool":
		t := s.toolNamed(c.Arg(0))
		if t == nil || c.Arg(1) == "starts" || c.Arg(1) == "is" {
			return false
		}
		late := c.Arg(len(c.Args)-1) == "late"
		return t.state == started && !late && slices.Contains(s.runners, t.runner) || t.state == done && (s.free || late)
	case "kill", "handover":
		return s.engineNamed(c.Arg(0)) != nil
	}
	return true
}

// decidable reports that a person can decide: the question stands, or it is known to be closed.
func (s *stage) decidable(c timelinetest.Cue) bool {
	id := s.names.ID(c.Arg(0))
	if id == "" || c.Code != "" || !s.free {
		return id != ""
	}
	asked := func(call *callRead) bool { return call.asked || call.decided != "" || call.withdrawn }
	call := s.checks.reader.calls[id]
	return call != nil && asked(call)
}

func (s *stage) engineNamed(name string) *instance {
	i := slices.IndexFunc(s.engines, func(e *instance) bool { return e.name == name })
	if i < 0 {
		return nil
	}
	return s.engines[i]
}

// play plays a cue.
func (s *stage) play(c timelinetest.Cue) {
	name := c.Arg(0)
	switch c.Verb {
	case "engine":
		rules, err := s.policy(c.Options["policy"])
		if err != nil {
			s.fail("%s: %v", c, err)
		}
		s.engines = append(s.engines, &instance{
			name: name, policy: rules, patient: c.Options["cancels"] == "patiently",
			announced: c.Options["retries"] == "announced", reserved: c.Options["suspend"] == "never",
		})
	case "kill", "handover":
		e := s.engineNamed(name)
		s.engines = slices.DeleteFunc(s.engines, func(other *instance) bool { return other == e })
		if s.owner != nil && s.owner.instance == e {
			if c.Verb == "kill" {
				s.drop(false)
			} else {
				s.handOver()
			}
		}
	case "toolrunner":
		s.runners = append(s.runners, name)
	case "lose":
		s.runners = slices.DeleteFunc(s.runners, func(r string) bool { return r == name })
	case "gate":
		s.gates[name] = true
	case "tool":
		s.playTool(c)
	case "earlier":
		if err := s.script.commands.Earlier(c); err != nil {
			s.fail("%s: %v", c, err)
		}
	default:
		s.command(c)
	}
}

// policy is that of a section of the story; nil if it is not named.
func (t *story) policy(section string) (session.Policy, error) {
	if section == "" {
		return nil, nil
	}
	p, err := policy.Parse(section, []byte(timelinetest.Section(t.archive, section)))
	if err != nil {
		return nil, err
	}
	return func(c *schemas.ToolCall) session.Ruling {
		v := p.Judge(ref.Project, c.Name, c.Arguments)
		return session.Ruling{Forbid: v.Ruling == policy.Forbidden, Ask: v.Ruling == policy.Ask, Rule: v.Rule, Reason: v.Reason}
	}, nil
}

// command stores a command; strict scripts go on when it has had its effect.
func (s *stage) command(c timelinetest.Cue) {
	k, effect, err := s.script.commands.Command(c, ref, s.names.ID)
	if err != nil {
		s.fail("%s: %v", c, err)
	}
	s.post(k, s.now)
	if s.free {
		return
	}
	tasks := []task{{wait: "trace event command_outcome " + k.ID}}
	if c.Code != "" {
		tasks[0].wait += " code=" + string(c.Code)
	} else if effect != "" {
		tasks = append(tasks, task{wait: effect})
	}
	s.rest = append(tasks, s.rest...)
}

func (s *stage) playTool(c timelinetest.Cue) {
	t := s.toolNamed(c.Arg(0))
	switch {
	case t.state == done: // too late
	case c.Arg(1) == "says":
		t.say(c.Arg(2), c.Arg(3) != "unheard")
	default:
		reason := schemas.StopCompleted
		if len(c.Args) > 2 {
			reason = schemas.StopReason(c.Arg(2))
		}
		t.end(schemas.ToolResult{Output: t.text, StopReason: reason})
	}
}

// improvise lets the story go on where its script has no more to say: free orders may come to what
// no script has foreseen.
func (s *stage) improvise() (moves []move) {
	add := func(name string, do func()) { moves = append(moves, move{name: name, do: do}) }
	if len(s.engines) == 0 {
		add("another engine", func() { s.engines = append(s.engines, &instance{name: "spare"}) })
	}
	if o := s.owner; o != nil && o.model != nil && !s.canSpeak() {
		gate := o.model.gate
		add("open "+gate, func() { s.gates[gate] = true })
	}
	for _, t := range s.tools {
		if t.state == started && slices.Contains(s.runners, t.runner) {
			add("finish "+t.name, func() { t.end(schemas.ToolResult{Output: t.text, StopReason: schemas.StopCompleted}) })
		}
	}
	for _, c := range s.stored.Pending() {
		add("somebody allows", func() {
			s.post(schemas.Command{
				ID: fmt.Sprint("somebody-", len(s.commands)), Type: schemas.CommandApprove, Session: ref,
				Approve: &schemas.ApproveBody{ToolCallID: c.ToolCallID, Decision: schemas.DecisionAllow},
			}, s.now)
		})
	}
	if len(moves) > 0 {
		return moves
	}
	for i := range s.parts {
		if p := &s.parts[i]; len(p.cues) > 0 {
			add("skip "+nameOf(p.cues[0]), func() { p.cues = p.cues[1:] })
		}
	}
	return moves
}
