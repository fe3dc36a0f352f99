package session

import (
	"fmt"
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
	copied.copies = w.copies + 1
	copied.commands = []CommandReceived{{Sequence: 1, Command: schemas.Command{
		ID: fmt.Sprint("import-", copied.copies), Type: schemas.CommandImport, Session: copied.state.Session, Import: &schemas.ImportBody{Trace: "t"},
	}}}
	w.copied = copied
	if rapid.IntRange(0, 3).Draw(w.t, "play on") == 0 {
		copied.importTrace(trace, facts, true)
		copied.play()
		copied.verify()
		copied.checkImport()
		return
	}
	copied.importTrace(trace, facts, false)
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
	w.require(same(got.Usage, w.state.Usage), "the imported session has used something else")
	want := append(slices.Clone(w.state.Context), got.Context[len(got.Context)-1])
	times := cmpopts.IgnoreFields(schemas.Message{}, "Timestamp")
	if diff := cmp.Diff(want, got.Context, times, cmpopts.EquateEmpty()); diff != "" {
		w.t.Fatalf("the imported context differs (-own +imported)\n%s\n%s\nimported:\n%s", diff, w.dump(), copied.dump())
	}
}

// importTrace carries the import out as the engine does: bit by bit, from where an owner is. If it is
// disturbed people say all kinds of things meanwhile, and the trace may be gone, for which another
// import begins.
func (w *world) importTrace(trace []schemas.Message, facts schemas.TraceFacts, disturbed bool) {
	body := &schemas.ImportBody{Trace: "t"}
	settings, err := body.Settings(w.state.Session.ID, facts.Meta)
	if err != nil {
		w.t.Fatal(err)
	}
	w.own("", "lost")
	from := -1
	for w.state.Meta == nil && !w.state.Deleted || len(w.unstored) > 0 {
		switch rapid.IntRange(0, 4).Draw(w.t, "step of the import") {
		case 0:
			w.store()
		case 1:
			if rapid.IntRange(0, 5).Draw(w.t, "the owner dies") == 0 {
				w.die()
				from = -1
			}
		case 2:
			if disturbed && rapid.IntRange(0, 2).Draw(w.t, "disturbed") == 0 && w.disturb(body) {
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
			w.step(TraceRead{Command: w.state.source.Sequence, Settings: settings, Facts: facts, From: from, Messages: trace[from : from+n]})
			from += n
		}
	}
}

// disturb has something happen in the middle of an import; it reports whether that begins again.
func (w *world) disturb(body *schemas.ImportBody) (again bool) {
	switch rapid.SampledFrom([]string{"say", "delete", "create", "abort", "import", "gone", "give up", "checkpoint"}).Draw(w.t, "disturbance") {
	case "say":
		w.command(schemas.CommandTask, func(k *schemas.Command) {
			k.Task = &schemas.TaskBody{Prompt: k.ID, WhenBusy: rapid.SampledFrom([]schemas.WhenBusy{schemas.BusyQueue, schemas.BusySteer}).Draw(w.t, "when busy")}
		})
	case "delete":
		if rapid.IntRange(0, 2).Draw(w.t, "delete it") == 0 {
			w.endImport(schemas.CommandDelete)
		}
	case "create":
		w.command(schemas.CommandCreate, func(k *schemas.Command) { k.Create = &schemas.CreateBody{Model: "p/m"} })
	case "abort":
		w.endImport(schemas.CommandAbort)
		w.command(schemas.CommandImport, func(k *schemas.Command) { k.Import = body })
		return true
	case "import":
		w.command(schemas.CommandImport, func(k *schemas.Command) { k.Import = body })
	case "gone":
		if w.state.source == nil {
			return false
		}
		w.step(TraceRefused{Command: w.state.source.Sequence, Reason: schemas.Errorf(schemas.CodeNotFound, "it is gone")})
		w.command(schemas.CommandImport, func(k *schemas.Command) { k.Import = body })
		return true
	case "give up":
		w.step(GaveUp{Message: gaveUpText, Lost: w.lost()})
	default:
		w.step(CheckpointDue{})
	}
	return false
}

// endImport has a command end the import that runs, if one does. What was read of its trace comes late.
func (w *world) endImport(by schemas.CommandType) {
	source := w.state.source
	w.command(by, nil)
	if w.state.source != nil {
		w.t.Fatalf("%s has not ended the import\n%s", by, w.dump())
	}
	if source == nil {
		return
	}
	for _, late := range []Event{
		TraceRead{Command: source.Sequence, Messages: []schemas.Message{schemas.New(w.now, schemas.UserText("late"))}},
		TraceRefused{Command: source.Sequence, Reason: schemas.Errorf(schemas.CodeNotFound, "late")},
	} {
		if out := w.state.Step(w.now, late); len(out.Messages)+len(out.Effects) > 0 {
			w.t.Fatalf("what was read of a trace whose import has ended counts\n%s", w.dump())
		}
	}
}
