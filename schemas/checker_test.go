package schemas_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"braid/schemas"
	"braid/schemas/schematest"
)

var allViews = []schemas.View{schemas.ViewStream, schemas.ViewFeed, schemas.ViewRecorded}

// timeline is one case of testdata/checker: a timeline in the notation of schematest, with
// what the case is about as its name. The comment "# views: stream feed" limits it to these
// views, "# from the middle" joins there, "# as it is" gives each view the whole timeline, also
// what the view does not hold.
type timeline struct {
	file, name string
	steps      []schematest.Step
	views      []schemas.View
	middle     bool
	asItIs     bool
}

func timelines(t testing.TB) []timeline {
	t.Helper()
	files, err := filepath.Glob("testdata/checker/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no timelines: %v", err)
	}
	var all []timeline
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			tl := timeline{file: filepath.Base(file), name: f.Name, views: allViews}
			text := string(f.Data)
			if tl.steps, err = schematest.Parse(text); err != nil {
				t.Fatalf("%s: %s: %v", file, f.Name, err)
			}
			tl.middle = strings.Contains(text, "# from the middle\n")
			tl.asItIs = strings.Contains(text, "# as it is\n")
			if _, rest, ok := strings.Cut(text, "# views: "); ok {
				names, _, _ := strings.Cut(rest, "\n")
				tl.views = slices.DeleteFunc(slices.Clone(allViews), func(v schemas.View) bool {
					return !slices.Contains(strings.Fields(names), v.String())
				})
			}
			all = append(all, tl)
		}
	}
	return all
}

// holds reports whether a reader of the view gets the message.
func holds(v schemas.View, m schemas.Message) bool {
	switch v {
	case schemas.ViewStream:
		return m.Visible()
	case schemas.ViewRecorded:
		return m.Recorded()
	}
	return true
}

// Every timeline breaks the rules it says, at the messages it says, and no other.
func TestCheckerTimelines(t *testing.T) {
	for _, tl := range timelines(t) {
		for _, view := range tl.views {
			t.Run(tl.file+"/"+tl.name+"/"+view.String(), func(t *testing.T) { runTimeline(t, tl, view) })
		}
	}
}

func runTimeline(t *testing.T, tl timeline, view schemas.View) {
	var opts []schemas.Option
	if tl.middle {
		opts = append(opts, schemas.FromMiddle())
	}
	c := schemas.NewChecker(view, opts...)
	for _, step := range tl.steps {
		var found []schemas.Violation
		switch {
		case step.Gap:
			c.Gap()
		case step.Finish:
			found = c.Finish()
		case !tl.asItIs && !holds(view, step.Entry.Message):
			continue
		default:
			found = c.Add(step.Entry)
			for _, v := range found {
				if v.Position != step.Entry.Position {
					t.Errorf("line %d: violation at %s, the message is at %s", step.Line, v.Position, step.Entry.Position)
				}
			}
		}
		var got []schemas.RuleName
		for _, v := range found {
			got = append(got, v.Rule)
		}
		if diff := cmp.Diff(step.Want, got); diff != "" {
			t.Errorf("line %d: rules broken (-want +got)\n%s\n%v", step.Line, diff, found)
		}
	}
}

// Every rule has a timeline that breaks it, and the table knows every rule that is ever named.
func TestEveryRuleIsBrokenOnce(t *testing.T) {
	broken := map[schemas.RuleName]bool{}
	for _, tl := range timelines(t) {
		for _, step := range tl.steps {
			for _, rule := range step.Want {
				broken[rule] = true
			}
		}
	}
	for _, rule := range schemas.Rules() {
		if !broken[rule.Name] {
			t.Errorf("no timeline breaks %s", rule.Name)
		}
		delete(broken, rule.Name)
		if !strings.HasSuffix(rule.Guarantee, ".") {
			t.Errorf("%s: the guarantee is not a sentence: %q", rule.Name, rule.Guarantee)
		}
	}
	for name := range broken {
		t.Errorf("%s is not in the table of rules", name)
	}
}
