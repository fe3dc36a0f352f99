package schematest

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"braid/schemas"
)

// LegalStream generates finished streams of a session, everything published included (the
// feed's view): several tasks with failed and completed requests, tools that run at the same
// time, people who are asked, refusals, aborts, compactions, a child session and changes of
// owner. A stream breaks no rule.
func LegalStream() *rapid.Generator[[]schemas.Entry] {
	return rapid.Custom(func(t *rapid.T) []schemas.Entry {
		g := &generator{t: t, id: "call"}
		g.child = g.childStream()
		g.emitTrace(&schemas.SessionMeta{SessionID: "main"})
		for range rapid.IntRange(1, 3).Draw(t, "tasks") {
			g.task()
			g.sometimes(8, g.compaction)
		}
		g.drainChild()
		return g.entries
	})
}

// generator plays a session.
type generator struct {
	t       *rapid.T
	id      string // prefix of call ids
	plain   bool   // no child, no owner changes, no outcomes
	entries []schemas.Entry
	last    schemas.Position
	calls   int
	used    schemas.TokenCounts // by the session
	queue   []string            // calls that wait for a decision, in call order
	asked   bool                // the first of them was asked about
	running [][]schemas.Payload // what each tool still has to say
	child   []schemas.Message   // what a child session still has to say
}

func (g *generator) sometimes(oneIn int, do func()) {
	if rapid.IntRange(1, oneIn).Draw(g.t, "sometimes") == 1 {
		do()
	}
}

func (g *generator) words() string {
	return rapid.StringOfN(rapid.RuneFrom([]rune("abc <é😀\n")), 0, 12, -1).Draw(g.t, "words")
}

func (g *generator) message(m schemas.Message) {
	g.entries = append(g.entries, schemas.Entry{Position: g.last, Message: m})
}

// emit appends payloads as one frame.
func (g *generator) emit(payloads ...schemas.Payload) {
	for i, p := range payloads {
		if i == 0 {
			g.last = schemas.Position{Sequence: g.last.Sequence + 1}
		} else {
			g.last.Line++
		}
		g.message(schemas.New(g.now(), p))
	}
}

// emitTrace appends payloads of scope trace, each in a frame of its own.
func (g *generator) emitTrace(payloads ...schemas.Payload) {
	for _, p := range payloads {
		g.emit(p)
		g.entries[len(g.entries)-1].Message.Scope = schemas.ScopeTrace
	}
}

// now is not ordered: timestamps order nothing.
func (g *generator) now() time.Time {
	return start.Add(time.Duration(rapid.IntRange(-5, 5).Draw(g.t, "clock")) * time.Second)
}

// childStream plays a whole child session, as its parent forwards it.
func (g *generator) childStream() []schemas.Message {
	if !rapid.Bool().Draw(g.t, "child") {
		return nil
	}
	kid := &generator{t: g.t, id: "kid", plain: true}
	kid.emit(&schemas.SessionMeta{SessionID: "kid"})
	kid.task()
	var all []schemas.Message
	for _, e := range kid.entries {
		if e.Message.Visible() {
			all = append(all, e.Message.WithOrigin("kid"))
		}
	}
	return all
}

func (g *generator) childStep() {
	g.last = schemas.Position{Sequence: g.last.Sequence + 1}
	g.message(g.child[0])
	g.child = g.child[1:]
}

func (g *generator) drainChild() {
	for len(g.child) > 0 {
		g.childStep()
	}
}

// around happens around the model: tools speak, people decide, owners change.
func (g *generator) around() {
	if len(g.child) > 0 {
		g.sometimes(4, g.childStep)
	}
	if !g.plain {
		g.sometimes(20, func() { g.emit(&schemas.OwnerChanged{From: "e1", To: "e2", Cause: "lost"}) })
		g.sometimes(20, func() { g.emit(&schemas.SessionChanged{ApprovalMode: schemas.ApproveAll}) })
		g.sometimes(20, func() { g.emitTrace(&schemas.CommandOutcome{CommandID: "c", Code: schemas.CodeNotPending}) })
	}
	if len(g.running) > 0 {
		g.sometimes(2, g.toolStep)
	}
	if len(g.queue) > 0 {
		g.sometimes(2, g.approvalStep)
	}
}

// toolStep lets one running tool say its next piece.
func (g *generator) toolStep() {
	i := rapid.IntRange(0, len(g.running)-1).Draw(g.t, "tool")
	g.emit(g.running[i][0])
	g.running[i] = g.running[i][1:]
	if len(g.running[i]) == 0 {
		g.running = append(g.running[:i], g.running[i+1:]...)
	}
}

// approvalStep asks about the first waiting call, or decides on it.
func (g *generator) approvalStep() {
	id := g.queue[0]
	if !g.asked && rapid.Bool().Draw(g.t, "ask") {
		g.asked = true
		g.emit(&schemas.ApprovalRequest{ToolCallID: id, Name: "tool", Arguments: "{}"})
		return
	}
	g.queue, g.asked = g.queue[1:], false
	decision := rapid.SampledFrom([]schemas.Decision{
		schemas.DecisionAllow, schemas.DecisionAllow, schemas.DecisionDeny, schemas.DecisionForbidden,
	}).Draw(g.t, "decision")
	decided := &schemas.ApprovalDecision{Decision: decision, ToolCallID: id}
	if decision != schemas.DecisionAllow {
		g.emit(decided, schemas.NewToolCallOutput(id, "refused", schemas.StopAborted))
		return
	}
	g.emit(decided)
	outcome := rapid.SampledFrom([]schemas.StopReason{
		schemas.StopCompleted, schemas.StopFailed, schemas.StopTimeout,
	}).Draw(g.t, "outcome")
	said := Streamed(schemas.NewToolCallOutput(id, g.words(), outcome))
	g.sometimes(4, func() { said = said[len(said)-1:] }) // a call that never started says no more
	g.running = append(g.running, said)
}

// settle runs until nothing is decided and unfinished, and with decide nothing undecided.
func (g *generator) settle(decide bool) {
	for len(g.running) > 0 || decide && len(g.queue) > 0 {
		if decide && len(g.queue) > 0 && (len(g.running) == 0 || rapid.Bool().Draw(g.t, "decide next")) {
			g.approvalStep()
			continue
		}
		g.toolStep()
	}
}

func (g *generator) task() {
	prompt := schemas.TaskBody{Prompt: g.words()}
	if !g.plain && len(g.entries) == 1 { // the session's first may come with a conversation
		g.sometimes(3, func() { prompt.Input = Input().Draw(g.t, "input") })
	}
	g.emitTrace(prompt.Payloads(g.callID)...)
	for range rapid.IntRange(1, 3).Draw(g.t, "turns") {
		g.sometimes(10, g.compaction)
		for attempt := range rapid.IntRange(0, 2).Draw(g.t, "failures") {
			g.request(schemas.StopTimeout, attempt+1)
			g.settle(false)
		}
		g.request(schemas.StopCompleted, 0)
		if rapid.IntRange(1, 8).Draw(g.t, "abort") == 1 {
			g.settle(false)
			g.queue, g.asked = nil, false
			g.emit(&schemas.Abort{}, &schemas.TaskEnd{Status: schemas.StopAborted, Cause: "user"})
			return
		}
		g.settle(true)
	}
	g.sometimes(6, func() {
		notice := schemas.AssistantText("[reached max turns (3); stopping]")
		notice.StopReason = schemas.StopFailed
		for _, p := range Streamed(notice) {
			g.emit(p)
		}
	})
	g.emit(&schemas.TaskEnd{Status: schemas.StopCompleted, Cause: "done"})
}

// request plays one model call.
func (g *generator) request(status schemas.StopReason, attempt int) {
	g.emit(&schemas.RequestBegin{Attempt: attempt})
	for range rapid.IntRange(0, 3).Draw(g.t, "messages") {
		said := g.modelMessage()
		for _, p := range Streamed(said) {
			g.emit(p)
			if call, ok := p.(*schemas.ToolCall); ok {
				g.queue = append(g.queue, call.ToolCallID)
			}
			g.around()
		}
	}
	if status != schemas.StopCompleted {
		var end []schemas.Payload
		g.sometimes(2, func() { end = append(end, g.usage()) })
		g.emit(append(end, &schemas.RequestEnd{Status: status, Attempt: attempt})...)
		g.queue, g.asked = nil, false
		return
	}
	end := []schemas.Payload{g.usage(), &schemas.RequestEnd{Status: status}}
	g.sometimes(6, func() { end = append(end, &schemas.LoopDetected{Repeated: "tool_calls", Repetitions: 3}) })
	g.emit(end...)
}

// usage is what a request used.
func (g *generator) usage() schemas.Payload {
	request := schemas.TokenCounts{Total: rapid.Int64Range(0, 3).Draw(g.t, "tokens")}
	g.used = g.used.Add(request)
	return &schemas.TokenUsage{Session: g.used, Request: request}
}

func (g *generator) modelMessage() schemas.Payload {
	switch rapid.IntRange(0, 2).Draw(g.t, "kind") {
	case 0:
		return schemas.AssistantThinking(g.words())
	case 1:
		return schemas.AssistantText(g.words())
	}
	return schemas.NewToolCall(g.callID(), "tool", g.words())
}

func (g *generator) callID() string {
	g.calls++
	return fmt.Sprintf("%s%d", g.id, g.calls)
}

// compaction plays a compaction of one or two attempts.
func (g *generator) compaction() {
	g.emit(&schemas.CompactionBegin{Reason: "context", Mode: "summarize"})
	for range rapid.IntRange(1, 2).Draw(g.t, "attempts") {
		g.emitTrace(&schemas.RequestBegin{}, schemas.AssistantText("summary"))
		g.emit(g.usage(), &schemas.RequestEnd{Status: schemas.StopCompleted})
		g.entries[len(g.entries)-1].Message.Scope = schemas.ScopeTrace
	}
	g.emit(&schemas.CompactionEnd{Reason: "context", Mode: "summarize", Status: schemas.StopCompleted})
}
