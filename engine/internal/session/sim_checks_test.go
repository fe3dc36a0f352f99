package session

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"braid/schemas"
)

func (w *world) check(finish bool) {
	for _, view := range []schemas.View{schemas.ViewFeed, schemas.ViewStream, schemas.ViewRecorded} {
		c := schemas.NewChecker(view)
		var violations []schemas.Violation
		for _, e := range w.log {
			if (view == schemas.ViewStream && !e.Message.Visible()) || (view == schemas.ViewRecorded && !e.Message.Recorded()) {
				continue
			}
			violations = append(violations, c.Add(e)...)
		}
		if finish {
			violations = append(violations, c.Finish()...)
		}
		if len(violations) > 0 {
			w.t.Fatalf("%v: %v\n%s", view, violations, w.dump())
		}
	}
}

func (w *world) dump() string {
	var b strings.Builder
	for _, e := range w.log {
		line, _ := schemas.Encode(e.Message)
		fmt.Fprintf(&b, "%8s %s\n", e.Position, line)
	}
	return b.String()
}

// native are the session's own messages. Of an imported trace only what opens it is one.
func (w *world) native() (own []schemas.Message) {
	var imported schemas.Imported
	for _, e := range w.log {
		if !imported.Take(e.Message, schemas.ViewRecorded) {
			own = append(own, e.Message)
		}
	}
	return own
}

// before is what an imported trace had used when the session was made of it.
func (w *world) before() schemas.TokenCounts {
	folded := New(w.state.Session)
	for _, e := range w.log {
		inside := folded.Imported(e.Message)
		folded.Apply(e.Message)
		p, ok := e.Message.Payload.(*schemas.CommandOutcome)
		if ok && !inside && p.Command == schemas.CommandImport && p.Code == schemas.CodeApplied {
			return folded.Usage
		}
	}
	return schemas.TokenCounts{}
}

// checkFold compares the live state with the fold of what is stored.
func (w *world) checkFold() {
	if w.gapped {
		return // what has expired is in the log of this world, and in no state
	}
	folded := New(w.state.Session)
	for _, e := range w.log {
		folded.Apply(e.Message)
	}
	// Of an attempt that has said nothing the log says nothing. Of one that has ended only its output
	// counts: an owner that came later need not have read its fragments.
	if t := w.state.Task; t != nil && t.Request != nil && folded.Task != nil && folded.Task.Request != nil {
		for _, c := range t.Request.Calls {
			f := folded.call(c.ToolCallID)
			if f != nil && c.Text.Len() == 0 {
				f.Attempt = c.Attempt
			}
			if f != nil && c.Output != nil {
				f.Offset = c.Offset
			}
		}
	}
	text := cmp.Comparer(func(a, b strings.Builder) bool { return a.String() == b.String() })
	id := cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().String() == ".ID" && p.Index(-2).Type().String() == "session.Request"
	}, cmp.Ignore())
	diff := cmp.Diff(folded, w.state, text, id,
		cmpopts.IgnoreUnexported(State{}, Request{}, Call{}), cmpopts.IgnoreFields(State{}, "Policy"), cmpopts.EquateEmpty())
	if diff != "" {
		w.t.Fatalf("the state is not the fold of the log (-fold +state)\n%s\n%s", diff, w.dump())
	}
}

// checkDeadline asserts that the broker knows the deadline of the call that waits, once nothing is on
// its way: the session may be let go of then. Of other calls it knows none, unless an owner was lost
// before it had cleared them.
func (w *world) checkDeadline() {
	if len(w.unstored) > 0 || len(w.held) > 0 {
		return
	}
	for _, c := range w.state.Pending() {
		s, ok := w.schedules[c.ToolCallID]
		if want := !c.Deadline.IsZero(); ok != want || ok && !s.At.Equal(c.Deadline) {
			w.t.Fatalf("call %s waits until %v, the broker knows %v\n%s", c.ToolCallID, c.Deadline, s.At, w.dump())
		}
	}
	if n := len(w.schedules); w.fence == 1 && n > len(w.state.Pending()) {
		w.t.Fatalf("%d deadlines are left: %v\n%s", n, w.schedules, w.dump())
	}
}

// checkWait asserts that a wait ends when it was announced to, whoever waits.
func (w *world) checkWait(e Effect) {
	wait, ok := e.(WaitRetry)
	if !ok {
		return
	}
	r := w.state.Task.Request
	if due := r.Ended.Add(time.Duration(r.RetryInMS) * time.Millisecond); !w.now.Add(wait.Delay).Equal(due) {
		w.t.Fatalf("a wait ends at %v, not at %v\n%s", w.now.Add(wait.Delay), due, w.dump())
	}
}

// checkInputs asserts what providers insist on: in every request each call has exactly one
// output, behind it, in call order.
func (w *world) checkInputs() {
	for _, input := range w.inputs {
		var open []string
		for _, m := range input {
			switch p := m.Payload.(type) {
			case *schemas.ToolCall:
				open = append(open, p.ToolCallID)
			case *schemas.ToolCallOutput:
				if len(open) == 0 || open[0] != p.ToolCallID {
					w.t.Fatalf("output of %s where %v are due", p.ToolCallID, open)
				}
				open = open[1:]
			case *schemas.Text:
				if p.Role == schemas.RoleUser && len(open) > 0 {
					w.t.Fatalf("a prompt while the outputs of %v are due", open)
				}
			}
		}
		if len(open) > 0 {
			w.t.Fatalf("a request without the outputs of %v", open)
		}
	}
}

// checkDeleted asserts that a session that is to be deleted comes to its last word.
func (w *world) checkDeleted() {
	if w.state.Deleting != w.state.Deleted {
		w.t.Fatalf("the session is to be deleted, and is not\n%s", w.dump())
	}
	for i, e := range w.log {
		if _, ok := e.Message.Payload.(*schemas.SessionDeleted); ok {
			for _, after := range w.log[i+1:] {
				switch after.Message.Payload.(type) {
				case *schemas.CommandOutcome, *schemas.SessionDeleted, *schemas.SessionChanged:
				default:
					w.t.Fatalf("%s follows the last word\n%s", after.Message.Kind(), w.dump())
				}
			}
		}
	}
}

// checkOutcomes asserts that every command has one outcome in the log, however often it was
// delivered.
func (w *world) checkOutcomes() {
	seen := map[string]int{}
	for _, m := range w.native() {
		if p, ok := m.Payload.(*schemas.CommandOutcome); ok {
			seen[p.CommandID]++
		}
	}
	for _, c := range w.commands {
		if n := seen[c.Command.ID]; n != 1 {
			w.t.Fatalf("command %s has %d outcomes\n%s", c.Command.ID, n, w.dump())
		}
	}
}
