package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"braid/bus"
	"braid/bus/bustest"
	"braid/engine/internal/timelinetest"
	"braid/schemas"
	"braid/schemas/schematest"
)

// encoded writes messages as JSON Lines.
func encoded(t *testing.T, messages []schemas.Message) (lines []string) {
	t.Helper()
	for _, m := range messages {
		line, err := schemas.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	return lines
}

// imports stores a trace and asks for its import.
func (h *house) imports(session, id string, trace []string) schemas.Command {
	h.t.Helper()
	ref := schemas.SessionRef{Project: "p", ID: session}
	name, err := h.conn.PutTrace(context.Background(), ref, strings.NewReader(strings.Join(trace, "\n")))
	if err != nil {
		h.t.Fatal(err)
	}
	return schemas.Command{ID: id, Type: schemas.CommandImport, Session: ref, Import: &schemas.ImportBody{Trace: name, Model: "shell/demo"}}
}

// recorded reads the recorded messages of a session from its stream, and holds them to the rules.
func (h *house) recorded(session string) (messages []schemas.Message) {
	h.t.Helper()
	var entries []schemas.Entry
	ref := schemas.SessionRef{Project: "p", ID: session}
	for f, err := range h.conn.ReadFrames(context.Background(), ref, 0, 0, bus.LogOnly) {
		if err != nil {
			h.t.Fatal(err)
		}
		for _, e := range f.Entries() {
			if e.Message.Recorded() {
				entries, messages = append(entries, e), append(messages, e.Message)
			}
		}
	}
	schematest.VerifyFinished(h.t, schemas.ViewRecorded, entries)
	return messages
}

// exported reads a session from an engine's trace.
func (h *house) exported(e *Engine, session string) []string {
	h.t.Helper()
	ref := schemas.SessionRef{Project: "p", ID: session}
	ends, err := h.conn.SessionEnds(context.Background(), ref)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	if err := e.reader.projector.await(ctx, ref, ends.Log); err != nil {
		h.t.Fatal(err)
	}
	var out bytes.Buffer
	if err := e.store.Export(ctx, ref, &out); err != nil {
		h.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// Whatever a timeline leaves behind is imported, exported, imported again and exported: each time
// the lines come back as they were, behind the one that opens the import.
func TestTimelinesImport(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/timelines/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no timelines: %v", err)
	}
	h := newHouse(t, bustest.Single(t), nil)
	e := h.engine("e1")
	for i, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var messages []schemas.Message
		for _, entry := range schematest.MustParse(timelinetest.Section(archive, "trace")) {
			messages = append(messages, entry.Message)
		}
		trace := encoded(t, messages)
		for round := range 2 {
			name := fmt.Sprintf("s%d-%d", i, round)
			if o := h.send(h.imports(name, "import", trace)); o.Code != schemas.CodeApplied {
				t.Fatalf("%s, round %d: %+v", file, round, o)
			}
			h.recorded(name)
			out := h.exported(e, name)
			if diff := cmp.Diff(trace, out[1:min(1+len(trace), len(out))]); diff != "" {
				t.Errorf("%s, round %d (-in +out)\n%s", file, round, diff)
			}
			trace = out
		}
	}
}

// longTrace is a trace of many frames, whose turns say "step 1." and so on.
func longTrace(t *testing.T, turns int) []string {
	t.Helper()
	var b strings.Builder
	b.WriteString("session_meta old\nuser \"count\"\n")
	for i := 1; i <= turns; i++ {
		fmt.Fprintf(&b, "event request_begin\ntext \"step %d. %s\"\ntool_call c9-%d look \"{}\"\nevent approval_decision allow c9-%d\n", i, strings.Repeat("x", 200), i, i)
		fmt.Fprintf(&b, "event request_end completed\ntool_call_output c9-%d \"ok\"\n", i)
	}
	b.WriteString("event request_begin\ntext \"done\"\nevent request_end completed\n")
	var messages []schemas.Message
	for _, e := range schematest.MustParse(b.String()) {
		messages = append(messages, e.Message)
	}
	return encoded(t, messages)
}

// unlessOpening leaves out the message that opens an import, and what came behind the trace.
func unlessOpening(t *testing.T, messages []schemas.Message, n int) []string {
	t.Helper()
	opening := slices.IndexFunc(messages, func(m schemas.Message) bool { return m.Kind() == schemas.KindSessionImported })
	if opening < 0 || len(messages) < opening+1+n {
		t.Fatalf("%d messages, the trace has %d\n%s", len(messages), n, dump(messages))
	}
	return encoded(t, messages[opening+1:opening+1+n])
}

// An engine is lost in the middle of an import: the next goes on where it was, nothing is there
// twice, and a task that was sent meanwhile runs behind it, on the whole context.
func TestKilledWhileItImports(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), nil)
	first, w := h.wired("e1")
	trace := longTrace(t, 700)
	frame := w.hold("braid.p.session.", `"step 400.`)
	h.post(h.imports("s", "import", trace))
	frame.wait()
	h.post(taskCommand("t1"))
	crash(first, w)
	if got := h.outcomes("import"); len(got) != 0 {
		t.Fatalf("outcome %v in the middle of the import", got)
	}
	second := h.engine("e2")
	messages := h.follow(func(m schemas.Message) bool {
		p, ok := m.Payload.(*schemas.TaskEnd)
		return ok && p.TaskID == "t1"
	})
	if diff := cmp.Diff(trace, unlessOpening(t, messages, len(trace))); diff != "" {
		t.Errorf("(-trace +log)\n%s", diff)
	}
	h.once("import", schemas.CodeApplied)
	h.once("t1", schemas.CodeApplied)
	if out := h.exported(second, "s"); len(out) < len(trace) || !strings.Contains(out[0], "session_imported") {
		t.Errorf("the trace of e2 has %d lines", len(out))
	}
	h.recorded("s")
}

// An engine is lost where a request of the trace is open: that one is nobody's to end, nor to count.
func TestKilledInAnImportedRequest(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), nil)
	first, w := h.wired("e1")
	large := strings.Repeat("x", importBytes)
	var messages []schemas.Message
	for _, e := range schematest.MustParse("session_meta old\nuser \"go\"\nevent request_begin\ntext \"" + large +
		"\"\ntext \"the second " + large + "\"\nevent request_end completed\n") {
		messages = append(messages, e.Message)
	}
	trace := encoded(t, messages)
	frame := w.hold("braid.p.session.", `"the second`)
	h.post(h.imports("s", "import", trace))
	frame.wait()
	crash(first, w)
	h.engine("e2")
	stored := h.follow(func(m schemas.Message) bool {
		p, ok := m.Payload.(*schemas.CommandOutcome)
		return ok && p.CommandID == "import"
	})
	if diff := cmp.Diff(trace, unlessOpening(t, stored, len(trace))); diff != "" {
		t.Errorf("(-trace +log)\n%s", diff)
	}
	h.once("import", schemas.CodeApplied)
}

// A hand-over in the middle of an import loses nothing either.
func TestHandOverWhileItImports(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), nil)
	first, w := h.wired("e1")
	trace := longTrace(t, 700)
	frame := w.hold("braid.p.session.", `"step 300.`)
	h.post(h.imports("s", "import", trace))
	frame.wait()
	h.engine("e2")
	r := h.runner(first)
	stopped := make(chan error, 1)
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { stopped <- first.Stop(context.Background()) })
	<-r.leave
	frame.release()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	messages := h.follow(func(m schemas.Message) bool {
		p, ok := m.Payload.(*schemas.CommandOutcome)
		return ok && p.CommandID == "import"
	})
	if diff := cmp.Diff(trace, unlessOpening(t, messages, len(trace))); diff != "" {
		t.Errorf("(-trace +log)\n%s", diff)
	}
	h.recorded("s")
}

// The trace is gone when the next owner wants to go on: there is no session, and the same one can
// be imported again.
func TestTraceIsGoneInTheMiddle(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), nil)
	first, w := h.wired("e1")
	trace := longTrace(t, 700)
	frame := w.hold("braid.p.session.", `"step 400.`)
	command := h.imports("s", "import", trace)
	h.post(command)
	frame.wait()
	crash(first, w)
	if err := h.conn.DropTrace(context.Background(), ref, command.Import.Trace, time.Time{}); err != nil {
		t.Fatal(err)
	}
	second := h.engine("e2")
	h.follow(func(m schemas.Message) bool {
		p, ok := m.Payload.(*schemas.CommandOutcome)
		return ok && p.CommandID == "import"
	})
	h.once("import", schemas.CodeNotFound)
	if o := h.send(taskCommand("t1")); o.Code != schemas.CodeUnknownSession {
		t.Errorf("a task on it: %+v", o)
	}
	if o := h.send(h.imports("s", "again", trace)); o.Code != schemas.CodeApplied {
		t.Fatalf("the second import: %+v", o)
	}
	if o := h.send(taskCommand("t2")); o.Code != schemas.CodeApplied {
		t.Errorf("a task: %+v", o)
	}
	h.follow(func(m schemas.Message) bool {
		p, ok := m.Payload.(*schemas.TaskEnd)
		return ok && p.TaskID == "t2"
	})
	if out := h.exported(second, "s"); len(out) < 2*700 {
		t.Errorf("%d lines", len(out))
	}
}

// What can't be imported is refused with its line, and leaves nothing but the outcome.
func TestImportIsRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), nil)
	h.engine("e1")
	meta := encoded(t, []schemas.Message{schematest.MustParse("session_meta old")[0].Message})
	for i, test := range []struct {
		name   string
		change func(*schemas.Command)
		trace  []string
		code   schemas.Code
		why    string
	}{
		{"a line that is no message", nil, append(slices.Clone(meta), "hello"), schemas.CodeInvalid, "line 2"},
		{"no session_meta", nil, []string{"\n"}, schemas.CodeInvalid, "no session_meta"},
		{"a model nobody serves", func(c *schemas.Command) { c.Import.Model = "no/such" }, meta, schemas.CodeUnknownModel, "no provider"},
		{"a model without a price that may cost so much", func(c *schemas.Command) { c.Import.Limits.MaxCostTask = 1 }, meta, schemas.CodeInvalid, "price"},
		{"no model at all", func(c *schemas.Command) { c.Import.Model = "" }, meta, schemas.CodeInvalid, "model"},
		{"a trace of another session", func(c *schemas.Command) { c.Import.Trace = "p/other/trace.0" }, meta, schemas.CodeNotFound, "gone"},
	} {
		session := fmt.Sprintf("r%d", i)
		c := h.imports(session, "import", test.trace)
		if test.change != nil {
			test.change(&c)
		}
		o := h.send(c)
		if o.Code != test.code || !strings.Contains(o.Message, test.why) {
			t.Errorf("%s: %+v", test.name, o)
		}
		if got := h.recorded(session); len(got) != 1 {
			t.Errorf("%s: the log holds\n%s", test.name, dump(got))
		}
	}
	h.create("shell/demo", schemas.ApproveAll)
	onto := h.imports("s", "import", meta)
	if o := h.send(onto); o.Code != schemas.CodeSessionExists {
		t.Errorf("onto a session that exists: %+v", o)
	}
	h.dropped("of an import onto a session that exists", onto)
	h.delete("delete", false)
	onto = h.imports("s", "late", append(meta, "\n"))
	if o := h.send(onto); o.Code != schemas.CodeDeleted {
		t.Errorf("onto one that was deleted: %+v", o)
	}
	h.dropped("of an import onto one that was deleted", onto)
}

// dropped waits until the trace of an import is gone.
func (h *house) dropped(which string, c schemas.Command) {
	h.t.Helper()
	h.eventually("the trace "+which+" stays", func() bool {
		_, err := h.conn.ReadTrace(context.Background(), c.Session, c.Import.Trace)
		return errors.Is(err, bus.ErrBlobMissing)
	})
}

// A repeat that is refused takes no trace away that another import of the same is about to read.
func TestRefusalLeavesTheTraceOfAnother(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), nil)
	e, w := h.wired("e1")
	h.stops(e)
	trace := longTrace(t, 700)
	frame := w.hold("braid.p.session.", `"step 400.`)
	first := h.imports("s", "import", trace)
	h.post(first)
	frame.wait()
	second := h.imports("s", "second", trace)
	if second.Import.Trace != first.Import.Trace {
		t.Fatal("the traces differ")
	}
	h.post(second)
	if _, err := h.conn.ReadTrace(context.Background(), first.Session, first.Import.Trace); err != nil {
		t.Errorf("in the middle of the import: %v", err)
	}
	frame.release()
	h.follow(func(m schemas.Message) bool {
		p, ok := m.Payload.(*schemas.CommandOutcome)
		return ok && p.CommandID == "second"
	})
	h.once("import", schemas.CodeApplied)
	h.once("second", schemas.CodeSessionExists)
	h.dropped("of both", second)
}

// Commands, settings, failures and tokens of an imported trace are history: commands of the same
// ids are applied, and the ids of new calls are new.
func TestImportedTraceIsHistory(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), nil)
	e := h.engine("e1")
	h.create("shell/demo", schemas.ApproveAll)
	h.task("t1", "hello")
	h.follow(taskEnded)
	trace := h.exported(e, "s")
	again := h.imports("again", "import", trace)
	if o := h.send(again); o.Code != schemas.CodeApplied {
		t.Fatalf("%+v", o)
	}
	task := taskCommand("t1") // an id that the trace has as well
	task.Session = again.Session
	if o := h.send(task); o.Code != schemas.CodeApplied {
		t.Fatalf("a command whose id the trace has: %+v", o)
	}
	if o, found, err := e.store.Outcome(again.Session, "create"); err != nil || found {
		t.Errorf("the outcome of a command of the trace is found: %+v, %v", o, err)
	}
}

// An import that an abort or a delete ends in its middle makes no session, whoever owns it by then. After an
// abort the name is free for another; what watchers see of both keeps the rules.
func TestImportIsEndedInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		by    schemas.CommandType
		crash bool // the owner is lost before it has heard of it
	}{
		{"by an abort", schemas.CommandAbort, false},
		{"by an abort that the next owner takes", schemas.CommandAbort, true},
		{"by a delete", schemas.CommandDelete, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, bustest.Listening(t), nil)
			first, w := h.wired("e1")
			trace := longTrace(t, 1500) // more than may wait for the frame
			frame := w.hold("braid.p.session.", `"step 50.`)
			command := h.imports("s", "import", trace)
			h.post(command)
			frame.wait()
			end := h.post(schemas.Command{ID: "end", Type: test.by, Session: ref})
			e := first
			if test.crash {
				crash(first, w)
				e = h.engine("e2")
			} else {
				h.stops(first)
				r := h.runner(first)
				h.eventually("the end does not come", func() (read bool) {
					h.onLoop(r, func() { read = r.read >= end.Sequence })
					return read
				})
				frame.release()
			}
			h.dropped("of it", command)
			if test.by == schemas.CommandDelete {
				h.deleted(e)
				return
			}
			h.once("import", schemas.CodeAborted)
			h.once("end", schemas.CodeApplied)
			if o := h.send(taskCommand("t1")); o.Code != schemas.CodeUnknownSession {
				t.Errorf("a task: %+v", o)
			}
			if o := h.send(h.imports("s", "again", trace)); o.Code != schemas.CodeApplied {
				t.Fatalf("another import: %+v", o)
			}
			h.recorded("s")
			h.watched()
		})
	}
}

// watched holds what watchers see of the session to the rules.
func (h *house) watched() {
	h.t.Helper()
	var entries []schemas.Entry
	for f, err := range h.conn.ReadFrames(context.Background(), ref, 0, 0, bus.LogAndLive) {
		if err != nil {
			h.t.Fatal(err)
		}
		for _, e := range f.Entries() {
			if e.Message.Visible() {
				entries = append(entries, e)
			}
		}
	}
	schematest.VerifyFinished(h.t, schemas.ViewStream, entries)
}
