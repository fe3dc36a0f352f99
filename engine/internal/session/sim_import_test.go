package session

import (
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"braid/schemas"
)

// checkImport makes another session of the trace, whole or cut off anywhere, under owners that die.
// A whole one has the same context; any keeps the rules, and its owner is at rest.
func (w *world) checkImport() {
	if w.state.Deleting {
		return // nobody exports it any more
	}
	var trace []schemas.Message
	for _, e := range w.log {
		if e.Message.Recorded() {
			trace = append(trace, e.Message)
		}
	}
	whole := len(trace)
	if rapid.Bool().Draw(w.t, "cut off") {
		trace = trace[:rapid.IntRange(0, len(trace)).Draw(w.t, "length of the trace")]
	}
	var check schemas.TraceCheck
	for _, m := range trace {
		if err := check.Add(m); err != nil {
			w.t.Fatalf("%v\n%s", err, w.dump())
		}
	}
	facts, err := check.Finish()
	if err != nil {
		return // the session was not created, or not yet
	}
	copied := newWorld(w.t)
	copied.commands = []CommandReceived{{Sequence: 1, Command: schemas.Command{
		ID: "import", Type: schemas.CommandImport, Session: copied.state.Session, Import: &schemas.ImportBody{Trace: "t"},
	}}}
	copied.importTrace(trace, facts)
	copied.check(true)
	copied.checkFold()
	got := copied.state
	if !got.AtRest() || got.Meta == nil {
		w.t.Fatalf("the import has not come to its end\n%s", copied.dump())
	}
	got.Context = append(slices.Clip(got.Context), schemas.Message{Type: schemas.TypeModel, Payload: schemas.UserText("next")})
	copied.inputs = [][]schemas.Message{got.Context}
	copied.checkInputs()
	if len(trace) < whole {
		return
	}
	want := append(slices.Clone(w.state.Context), got.Context[len(got.Context)-1])
	times := cmpopts.IgnoreFields(schemas.Message{}, "Timestamp")
	if diff := cmp.Diff(want, got.Context, times, cmpopts.EquateEmpty()); diff != "" {
		w.t.Fatalf("the imported context differs (-own +imported)\n%s\n%s", diff, w.dump())
	}
}

// importTrace carries the import out as the engine does: bit by bit, from where an owner is.
func (w *world) importTrace(trace []schemas.Message, facts schemas.TraceFacts) {
	settings, err := (&schemas.ImportBody{Trace: "t"}).Settings(w.state.Session.ID, facts.Meta)
	if err != nil {
		w.t.Fatal(err)
	}
	w.own("", "lost")
	from := -1
	for w.state.Meta == nil || len(w.unstored) > 0 {
		switch rapid.IntRange(0, 3).Draw(w.t, "step of the import") {
		case 0:
			w.store()
		case 1:
			if rapid.IntRange(0, 5).Draw(w.t, "the owner dies") == 0 {
				w.die()
				from = -1
			}
		default:
			if w.state.source == nil {
				w.store()
				continue
			}
			if from < 0 {
				from = 0
				if i := w.state.importing; i != nil {
					from = i.taken
				}
			}
			n := min(rapid.IntRange(1, 9).Draw(w.t, "messages"), len(trace)-from)
			w.step(TraceRead{Settings: settings, Facts: facts, From: from, Messages: trace[from : from+n]})
			from += n
		}
	}
}
