package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"braid/engine/internal/session"
	"braid/engine/internal/timelinetest"
	"braid/llm"
	"braid/schemas"
)

// checks look at the log as it grows.
type checks struct {
	feed, stream, record *schemas.Checker
	reader               *reader
}

func newChecks() *checks {
	return &checks{
		feed: schemas.NewChecker(schemas.ViewFeed), stream: schemas.NewChecker(schemas.ViewStream),
		record: schemas.NewChecker(schemas.ViewRecorded), reader: &reader{calls: map[string]*callRead{}},
	}
}

// checkEntry holds a stored message to the rules, for each who may read it.
func (s *stage) checkEntry(e schemas.Entry) {
	c := s.checks
	broken := c.feed.Add(e)
	if e.Message.Visible() {
		broken = append(broken, c.stream.Add(e)...)
	}
	if e.Message.Recorded() {
		broken = append(broken, c.record.Add(e)...)
	}
	if len(broken) > 0 {
		s.fail("the stream is not lawful: %v", broken)
	}
	if timelinetest.ForModelAlone(e.Message) {
		s.fail("what is for the model alone is in the log: %s", s.names.Line(e.Message))
	}
	c.reader.names = &s.names
	if problem := c.reader.read(e); problem != "" {
		s.fail("%s %s: %s", e.Position, s.names.Line(e.Message), problem)
	}
}

// checkInput asserts that a model is sent what the log makes of it.
func (s *stage) checkInput(input []schemas.Message) {
	if diff := s.checks.reader.differs(input); diff != "" {
		s.fail("%s", diff)
	}
}

// same asserts that a fold is the state that the owner has.
func (s *stage) same(of string, fold, state *session.State) {
	if a, b := fingerprint(fold), fingerprint(state); a != b {
		s.fail("the state is not the fold of %s (-fold +state)\n%s", of, cmp.Diff(strings.Split(a, "\n"), strings.Split(b, "\n")))
	}
}

// checkTraceFold asserts that whoever reads the trace up to the last point at which nothing was
// open, and all frames from there on, comes to the same.
func (s *stage) checkTraceFold(state *session.State) {
	point := uint64(0)
	for _, e := range s.log {
		switch e.Message.Payload.(type) {
		case *schemas.RequestBegin, *schemas.Checkpoint, *schemas.TaskEnd:
			point = e.Position.Sequence
		}
	}
	s.same("the trace and what follows it", s.fold(point), state)
	if a, b := s.conversation(s.fold(point)), s.conversation(state); a != b {
		s.fail("the context is not the fold of the trace (-trace +state)\n%s", cmp.Diff(a, b))
	}
}

func (s *stage) conversation(state *session.State) string {
	return s.names.Input(llm.Request{Input: state.Context})
}

// fingerprint is all that a log says of a session, in few words.
func fingerprint(s *session.State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, command %d, %d tools, context %d, %+v\n", s.Mode, s.Cursor, len(s.ToolList), len(s.Context), s.Usage)
	for _, model := range slices.Sorted(maps.Keys(s.GivenUp)) {
		fmt.Fprintf(&b, "%s given up at %d\n", model, s.GivenUp[model].UnixMilli())
	}
	for _, q := range s.Queue {
		fmt.Fprintf(&b, "%s waits, steers %v\n", q.ID, q.Steers)
	}
	t := s.Task
	if t == nil {
		return b.String()
	}
	fmt.Fprintf(&b, "task %s, turn %d, aborting %v %q, tokens %d, over %v, warned %v, past %d\n",
		t.ID, t.Turn, t.Aborting, t.AbortReason, t.Used.Total, t.OverBudget, t.Warned, len(t.Past))
	r := t.Request
	if r == nil {
		return b.String()
	}
	fmt.Fprintf(&b, "attempt %d, open %v, %s, retry in %d, hurried %v, looped %v, %d messages\n",
		r.Attempt, r.Open, r.Status, r.RetryInMS, r.Hurried, r.Looped, len(r.Messages))
	if g := r.Segment; g != nil {
		fmt.Fprintf(&b, "segment %s %s %s %q\n", g.Of, g.Name, g.ToolCallID, g.Text.String())
	}
	for _, c := range r.Calls {
		fmt.Fprintf(&b, "call %s, asked %v until %d, %q, streaming %v", c.ToolCallID, c.Asked, c.Deadline.UnixMilli(), c.Decision, c.Streaming)
		switch {
		case c.Output != nil:
			fmt.Fprintf(&b, ", output %q %s", c.Output.Output, c.Output.StopReason)
		case c.Text.Len() > 0: // of an attempt that has said nothing the log says nothing
			fmt.Fprintf(&b, ", %q of attempt %d to %d", c.Text.String(), c.Attempt, c.Offset)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// checkDeadline asserts that the broker holds the deadline of the call that waits: the session is
// being let go of. Of other calls it holds none, unless an owner was lost before it could say so.
func (s *stage) checkDeadline() {
	pending := s.owner.state.Pending()
	for _, c := range pending {
		if e, ok := s.schedules[c.ToolCallID]; ok == c.Deadline.IsZero() || ok && !e.At.Equal(c.Deadline) {
			s.fail("the deadline of a call is %v, and the broker holds %v", c.Deadline, e.At)
		}
	}
	if n := len(s.schedules); s.fence == 1 && n > len(pending) {
		s.fail("%d deadlines are left", n)
	}
}

// checkEnd asserts what holds when everything is over.
func (s *stage) checkEnd() {
	c := s.checks
	if broken := slices.Concat(c.feed.Finish(), c.stream.Finish(), c.record.Finish()); len(broken) > 0 {
		s.fail("the stream is not lawful at its end: %v", broken)
	}
	if s.stored.Task != nil || len(s.stored.Queue) > 0 || s.owner != nil || s.claim.held {
		s.fail("something is left open")
	}
	s.checkTraceFold(s.stored)
	for _, k := range s.commands {
		if n := s.outcomes(k.Command.ID); n != 1 {
			s.fail("command %s has %d outcomes", k.Command.ID, n)
		}
	}
	for _, t := range s.tools {
		if !t.safe && len(t.starts) > 1 || len(slices.Compact(slices.Clone(t.starts))) < len(t.starts) {
			s.fail("call %s was started as attempts %v", t.name, t.starts)
		}
	}
	if !s.free || s.indifferent() {
		s.checkOutcome()
	}
}

// outcomes counts how often a command was given one.
func (s *stage) outcomes(command string) (n int) {
	for _, e := range s.log {
		if p, ok := e.Message.Payload.(*schemas.CommandOutcome); ok && p.CommandID == command {
			n++
		}
	}
	return n
}

// indifferent reports that a free order of the story, too, comes to what its file says: nobody
// interrupts it, nothing is lost, and no step hangs on being late.
func (t *story) indifferent() bool {
	for _, c := range t.cues {
		if slices.Contains([]string{"abort", "kill", "handover", "lose", "set", "retry_now", "queue", "steer", "withdraw"}, c.Verb) || c.Code != "" {
			return false
		}
		for _, option := range []string{"approval_timeout_ms", "idle_timeout_ms", "loop_limit"} {
			if c.Options[option] != "" {
				return false
			}
		}
	}
	return true
}

// checkOutcome compares with the story's file: what was recorded, in whatever order, and what models
// were sent.
func (s *stage) checkOutcome() {
	if left := s.left(); len(left) > 0 {
		s.fail("the script is not at its end: %q", left)
	}
	recorded := slices.DeleteFunc(slices.Clone(s.log), func(e schemas.Entry) bool {
		p, ok := e.Message.Payload.(*schemas.CommandOutcome)
		return !e.Message.Recorded() || ok && p.Command == schemas.CommandDeadline
	})
	var got []string
	for _, e := range recorded {
		if e.Message.Kind() != schemas.KindCheckpoint {
			got = append(got, s.names.Line(e.Message))
		}
	}
	if !s.free {
		s.checkSection("stream", func(m schemas.Message) bool { return m.Visible() })
		s.checkSection("trace", func(m schemas.Message) bool { return m.Recorded() })
	}
	if diff := cmp.Diff(sortedLines(timelinetest.Section(s.archive, "trace")), sortedLines(strings.Join(got, "\n"))); diff != "" {
		s.fail("what was recorded is not the file's (-file +recorded)\n%s", diff)
	}
	var inputs []string
	for i := 1; timelinetest.Section(s.archive, fmt.Sprintf("input %d", i)) != ""; i++ {
		inputs = append(inputs, timelinetest.Section(s.archive, fmt.Sprintf("input %d", i)))
	}
	if diff := cmp.Diff(inputs, s.inputs); diff != "" {
		s.fail("models were sent something else (-file +sent)\n%s", diff)
	}
	if want := timelinetest.Section(s.archive, "usage"); want != "" {
		if diff := cmp.Diff(want, timelinetest.Usage(recorded)); diff != "" {
			s.fail("what requests used is not what the file says (-file +used)\n%s", diff)
		}
	}
}

// checkSection compares what a view shows with its section of the file, line by line: what a script leaves
// open must not show, or who plays it on a machine that is slow elsewhere gets another file.
func (s *stage) checkSection(name string, shows func(schemas.Message) bool) {
	shown := s.names.Render(slices.DeleteFunc(slices.Clone(s.log), func(e schemas.Entry) bool { return !shows(e.Message) }))
	if diff := cmp.Diff(timelinetest.Section(s.archive, name), shown); diff != "" {
		s.fail("the script allows another %s than the file's, so it must wait for more (-file +order)\n%s", name, diff)
	}
}

// sortedLines are the recorded lines, whatever their order and frames.
func sortedLines(text string) []string {
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return l == "" || strings.Contains(l, "event checkpoint") })
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "+ ")
	}
	slices.Sort(lines)
	return lines
}
