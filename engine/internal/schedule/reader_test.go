package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"braid/engine/internal/timelinetest"
	"braid/schemas"
)

// reader works out from the log alone what each model call must be sent. It knows the guarantees and
// nothing of the core: what is committed counts, outputs stand in call order, and the model is told in
// blocks of the harness what it will not remember.
type reader struct {
	names    *timelinetest.Names
	meta     *schemas.SessionMeta
	mode     schemas.ApprovalMode // as long as it is the first
	context  []inputLine
	answered int // how many of them completed requests have answered
	request  *requestRead
	calls    map[string]*callRead
	last     schemas.Entry
	used     int64 // by all requests
	aborts   bool  // the task is to be aborted
}

// inputLine is a message that a model is sent.
type inputLine struct {
	line  string   // as it is; empty for a text of the harness
	mark  string   // how such a text begins
	asked bool     // it is a prompt
	holds []string // what the text must hold, in order; or the prompt

	output  *schemas.ToolCallOutput // it is one
	picture bool                    // it is one
	refused bool                    // it tells of a request that the provider refused
}

type requestRead struct {
	messages  []inputLine
	said      []string // its texts and reasoning
	calls     []*callRead
	misfit    bool // its context did not fit
	refused   bool // by its provider
	committed bool
	looped    bool
}

type callRead struct {
	id        string
	at        schemas.Position
	asked     bool
	decided   schemas.Decision
	withdrawn bool
	output    *schemas.ToolCallOutput
}

func (r *reader) line(p schemas.Payload) string {
	return r.names.Line(schemas.Message{Type: schemas.TypeModel, Scope: schemas.ScopeAll, Payload: p})
}

func (r *reader) read(e schemas.Entry) (problem string) {
	if e.Message.Given() { // a prompt, or what came before it
		r.given(e)
		return ""
	}
	switch p := e.Message.Payload.(type) {
	case *schemas.SessionMeta:
		r.meta, r.mode = p, p.ApprovalMode
	case *schemas.SessionChanged:
		r.mode = ""
	case *schemas.RequestBegin:
		r.close(true)
		r.request = &requestRead{}
	case *schemas.LoopDetected:
		r.request.looped = true
	case *schemas.TokenUsage:
		if r.used += p.Request.Total; r.used != p.Session.Total {
			problem = "the session's total is not the sum of what its requests used"
		}
	case *schemas.RequestEnd:
		r.end(p)
	case *schemas.TaskDequeued:
		if p.Cause == schemas.DequeuedSteering {
			r.close(true) // its prompt stands behind the turn that it follows
		}
	case *schemas.CommandOutcome:
		r.aborts = r.aborts || p.Command == schemas.CommandAbort && p.Code == schemas.CodeApplied
	case *schemas.TaskEnd:
		problem = r.endsAs(p)
		r.aborts = false
		r.close(false)
	case *schemas.ApprovalRequest:
		r.calls[p.ToolCallID].asked, r.mode = true, "" // calls wait behind the question
	case *schemas.ApprovalDecision:
		c := r.calls[p.ToolCallID]
		c.decided = p.Decision
		problem = r.promptly(c, e)
	case *schemas.ToolCallOutput:
		r.calls[p.ToolCallID].output = p
	default:
		r.model(e)
	}
	r.last = e
	return problem
}

// given reads what a task is given. Whatever is not the user's was answered elsewhere, as was all before.
func (r *reader) given(e schemas.Entry) {
	line := inputLine{line: r.line(e.Message.Payload), picture: e.Message.Kind() == schemas.KindImageURL}
	p, words := e.Message.Payload.(*schemas.Text)
	if e.Message.Prompt() && words {
		line.asked, line.holds = true, []string{p.Text}
	}
	r.context = append(r.context, line)
	if !e.Message.Prompt() {
		r.answered = len(r.context)
	}
	r.last = e
}

// model reads what models say.
func (r *reader) model(e schemas.Entry) {
	if e.Message.Type != schemas.TypeModel || e.Message.Partial() {
		return
	}
	line := r.line(e.Message.Payload)
	if r.request == nil {
		return // a notice
	}
	r.request.messages = append(r.request.messages, inputLine{line: line})
	switch p := e.Message.Payload.(type) {
	case *schemas.Text:
		r.request.said = append(r.request.said, p.Text)
	case *schemas.Thinking:
		r.request.said = append(r.request.said, p.Thinking)
	case *schemas.ToolCall:
		c := &callRead{id: p.ToolCallID, at: e.Position}
		r.calls[p.ToolCallID] = c
		r.request.calls = append(r.request.calls, c)
	}
}

// promptly asserts that what nobody is asked about is decided in its call's frame, directly behind
// it; unless loops are looked for, when it may have to wait.
func (r *reader) promptly(c *callRead, e schemas.Entry) string {
	if (r.mode != schemas.ApproveAll && r.mode != schemas.ApproveNone) || r.meta.Limits.LoopLimit > 0 {
		return ""
	}
	if p, ok := r.last.Message.Payload.(*schemas.ToolCall); ok && p.ToolCallID == c.id && c.at.Sequence == e.Position.Sequence {
		return ""
	}
	return "a decision that nobody was asked for does not follow its call in its frame"
}

// endsAs says why a task may not end as it does: it is aborted exactly if somebody asked for that,
// and done exactly if its last turn is committed and makes no calls.
func (r *reader) endsAs(p *schemas.TaskEnd) string {
	q := r.request
	done := q != nil && q.committed && len(q.calls) == 0
	switch {
	case r.aborts != (p.Status == schemas.StopAborted):
		return "a task is aborted exactly if somebody asked for that"
	case !r.aborts && q != nil && done != (p.Cause == "done"):
		return "a task is done exactly if its last turn is committed and makes no calls"
	}
	return ""
}

func (r *reader) end(p *schemas.RequestEnd) {
	r.request.committed = p.Status == schemas.StopCompleted
	r.request.misfit = p.ErrorInfo != nil && p.ErrorInfo.Kind == "context"
	r.request.refused = p.ErrorInfo != nil && p.ErrorInfo.Kind == "input" && p.ErrorInfo.StatusCode == 400
	if r.request.committed {
		r.context = append(r.context, r.request.messages...)
		r.answered = len(r.context)
		return
	}
	for _, c := range r.request.calls {
		c.withdrawn = c.decided == ""
	}
}

// close adds what the newest request leaves to the context. A request that follows is told of a
// failed one what was carried out, the next prompt of a task that was cut off all of it.
func (r *reader) close(next bool) {
	q := r.request
	r.request = nil
	switch {
	case q == nil && next:
		return
	case q == nil:
		q = &requestRead{}
	case q.committed:
		for _, c := range q.calls {
			output := c.output
			if output == nil {
				output = schemas.NewToolCallOutput(c.id, "[aborted: the call was not run]", schemas.StopAborted)
			}
			r.context = append(r.context, inputLine{line: r.line(output), output: output})
		}
		if next && q.looped && r.meta.Limits.OnLoop == schemas.LoopWarn {
			r.context = append(r.context, inputLine{mark: "[loop_detected]"})
		}
		return
	}
	var holds []string
	for _, c := range q.calls {
		if c.output != nil && (c.decided == schemas.DecisionAllow || !next) {
			holds = append(holds, c.output.Output)
		}
	}
	switch {
	case !next:
		r.cutOff(append(q.said, holds...), q)
	case len(holds) > 0:
		r.context = append(r.context, inputLine{mark: "[turn_retried]", holds: holds})
	}
}

// cutOff makes one block of the prompts and blocks that nobody has answered, and what else was cut off.
func (r *reader) cutOff(holds []string, q *requestRead) {
	block := inputLine{mark: "[turn_aborted]", refused: q.refused}
	kept := slices.Clone(r.context[:r.answered])
	for _, l := range r.context[r.answered:] {
		switch {
		case q.misfit:
			l = r.beginning(l)
		case q.refused && l.refused:
			l.holds = []string{"left out"}
		}
		switch {
		case l.picture && (q.misfit || q.refused):
			block.holds = append(block.holds, "A picture was left out")
		case l.asked || strings.HasPrefix(l.mark, "[turn_"):
			block.holds = append(block.holds, l.holds...)
		default:
			kept = append(kept, l)
		}
	}
	block.holds = append(block.holds, holds...)
	r.context = append(kept, block)
}

// beginning is what is sure to be told of a context that did not fit.
func (r *reader) beginning(l inputLine) inputLine {
	const long = 200
	switch {
	case l.asked:
		l.holds = []string{l.holds[0][:min(len(l.holds[0]), long)]}
	case l.output != nil && len(l.output.Output) > long:
		cut := *l.output
		cut.Output = cut.Output[:long] + "\n(The rest was left out: it did not fit.)"
		l.line = r.line(&cut)
	default:
		l.holds = nil
	}
	return l
}

// differs says where an input is not what the log makes it; empty if it is.
func (r *reader) differs(input []schemas.Message) string {
	var got []string
	for _, m := range input {
		got = append(got, r.line(m.Payload))
	}
	for i, want := range r.context {
		if i < len(got) && want.fits(got[i]) {
			continue
		}
		return fmt.Sprintf("message %d of the input must be %+v:\n%s", i+1, want, strings.Join(got, "\n"))
	}
	if len(got) > len(r.context) {
		return "the input holds more than the log:\n" + strings.Join(got, "\n")
	}
	return ""
}

func (l inputLine) fits(got string) bool {
	if l.mark == "" {
		return l.line == got
	}
	rest, ok := strings.CutPrefix(got, `user "`+l.mark)
	for _, h := range l.holds {
		text := strconv.Quote(h)
		_, behind, found := strings.Cut(rest, text[1:len(text)-1])
		rest, ok = behind, ok && found
	}
	return ok && strings.HasSuffix(rest, "sender=harness")
}
