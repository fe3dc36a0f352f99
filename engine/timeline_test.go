package engine

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"golang.org/x/tools/txtar"

	"braid/engine/internal/timelinetest"
	"braid/schemas"
	"braid/schemas/schematest"
)

var rewrite = flag.Bool("rewrite", false, "write what the timelines came to into their files")

// Each file of testdata/timelines is a story of one session: a model, a script of what people,
// tools and failures do, and what everybody sees of it. Its README says how to read and write one.
func TestTimelines(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/timelines/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no timelines: %v", err)
	}
	// They wait more than they work, so there are more at once than processors.
	var group errgroup.Group
	group.SetLimit(8)
	for _, file := range files {
		group.Go(func() error {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { testTimeline(t, file) })
			return nil
		})
	}
	_ = group.Wait()
}

func testTimeline(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := play(t, archive)
	if *rewrite && !t.Failed() {
		if err := os.WriteFile(file, txtar.Format(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	compare(t, archive, got)
}

// compare reports where a timeline did not go as its file says, section by section.
func compare(t *testing.T, want, got *txtar.Archive) {
	t.Helper()
	if diff := cmp.Diff(timelinetest.SectionNames(want), timelinetest.SectionNames(got)); diff != "" {
		t.Errorf("sections (-want +got)\n%s", diff)
	}
	for _, f := range got.Files {
		if diff := cmp.Diff(timelinetest.Section(want, f.Name), string(f.Data)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", f.Name, diff)
		}
	}
}

// play plays a timeline's script and returns its archive with what came of it.
func play(t *testing.T, archive *txtar.Archive) *txtar.Archive {
	t.Helper()
	s := newStage(t, archive)
	s.setPrices(timelinetest.Section(archive, "prices.yaml"))
	s.perform(timelinetest.Section(archive, "script"))
	s.curtain()
	out := &txtar.Archive{Comment: archive.Comment}
	add := func(name, text string) { out.Files = append(out.Files, txtar.File{Name: name, Data: []byte(text)}) }
	for _, f := range archive.Files {
		if f.Name == "script" || strings.HasSuffix(f.Name, ".yaml") { // what the story is made of
			add(f.Name, string(f.Data))
		}
	}
	add("stream", s.names.Render(s.verified(schemas.ViewStream, s.audience.seen())))
	add("trace", s.names.Render(s.verified(schemas.ViewRecorded, s.traced())))
	if slices.Contains(timelinetest.SectionNames(archive), "usage") {
		add("usage", timelinetest.Usage(s.verified(schemas.ViewRecorded, s.audience.seen())))
	}
	s.verified(schemas.ViewFeed, s.audience.seen())
	s.verified(schemas.ViewRecorded, s.audience.seen())
	for i, r := range s.models.asked() {
		add(fmt.Sprintf("input %d", i+1), s.names.Input(r))
	}
	// What is written keeps the rules as well.
	schematest.VerifyFinished(t, schemas.ViewStream, schematest.MustParse(timelinetest.Section(out, "stream")))
	schematest.VerifyFinished(t, schemas.ViewRecorded, schematest.MustParse(timelinetest.Section(out, "trace")))
	return out
}

// verified returns what a view holds of the entries, after holding it to every rule. Nobody sees in any what
// is told to the model alone.
func (s *stage) verified(v schemas.View, all []schemas.Entry) (entries []schemas.Entry) {
	s.t.Helper()
	for _, e := range all {
		if timelinetest.ForModelAlone(e.Message) {
			s.t.Errorf("what is for the model alone is in the log: %s", s.names.Line(e.Message))
		}
		if v == schemas.ViewFeed || v == schemas.ViewStream && e.Message.Visible() || v == schemas.ViewRecorded && e.Message.Recorded() {
			entries = append(entries, e)
		}
	}
	schematest.VerifyFinished(s.t, v, entries)
	return entries
}

// traced reads the session from the trace of each living engine. They agree with each other, and
// with what the audience saw be recorded: the order of the trace is the order of the stream. The outcome of
// a deadline may still come, so they are compared up to where the log ends now.
func (s *stage) traced() []schemas.Entry {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	ends, err := s.conn.SessionEnds(ctx, ref)
	s.must(err)
	s.eventually("the last frames are not seen", func() bool { return s.audience.reaches(ends.Log) })
	late := func(e schemas.Entry) bool { return e.Position.Sequence > ends.Log }
	want := slices.DeleteFunc(s.verified(schemas.ViewRecorded, s.audience.seen()), late)
	for name, e := range s.engines {
		s.must(e.reader.projector.await(ctx, ref, ends.Log))
		var got []schemas.Entry
		if _, err := e.store.Load(ctx, ref, func(e schemas.Entry) error { got = append(got, e); return nil }); err != nil {
			s.t.Fatal(err)
		}
		got = slices.DeleteFunc(got, late)
		if diff := cmp.Diff(schematest.Format(want), schematest.Format(got)); diff != "" {
			s.t.Errorf("the trace of %s is not what was recorded (-recorded +trace)\n%s", name, diff)
		}
	}
	return want
}

// The annotated timeline of a turn with two calls, as the protocol's description gives it.
var seedTimeline = []string{
	"request_begin",
	"partial_thinking start delta stop", "thinking",
	"partial_text start delta stop", "text",
	"partial_tool_call A start delta stop", "tool_call A",
	"approval_decision allow A",
	"partial_tool_call B start delta stop", "tool_call B",
	"approval_decision allow B",
	"partial_tool_call_output B start delta stop", "tool_call_output B",
	"token_usage", "request_end completed",
	"partial_tool_call_output A start delta stop", "tool_call_output A",
}

// The file that plays it has these messages, no other and in this order, and the next request
// behind.
func TestSeedTimeline(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/timelines/seed-two-calls.txtar")
	if err != nil {
		t.Fatal(err)
	}
	_, turn, _ := strings.Cut(timelinetest.Section(archive, "stream"), "event tool_list_ready\n")
	var got []string
	for line := range strings.Lines(turn) {
		line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(line, "+ "), "event "), "\n")
		line, _, _ = strings.Cut(line, ` "`) // what is said
		words := strings.Fields(line)
		if strings.HasPrefix(words[0], "partial_") {
			phase := slices.IndexFunc(words, func(w string) bool { return w == "start" || w == "delta" || w == "stop" })
			if n := len(got); words[phase] != "start" && n > 0 {
				got[n-1] += " " + words[phase]
				continue
			}
			line = strings.Join(words[:phase+1], " ")
		}
		got = append(got, strings.TrimSuffix(line, " look"))
	}
	want := append(slices.Clone(seedTimeline), "request_begin")
	if diff := cmp.Diff(want, got[:min(len(want), len(got))]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
