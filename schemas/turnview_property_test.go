package schemas_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"braid/schemas"
	"braid/schemas/schematest"
)

// placed is an event and the message that completed it.
type placed struct {
	At schemas.Position
	schemas.TurnEvent
}

// project runs a view over entries. With flush it is told where frames are over.
func project(view *schemas.TurnView, entries []schemas.Entry, flush func(next int) bool) []placed {
	var all []placed
	for i, e := range entries {
		for _, event := range view.Add(e) {
			all = append(all, placed{e.Position, event})
		}
		over := i+1 == len(entries) || entries[i+1].Position.Sequence != e.Position.Sequence
		if over && flush(i+1) {
			for _, event := range view.Flush() {
				all = append(all, placed{e.Position, event})
			}
		}
	}
	return all
}

func never(int) bool  { return false }
func always(int) bool { return true }

// events are the events alone.
func events(all []placed) []schemas.TurnEvent {
	var out []schemas.TurnEvent
	for _, p := range all {
		out = append(out, p.TurnEvent)
	}
	return out
}

// committed is what a turn is known to hold by reading the whole stream.
type committed struct {
	text    string
	calls   []string
	outputs map[string]bool
	task    int
}

// truth reads a whole stream, looking ahead as a TurnView can't: its turns, and the places at
// which its tasks end.
func truth(entries []schemas.Entry) (turns []*committed, ends []schemas.Position) {
	var open, last *committed
	compacting := false
	for _, e := range entries {
		if len(e.Message.Origin) > 0 || e.Message.Given() {
			continue
		}
		switch p := e.Message.Payload.(type) {
		case *schemas.CompactionBegin:
			compacting = true
		case *schemas.CompactionEnd:
			compacting = false
		case *schemas.TaskEnd:
			ends = append(ends, e.Position)
			last = nil
		case *schemas.RequestBegin:
			if !compacting {
				open, last = &committed{outputs: map[string]bool{}, task: len(ends)}, nil
			}
		case *schemas.RequestEnd:
			if !compacting && p.Status == schemas.StopCompleted {
				turns, last = append(turns, open), open
			}
			open = nil
		case *schemas.Text:
			if open != nil && !compacting && p.Role == schemas.RoleAssistant {
				open.text += p.Text
			}
		case *schemas.ToolCall:
			open.calls = append(open.calls, p.ToolCallID)
		case *schemas.ToolCallOutput:
			for _, c := range []*committed{open, last} {
				if c != nil && slices.Contains(c.calls, p.ToolCallID) {
					c.outputs[p.ToolCallID] = true
				}
			}
		}
	}
	return turns, ends
}

// outline is the events that turns must make, in order, but for the marks: those of different
// tasks are parted by the end of the first.
func outline(turns []*committed, tasks int) []string {
	var want []string
	for task := range tasks {
		for _, turn := range turns {
			if turn.task != task {
				continue
			}
			if turn.text != "" {
				want = append(want, "text "+turn.text)
			}
			for _, id := range turn.calls {
				want = append(want, "tool_use "+id)
			}
			for _, id := range turn.calls {
				if turn.outputs[id] {
					want = append(want, "tool_result "+id)
				}
			}
		}
		want = append(want, "done")
	}
	return want
}

func outlineOf(all []placed) []string {
	var got []string
	for _, p := range all {
		switch d := p.Data.(type) {
		case string:
			got = append(got, "text "+d)
		case *schemas.ToolUseBlock:
			got = append(got, "tool_use "+d.ID)
		case *schemas.ToolResultBlock:
			got = append(got, "tool_result "+d.ToolUseID)
		case *schemas.TaskResult:
			got = append(got, "done")
		}
	}
	return got
}

// A legal stream makes the text, calls and results of its committed requests, in order, and one
// last event a task, at its end; nothing of a failed request shows.
func TestTurnViewTellsTheTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := schematest.LegalStream().Draw(t, "stream")
		got := project(schemas.NewTurnView(), entries, never)
		turns, ends := truth(entries)
		if diff := cmp.Diff(outline(turns, len(ends)), outlineOf(got)); diff != "" {
			t.Fatalf("(-want +got)\n%s\n%s", diff, schematest.Format(entries))
		}
		task := 0
		for _, p := range got {
			result, ok := p.Data.(*schemas.TaskResult)
			if !ok {
				continue
			}
			if p.At != ends[task] {
				t.Fatalf("task %d is done at %s, ended at %s", task, p.At, ends[task])
			}
			checkResult(t, result, turns, task)
			task++
		}
	})
}

// checkResult compares a result with the turns of its task.
func checkResult(t *rapid.T, r *schemas.TaskResult, turns []*committed, task int) {
	want := schemas.TaskResult{}
	var calls, called []string
	for _, turn := range turns {
		if turn.task == task {
			want.Turns++
			want.Output = turn.text
			for _, id := range turn.calls {
				if turn.outputs[id] {
					calls = append(calls, id)
				}
			}
		}
	}
	for _, c := range r.ToolCalls {
		called = append(called, c.ID)
	}
	if r.Turns != want.Turns || r.Output != want.Output || !slices.Equal(calls, called) || r.Incomplete {
		t.Fatalf("task %d: %+v, want %d turns, output %q, calls %v", task, r, want.Turns, want.Output, calls)
	}
	var outputs []string
	text := ""
	for _, m := range r.Messages {
		switch p := m.Payload.(type) {
		case *schemas.Text:
			text += p.Text
		case *schemas.ToolCallOutput:
			outputs = append(outputs, p.ToolCallID)
		}
	}
	if !slices.Equal(calls, outputs) || !strings.HasSuffix(text, want.Output) {
		t.Fatalf("task %d: its messages are %v", task, r.Messages)
	}
}

// It makes no difference through which view the stream is seen, nor which frames are known to be
// over, except for when events come.
func TestTurnViewIsTheSameForAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := schematest.LegalStream().Draw(t, "stream")
		want := project(schemas.NewTurnView(), entries, never)
		for _, view := range allViews {
			got := project(schemas.NewTurnView(), seen(view, entries), func(int) bool { return rapid.Bool().Draw(t, "flush") })
			if diff := cmp.Diff(events(want), events(got)); diff != "" {
				t.Fatalf("%s (-feed +got)\n%s\n%s", view, diff, schematest.Format(entries))
			}
		}
		// When every frame is known to be over, each event comes as early as it can: with the
		// same message, whoever watches.
		early := project(schemas.NewTurnView(), recordedOwn(entries), always)
		all := project(schemas.NewTurnView(), seen(schemas.ViewRecorded, entries), always)
		for i := range early {
			if early[i].At.Sequence != all[i].At.Sequence || early[i].At.Compare(want[i].At) > 0 {
				t.Fatalf("%s comes at %s, %s or %s", early[i].Type, early[i].At, all[i].At, want[i].At)
			}
		}
	})
}

// recordedOwn is what a watcher of the stream keeps of it.
func recordedOwn(entries []schemas.Entry) []schemas.Entry {
	return seen(schemas.ViewStream, seen(schemas.ViewRecorded, entries))
}

// Who joins anywhere gets the rest of the events: all of every request that begins later, one end
// a task, and from the first end on everything.
func TestTurnViewFromTheMiddle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := schematest.LegalStream().Draw(t, "stream")
		from := rapid.IntRange(0, len(entries)-1).Draw(t, "from")
		view := schemas.NewTurnView()
		view.Missed()
		got := project(view, entries[from:], never)
		whole := project(schemas.NewTurnView(), entries, never)

		part := outlineOf(got)
		all := outlineOf(whole)
		rest := append([]string(nil), all[len(all)-min(len(part), len(all)):]...)
		if diff := cmp.Diff(rest, part); diff != "" {
			t.Fatalf("from %d (-whole +got)\n%s\n%s", from, diff, schematest.Format(entries[from:]))
		}
		end := slices.IndexFunc(got, func(p placed) bool { return p.Type == schemas.TurnDone })
		if end < 0 {
			return
		}
		if !got[end].Data.(*schemas.TaskResult).Incomplete {
			t.Fatal("the first end is not marked as incomplete")
		}
		after := len(got) - end - 1
		if diff := cmp.Diff(whole[len(whole)-after:], got[end+1:]); diff != "" {
			t.Fatalf("after the first end (-whole +got)\n%s", diff)
		}
	})
}

// odds are messages that a view reacts to, few enough to fit one another by chance.
const odds = `event request_begin
event request_end completed
event request_end failed
text "a"
tool_call A ls "{}"
tool_call B ls "{"
event approval_request A ls "{}"
event approval_decision allow A
event approval_decision forbidden B
tool_call_output A "x"
tool_call_output B "" stop_reason=failed
event loop_detected
event budget_exceeded
event compaction_begin
event compaction_end completed
event owner_changed
event abort
event task_end completed cause=loop
event task_end failed
user "b"`

// lasts is how many last events may come with a message: one with a task_end; and, if a trace was
// imported, which may have none, perhaps one with a prompt.
func lasts(m schemas.Message, imported bool) (least, most int) {
	if len(m.Origin) > 0 || !m.Visible() {
		return 0, 0
	}
	switch m.Payload.(type) {
	case *schemas.TaskEnd:
		return 1, 1
	case *schemas.Text, *schemas.ImageURL, *schemas.InlineData:
		if imported {
			return 0, 1
		}
	case *schemas.CommandOutcome: // of an import that came to nothing
		return 0, 1
	}
	return 0, 0
}

// Whatever comes, also what no session says: one last event a task, no result without its call,
// and every event fits its schema.
func TestTurnViewTakesAnything(t *testing.T) {
	schema := validator(t)("turn_event")
	likely := rapid.Map(rapid.SampledFrom(schematest.MustParse(odds)), func(e schemas.Entry) schemas.Message { return e.Message })
	imports := rapid.Just(schemas.New(time.Unix(0, 0), &schemas.SessionImported{Messages: 9, Visible: 9}))
	anyMessage := rapid.OneOf(likely, likely, likely, likely, likely, likely, imports, schematest.AnyMessage(), schematest.AnyMessage())
	rapid.Check(t, func(t *rapid.T) {
		view := schemas.NewTurnView()
		imported := false
		given := map[string]int{}
		for i := range rapid.IntRange(0, 30).Draw(t, "messages") {
			m := anyMessage.Draw(t, "message")
			least, most := lasts(m, imported)
			if _, ok := m.Payload.(*schemas.SessionImported); ok {
				imported = true
			}
			if rapid.IntRange(0, 19).Draw(t, "missed") == 0 {
				view.Missed()
			}
			at := schemas.Position{Sequence: uint64(i/3) + 1, Line: i % 3}
			events := view.Add(schemas.Entry{Position: at, Message: m})
			if rapid.Bool().Draw(t, "flush") {
				events = append(events, view.Flush()...)
			}
			last := 0
			for _, e := range events {
				b, err := schemas.EncodeJSON(e)
				if err != nil {
					t.Fatal(err)
				}
				if err := validate(schema, b); err != nil {
					t.Fatalf("%s\n%v", b, err)
				}
				switch d := e.Data.(type) {
				case *schemas.ToolUseBlock:
					given[d.ID]++
				case *schemas.ToolResultBlock:
					if given[d.ToolUseID]--; given[d.ToolUseID] < 0 {
						t.Fatalf("a result without its call: %s", b)
					}
				case *schemas.TaskResult, *schemas.TaskFailure:
					last++
				}
			}
			if last < least || last > most {
				t.Fatalf("%d last events with message %d, want %d to %d", last, i, least, most)
			}
		}
	})
}
