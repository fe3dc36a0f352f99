package mutation

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"braid/schemas"
)

var (
	run   = flag.Bool("mutants", false, "break the guarantees, and see whether tests notice: minutes")
	only  = flag.String("only", "", "which mutants, as a regular expression")
	write = flag.Bool("write", false, "write what noticed to docs/mutants.md")
)

// Every mutant is noticed.
func TestMutants(t *testing.T) {
	if !*run {
		t.Skip("no -mutants")
	}
	pattern := regexp.MustCompile(*only)
	all := slices.DeleteFunc(load(t), func(m Mutant) bool { return !pattern.MatchString(m.Name) })
	verdicts := make([]Verdict, len(all))
	t.Run("all", func(t *testing.T) {
		for i, m := range all {
			t.Run(m.Name, func(t *testing.T) {
				t.Parallel() // -parallel says how many at once
				verdicts[i] = judge(t, m)
				if !verdicts[i].Noticed {
					t.Errorf("no test notices: %s", m.Breaks)
				}
				t.Logf("noticed by %s", strings.Join(verdicts[i].By, ", "))
			})
		}
	})
	if *write && !t.Failed() {
		if err := os.WriteFile(filepath.Join(root, "docs/mutants.md"), []byte(Report(verdicts)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// judge runs a mutant's tests, until some fail.
func judge(t *testing.T, m Mutant) Verdict {
	t.Helper()
	text, err := m.Apply(root)
	if err != nil {
		t.Fatal(err)
	}
	overlay := overlayOf(t, m.File, text)
	for _, args := range m.Tests {
		args = append([]string{"test", "-overlay", overlay, "-vet=off", "-ldflags=-w", "-count=1", "-timeout=3m"}, args...)
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = root
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if cmd.Run() == nil {
			continue
		}
		if strings.Contains(out.String(), "[build failed]") || strings.Contains(out.String(), "[setup failed]") {
			t.Fatalf("%s\n%s", strings.Join(args, " "), out.String())
		}
		return Verdict{Mutant: m, Noticed: true, By: noticedBy(out.String())}
	}
	return Verdict{Mutant: m}
}

// overlayOf has the go command read the text in place of a file.
func overlayOf(t *testing.T, file string, text []byte) string {
	t.Helper()
	dir := t.TempDir()
	path, err := filepath.Abs(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	changed, overlay := filepath.Join(dir, filepath.Base(file)), filepath.Join(dir, "overlay.json")
	list, err := schemas.EncodeJSON(map[string]map[string]string{"Replace": {path: changed}})
	for name, data := range map[string][]byte{changed: text, overlay: list} {
		if err == nil {
			err = os.WriteFile(name, data, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return overlay
}

func TestNoticedBy(t *testing.T) {
	for output, want := range map[string][]string{
		"--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/one (0s)\n    --- FAIL: TestA/two (0s)\n--- FAIL: TestB (0s)\nFAIL": {"TestA/one", "TestA/two", "TestB"},
		"--- FAIL: TestA (0.1s)\n  [4.1 usage-then-end: found no end]":                                                   {"TestA", "rule usage-then-end"},
		"panic: oh\n\ngoroutine 1":           {"a panic"},
		"panic: test timed out after 3m0s\n": {"a test that never ends"},
	} {
		if diff := cmp.Diff(want, noticedBy(output)); diff != "" {
			t.Errorf("%q (-want +got)\n%s", output, diff)
		}
	}
}

// docs/mutants.md has a row for every mutant, and none that is gone.
func TestReportIsWhole(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/mutants.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, m := range load(t) {
		want = append(want, m.Breaks)
	}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, " | "); len(cells) == 3 && strings.Contains(cells[1], "`") {
			got = append(got, strings.TrimPrefix(cells[0], "| "))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("run make mutants (-mutants +docs/mutants.md)\n%s", diff)
	}
}
