package schemas

import (
	"fmt"
	"strings"
)

// View says which of a session's messages a reader gets.
type View int

// The views.
const (
	// ViewStream is what watchers see: recorded messages and fragments of the session and of
	// its children, but nothing of scope trace.
	ViewStream View = iota
	// ViewFeed is every frame as it was published: the stream and what has scope trace.
	ViewFeed
	// ViewRecorded is what the trace keeps: no fragments, no messages of child sessions.
	ViewRecorded
)

// String names the view.
func (v View) String() string {
	switch v {
	case ViewStream:
		return "stream"
	case ViewFeed:
		return "feed"
	case ViewRecorded:
		return "recorded"
	}
	return fmt.Sprintf("View(%d)", int(v))
}

// Violation is a rule that a message broke.
type Violation struct {
	Rule RuleName
	// Position is that of the message at which the breach became certain; at [Checker.Finish]
	// that of the message that opened what is still open.
	Position Position
	// Detail says what was found, for people. It holds ids, no content.
	Detail string
}

// String renders the violation as "position rule: detail".
func (v Violation) String() string {
	return fmt.Sprintf("%s %s: %s", v.Position, v.Rule, v.Detail)
}

// Option changes how a [Checker] starts.
type Option func(*Checker)

// FromMiddle is for a reader who joined while the session ran: what was open before the first
// message is unknown, so the checker accepts the ends of things whose beginnings it missed.
func FromMiddle() Option { return func(c *Checker) { c.middle = true } }

// Checker checks that a stream of messages keeps the guarantees of [Rules]. It takes one
// message at a time and never looks ahead, so it works on a live stream as on a stored one; a
// live stream may end anywhere. After a breach it assumes the likeliest state and goes on.
//
// Messages of an imported trace (see [SessionImported]) are not held to the rules, since Braid did
// not make them; what stands behind them is, without exception.
//
// Messages of child sessions are checked each against its own session's part of the stream,
// by the same rules. Messages of unknown kinds are checked for nothing but position and scope.
//
// Where the view does not hold the prompts a task begins with its first sign, and one that did
// not complete may show nothing but its task_end. Memory grows with the number of calls of the session,
// about 300 bytes each. A Checker is not safe for concurrent use.
type Checker struct {
	view     View
	middle   bool // what came before the first message is unknown
	gapped   bool // some live messages were lost
	last     Position
	imported Imported
	own      *strand
	children map[string]*strand
	out      sink
}

// sink collects the violations of one message.
type sink struct {
	at    Position
	chain string // of the child session whose message it is
	found []Violation
}

func (o *sink) breach(rule RuleName, format string, args ...any) {
	o.breachAt(o.at, rule, format, args...)
}

func (o *sink) breachAt(at Position, rule RuleName, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	if o.chain != "" {
		detail = "child " + o.chain + ": " + detail
	}
	o.found = append(o.found, Violation{Rule: rule, Position: at, Detail: detail})
}

// NewChecker returns a checker for one session as seen through the view.
func NewChecker(view View, opts ...Option) *Checker {
	c := &Checker{view: view, children: map[string]*strand{}}
	for _, opt := range opts {
		opt(c)
	}
	c.own = newStrand(&c.out, view, c.middle)
	c.own.framed = true
	return c
}

// Add takes the session's next message and returns the rules it breaks, usually none. An entry
// without a position (the zero one) is not checked for position or frame.
func (c *Checker) Add(e Entry) []Violation {
	c.out.at, c.out.chain, c.out.found = e.Position, "", nil
	c.checkPosition(e.Position)
	if c.addImported(e) {
		return c.out.found
	}
	if len(e.Message.Origin) == 0 {
		c.own.checkOwnVisibility(e.Message)
		c.own.add(e)
		return c.out.found
	}
	if c.view == ViewRecorded {
		c.out.breach(RuleRecordedOnly, "a message of a child session")
		return c.out.found
	}
	chain := strings.Join(e.Message.Origin, "/")
	c.out.chain = chain
	if e.Message.Scope == ScopeTrace {
		c.out.breach(RuleTraceScope, "%s has scope trace and an origin", e.Message.Kind())
	}
	c.child(chain, e.Message).add(e)
	return c.out.found
}

func (c *Checker) checkPosition(p Position) {
	if p == (Position{}) {
		return
	}
	if p.Compare(c.last) <= 0 {
		c.out.breach(RulePositions, "position %s does not come after %s", p, c.last)
		return
	}
	c.last = p
}

// child returns the strand of a child session, made at its first message.
func (c *Checker) child(chain string, first Message) *strand {
	if s := c.children[chain]; s != nil {
		return s
	}
	_, meta := first.Payload.(*SessionMeta)
	if !meta && !c.middle && !c.gapped {
		c.out.breach(RuleSessionMeta, "the first message is %s, not session_meta", first.Kind())
	}
	s := newStrand(&c.out, ViewStream, !meta)
	c.children[chain] = s
	return s
}

// Gap says that messages which are not recorded were lost between the last message and the
// next: fragments that expired or did not arrive, and messages of child sessions. Segments
// open across the gap are not held to the rules of segments; recorded messages are held to all
// their rules; what children did in the gap is unknown.
func (c *Checker) Gap() {
	c.gapped = true
	c.own.tear()
	for chain := range c.children {
		c.children[chain] = newStrand(&c.out, ViewStream, true)
	}
}

// Finish reports what a finished stream must not leave open. The checker may go on afterwards:
// nothing of its state changes.
func (c *Checker) Finish() []Violation {
	c.out.chain, c.out.found = "", nil
	c.own.finish()
	for _, chain := range sortedKeys(c.children) {
		c.out.chain = chain
		c.children[chain].finish()
	}
	return c.out.found
}

// Check runs a new checker over the entries, without [Checker.Finish].
func Check(view View, entries []Entry, opts ...Option) []Violation {
	c := NewChecker(view, opts...)
	var found []Violation
	for _, e := range entries {
		found = append(found, c.Add(e)...)
	}
	return found
}
