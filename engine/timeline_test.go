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
	"golang.org/x/tools/txtar"

	"braid/schemas"
	"braid/schemas/schematest"
)

var rewrite = flag.Bool("rewrite", false, "write what the timelines came to into their files")

// Each file of testdata/timelines is a story of one session: a model, a script of what people,
// tools and failures do, and what everybody sees of it. Its README says how to read and write one.
func TestTimelines(t *testing.T) {
	files, err := filepath.Glob("testdata/timelines/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no timelines: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
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
		})
	}
}

// compare reports where a timeline did not go as its file says, section by section.
func compare(t *testing.T, want, got *txtar.Archive) {
	t.Helper()
	if diff := cmp.Diff(sectionNames(want), sectionNames(got)); diff != "" {
		t.Errorf("sections (-want +got)\n%s", diff)
	}
	for _, f := range got.Files {
		if diff := cmp.Diff(section(want, f.Name), string(f.Data)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", f.Name, diff)
		}
	}
}

func sectionNames(a *txtar.Archive) (names []string) {
	for _, f := range a.Files {
		names = append(names, f.Name)
	}
	return names
}

func section(a *txtar.Archive, name string) string {
	i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
	if i < 0 {
		return ""
	}
	return string(a.Files[i].Data)
}

// play plays a timeline's script and returns its archive with what came of it.
func play(t *testing.T, archive *txtar.Archive) *txtar.Archive {
	t.Helper()
	s := newStage(t, section(archive, "model.yaml"))
	s.perform(section(archive, "script"))
	s.curtain()
	out := &txtar.Archive{Comment: archive.Comment}
	add := func(name, text string) { out.Files = append(out.Files, txtar.File{Name: name, Data: []byte(text)}) }
	add("model.yaml", section(archive, "model.yaml"))
	add("script", section(archive, "script"))
	add("stream", s.names.render(s.verified(schemas.ViewStream, s.audience.seen())))
	add("trace", s.names.render(s.verified(schemas.ViewRecorded, s.traced())))
	s.verified(schemas.ViewFeed, s.audience.seen())
	s.verified(schemas.ViewRecorded, s.audience.seen())
	for i, r := range s.models.asked() {
		add(fmt.Sprintf("input %d", i+1), s.names.renderInput(r))
	}
	for _, name := range []string{"stream", "trace"} {
		if _, err := schematest.Parse(section(out, name)); err != nil {
			t.Errorf("the %s can't be read back: %v", name, err)
		}
	}
	return out
}

// verified returns what a view holds of the entries, after holding it to every rule.
func (s *stage) verified(v schemas.View, all []schemas.Entry) (entries []schemas.Entry) {
	s.t.Helper()
	for _, e := range all {
		if v == schemas.ViewFeed || v == schemas.ViewStream && e.Message.Visible() || v == schemas.ViewRecorded && e.Message.Recorded() {
			entries = append(entries, e)
		}
	}
	schematest.VerifyFinished(s.t, v, entries)
	return entries
}

// traced reads the session from the trace of each living engine. They agree with each other, and
// with what the audience saw be recorded: the order of the trace is the order of the stream.
func (s *stage) traced() []schemas.Entry {
	s.t.Helper()
	want := s.verified(schemas.ViewRecorded, s.audience.seen())
	for name, e := range s.engines {
		ctx := context.Background()
		ends, err := s.conn.SessionEnds(ctx, ref)
		if err != nil {
			s.t.Fatal(err)
		}
		if err := e.projector.await(ctx, ref, ends.Log); err != nil {
			s.t.Fatal(err)
		}
		var got []schemas.Entry
		if _, err := e.store.Load(ctx, ref, func(e schemas.Entry) error { got = append(got, e); return nil }); err != nil {
			s.t.Fatal(err)
		}
		if diff := cmp.Diff(schematest.Format(want), schematest.Format(got)); diff != "" {
			s.t.Errorf("the trace of %s is not what was recorded (-recorded +trace)\n%s", name, diff)
		}
	}
	return want
}
