package session

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"braid/schemas"
	"braid/schemas/schematest"
)

// importing begins an import of a trace and brings its first messages.
func (p *play) importing(timeline string, first int) (rest TraceRead) {
	p.command(schemas.Command{Type: schemas.CommandImport, Import: &schemas.ImportBody{Trace: "t"}})
	read := TraceRead{Command: p.sequence, Settings: schemas.SessionMeta{SessionID: "s", Provider: "pro", ModelID: "model", ApprovalMode: schemas.ApproveAsk}}
	for _, e := range schematest.MustParse(timeline) {
		read.Messages = append(read.Messages, e.Message)
	}
	read.Facts.Messages = len(read.Messages)
	rest = read
	rest.From, rest.Messages = first, read.Messages[first:]
	if read.Messages = read.Messages[:first]; first > 0 {
		p.do(read)
	}
	return rest
}

const twoCalls = `
session_meta old
user "look"
event request_begin
tool_call c7-1 look "{}"
event approval_decision allow c7-1
tool_call c7-4 look "{}"
event approval_decision allow c7-4
event request_end completed
tool_call_output c7-4 "four"
`

// What comes meanwhile waits for the import's end, and the outcome is in the frame of the last
// message.
func TestCommandsWaitForAnImport(t *testing.T) {
	p := newPlay(t)
	rest := p.importing(twoCalls, 3)
	p.task()
	p.expect()
	p.approve("c7-1", schemas.DecisionAllow)
	p.expect()
	if p.s.AtRest() || p.s.Busy() || p.s.Suspendable() || p.s.Pending() != nil {
		t.Error("an import is at rest, or asks for something")
	}
	if _, _, open := p.s.OpenRequest(); open {
		t.Error("an import has a request whose use must be estimated")
	}
	p.do(GaveUp{Message: "no"}).expect()
	p.do(CheckpointDue{}).expect()
	p.do(rest).expect(`call "look{}"`, "allow c7-1", `call "look{}"`, "allow c7-4", "end completed 1 0", `output "four"`,
		`output "[the record ends before the output of this call; its outcome is unknown]" aborted`,
		"abort the imported trace ends in the middle of this task", "task aborted import",
		"outcome applied", "outcome applied", `text "go"`, "outcome not_pending",
		"-> answer", "session.DropTrace", "-> answer", "-> answer", "-> list tools")
	if p.s.Meta.SessionID != "s" || p.s.Mode != schemas.ApproveAsk {
		t.Errorf("it runs on %+v, mode %s", p.s.Meta, p.s.Mode)
	}
}

// A trace that holds the outcome of a failed import of the same command is refused, since readers would
// take it for the import's own; one of an import that was applied is a message like any other.
func TestTraceWithTheOutcomeOfItsImport(t *testing.T) {
	for _, row := range []struct {
		code schemas.Code
		want []string
	}{
		{schemas.CodeNotFound, []string{"session_imported", "session_meta", "outcome invalid", "-> answer", "session.DropTrace"}},
		{schemas.CodeApplied, []string{"session_imported", "session_meta", "outcome applied", "outcome applied", "-> answer", "session.DropTrace"}},
	} {
		p := newPlay(t)
		rest := p.importing("session_meta old", 0)
		rest.Messages = append(rest.Messages, schemas.NewTraceOnly(p.now(), &schemas.CommandOutcome{
			CommandID: "k1", Command: schemas.CommandImport, Sequence: 1, Code: row.code,
		}))
		rest.Facts.Messages = len(rest.Messages)
		p.do(rest).expect(row.want...)
		if applied := row.code == schemas.CodeApplied; p.s.imports() || applied != (p.s.Meta != nil) {
			t.Errorf("%s: it is %+v", row.code, p.s.Meta)
		}
	}
}

// Ids of new calls differ from all of the trace, also those of this owner's own shape.
func TestCallsAfterAnImportHaveNewIDs(t *testing.T) {
	p := newPlay(t)
	p.do(p.importing(twoCalls, 2))
	p.task().do(ToolsListed{}).call("look", "{}")
	if id := p.s.Task.Request.Calls[0].ToolCallID; id != "c7-5" {
		t.Errorf("the new call is %s", id)
	}
	// An owner that comes later gives out ids as if it were the first, behind those of the trace.
	folded := New(p.s.Session)
	for _, m := range p.log {
		folded.Apply(m)
	}
	folded.Own(7)
	if id := (&step{State: folded}).nextCallID(); id != "c7-5" {
		t.Errorf("the next owner's is %s", id)
	}
}

// The model gets ids that are names, each of one call, whatever the trace has; and its fidelity
// only where it comes from.
func TestImportedContext(t *testing.T) {
	const trace = `
session_meta old
user "look"
event request_begin
tool_call "call.0" look "{}"
tool_call "call.0 " look "{}"
event request_end completed
tool_call_output "call.0 " "second"
tool_call_output "call.0" "first"
user "in between"
event request_begin
tool_call "call.0" look "{}"
user "while it speaks"
event request_end completed
user "while it runs"
tool_call_output "call.0" "third"
event request_begin
text "lost"
event request_end failed
event request_begin attempt=2
text "done"
event request_end completed
user "more"
`
	p := newPlay(t)
	p.do(p.importing(trace, 0))
	var got []string
	for _, m := range p.s.Context {
		line := renderMessage(m)
		switch c := m.Payload.(type) {
		case *schemas.ToolCall:
			line += " " + c.ToolCallID
		case *schemas.ToolCallOutput:
			line += " " + c.ToolCallID
		}
		got = append(got, line)
	}
	want := []string{
		`text "look"`, `call "look{}" i0-1`, `call "look{}" i1-1`, `output "first" i0-1`, `output "second" i1-1`,
		`text "in between"`, `call "look{}" i2-1`, `output "third" i2-1`,
		`text "while it speaks"`, `text "while it runs"`, `text "done"`,
		"text " + strconv.Quote(block(abortedMarker, abortedIntro, []string{"  [user_input]more[/user_input]", "  (It failed here.)"})),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	log := strings.Join(rendered(p.log), "\n")
	if !strings.Contains(log, "call.0 ") {
		t.Errorf("the log does not keep the ids\n%s", log)
	}
}

// A session that was imported is told to the model in the same words by whoever imports it once more.
func TestImportedAgain(t *testing.T) {
	for why, end := range map[string]string{
		"cut off in a request":                   "",
		"cut off behind one that nobody aborted": "event request_end aborted",
		"behind one that failed":                 "event request_end failed",
		"behind one that somebody aborted":       "event request_end aborted\nevent abort enough",
		"ended by somebody":                      "event request_end aborted\nevent abort enough\nevent task_end aborted",
	} {
		t.Run(why, func(t *testing.T) {
			p, again := newPlay(t), newPlay(t)
			p.do(p.importing("session_meta old\nuser \"look\"\nevent request_begin\n"+end, 0))
			again.command(schemas.Command{Type: schemas.CommandImport, Import: &schemas.ImportBody{Trace: "t"}})
			read := TraceRead{Command: again.sequence, Settings: *p.s.Meta, Messages: p.log}
			read.Facts.Messages = len(p.log)
			again.do(read)
			if diff := cmp.Diff(rendered(p.s.Context), rendered(again.s.Context)); diff != "" {
				t.Errorf("(-once +twice)\n%s", diff)
			}
		})
	}
}

func rendered(messages []schemas.Message) (lines []string) {
	for _, m := range messages {
		line, _ := schemas.Encode(m)
		lines = append(lines, string(line))
	}
	return lines
}

// Fidelity is for the provider that gave it.
func TestFidelityOfAnImport(t *testing.T) {
	for provider, want := range map[string]string{"pro": `{"signature":"x"}`, "other": ""} {
		p := newPlay(t)
		read := p.importing("session_meta old\nevent request_begin\nthinking \"hm\"\nevent request_end completed", 0)
		read.Messages[0].Payload.(*schemas.SessionMeta).Provider = provider
		read.Messages[0].Payload.(*schemas.SessionMeta).ModelID = "model"
		read.Messages[2].Payload.(*schemas.Thinking).Fidelity = []byte(`{"signature":"x"}`)
		p.do(read)
		if got := string(p.s.input("pro/model")[0].Payload.(*schemas.Thinking).Fidelity); got != want {
			t.Errorf("under another model of %s: fidelity %s", provider, got)
		}
	}
}

// A trace that can't be read any more makes no session; what waited behind it is told so, and the
// session can be made after all.
func TestImportRefusedInTheMiddle(t *testing.T) {
	p := newPlay(t)
	p.importing(twoCalls, 5)
	p.task()
	p.do(TraceRefused{Command: 1, Reason: schemas.Errorf(schemas.CodeNotFound, "gone")})
	p.expect("outcome not_found", "outcome unknown_session", "-> answer", "session.DropTrace", "-> answer")
	folded := New(p.s.Session)
	for _, m := range p.log {
		folded.Apply(m)
	}
	for name, s := range map[string]*State{"the owner": p.s, "the fold": folded} {
		if s.Meta != nil || s.Task != nil || len(s.Context) > 0 || !s.AtRest() {
			t.Errorf("%s has %+v", name, s)
		}
	}
	p.do(p.importing(twoCalls, 0))
	if p.s.Meta == nil {
		t.Error("a second import makes no session")
	}
}

// An abort or a delete ends the import at once: nothing of it counts, what was asked before has its
// outcome in the same frame, and what is still read of the trace is nobody's.
func TestImportEnds(t *testing.T) {
	again := schemas.Command{Type: schemas.CommandImport, Import: &schemas.ImportBody{Trace: "t"}}
	abort := schemas.Command{Type: schemas.CommandAbort, Abort: &schemas.AbortBody{Reason: "enough"}}
	create := schemas.Command{Type: schemas.CommandCreate, Create: &schemas.CreateBody{Model: "pro/model"}}
	task := schemas.Command{Type: schemas.CommandTask, Task: &schemas.TaskBody{Prompt: "go"}}
	forgotten := schemas.Command{Type: schemas.CommandDelete}
	for _, row := range []struct {
		why     string
		held    []schemas.Command
		by      schemas.Command
		want    []string
		visible bool // the import's outcome, because something of it was
		first   int
	}{
		{"an abort in its midst", nil, abort, []string{"outcome aborted", "outcome applied", "-> answer", "session.DropTrace", "-> answer"}, true, 5},
		{"before anything of it is stored", nil, abort, []string{"outcome aborted", "outcome applied", "-> answer", "session.DropTrace", "-> answer"}, false, 0},
		{"what waits is refused, another import ended as well", []schemas.Command{task, again}, abort, []string{
			"outcome aborted", "outcome unknown_session", "outcome aborted", "outcome applied",
			"-> answer", "session.DropTrace", "-> answer", "session.ReadTrace", "-> answer", "session.DropTrace", "-> answer",
		}, true, 5},
		{"a session was to be created behind it, and its task is aborted", []schemas.Command{create, task}, abort, []string{
			"outcome aborted", "outcome applied", "session_meta", "outcome applied", `text "go"`, "outcome applied", "abort enough", "task aborted user",
			"-> answer", "session.DropTrace", "-> answer", "-> answer", "-> answer",
		}, true, 5},
		{"a delete", []schemas.Command{create}, forgotten, []string{
			"outcome deleted", "outcome deleted", "outcome applied", "session_deleted", "-> answer", "session.DropTrace", "-> answer", "-> answer",
		}, true, 5},
	} {
		t.Run(row.why, func(t *testing.T) {
			p := newPlay(t)
			rest := p.importing(twoCalls, row.first)
			for _, c := range row.held {
				p.command(c).expect()
			}
			p.command(row.by).expect(row.want...)
			end := p.log[slices.IndexFunc(p.log, func(m schemas.Message) bool { return m.Kind() == schemas.KindCommandOutcome })]
			if end.Visible() != row.visible {
				t.Errorf("visible %v: %+v", end.Visible(), end.Payload)
			}
			folded := New(p.s.Session)
			for _, m := range p.log {
				folded.Apply(m)
			}
			for name, s := range map[string]*State{"the owner": p.s, "the fold": folded} {
				if s.imports() || s.Task != nil || !s.AtRest() || s.Deleted != (row.by.Type == schemas.CommandDelete) {
					t.Errorf("%s has %+v", name, s)
				}
			}
			p.do(rest).expect()
			if row.by.Type == schemas.CommandDelete || p.s.Meta != nil {
				return
			}
			late := rest
			rest = p.importing(twoCalls, 0)
			p.do(late).expect()
			if p.do(rest); p.s.Meta == nil {
				t.Error("a second import makes no session")
			}
		})
	}
}
