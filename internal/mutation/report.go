package mutation

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Verdict is what became of a mutant.
type Verdict struct {
	Mutant
	// Noticed is false if all its tests passed. By says which failed, or how.
	Noticed bool
	By      []string
}

var (
	failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	rule   = regexp.MustCompile(`\d+\.\d+ ([a-z]+(?:-[a-z]+)+): `)
)

// noticedBy lists which tests a failed run of go test names, the innermost only, and which rules of a
// stream it says are broken.
func noticedBy(output string) (by []string) {
	for _, m := range failed.FindAllStringSubmatch(output, -1) {
		by = append(by, m[1])
	}
	slices.Sort(by)
	by = slices.Compact(by)
	all := slices.Clone(by)
	by = slices.DeleteFunc(by, func(name string) bool {
		return slices.ContainsFunc(all, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
	var rules []string
	for _, m := range rule.FindAllStringSubmatch(output, -1) {
		rules = append(rules, "rule "+m[1])
	}
	slices.Sort(rules)
	by = append(by, slices.Compact(rules)...)
	switch {
	case strings.Contains(output, "panic: test timed out"):
		return append(by, "a test that never ends")
	case len(by) == 0 && strings.Contains(output, "panic: "):
		return append(by, "a panic")
	}
	return by
}

// preamble opens the report.
const preamble = `# Mutants

Each row is a guarantee that was broken on purpose, by one change of the code, and what noticed.
` + "`make mutants`" + ` breaks them all again and writes this table; ` + "`internal/mutation`" + ` says how to add one.

What is named strict/ or free/ is a story of ` + "`engine/testdata/timelines`" + `, played on the core in many orders
(` + "`engine/internal/schedule`" + `); the others are tests. Rules are those of ` + "[`schemas/rules.go`](../schemas/rules.go)" + `.

`

// Report writes the table of all verdicts.
func Report(verdicts []Verdict) string {
	var b strings.Builder
	b.WriteString(preamble)
	b.WriteString("| what is broken | where | noticed by |\n| --- | --- | --- |\n")
	for _, v := range verdicts {
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", v.Breaks, v.File, witnesses(v))
	}
	return b.String()
}

// most is how many witnesses a row names.
const most = 3

func witnesses(v Verdict) string {
	if !v.Noticed {
		return "**nothing**"
	}
	var tests, rules []string
	for _, w := range v.By {
		if name, ok := strings.CutPrefix(w, "rule "); ok {
			rules = append(rules, "`"+name+"`")
			continue
		}
		tests = append(tests, strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(w, "TestStoriesInAnyOrder/all/"), "TestTimelines/"), "_", " "))
	}
	text := strings.Join(tests[:min(most, len(tests))], ", ")
	if n := len(tests) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	if len(rules) > 0 {
		text += "; the rules " + strings.Join(rules[:min(most, len(rules))], ", ")
	}
	return text
}
