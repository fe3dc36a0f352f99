package shell

import (
	"strings"
	"testing"
)

// Scripts that are made to take long are given up early, and are unclear.
func TestBounds(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ script, why string }{
		{strings.Repeat("a ", MaxScript), "too long"},
		{strings.Repeat("(", 30000), "subshells that are never closed"},
		{strings.Repeat("$(", 20000), "substitutions"},
		{"$((" + strings.Repeat("(", 30000), "arithmetic"},
		{"x " + strings.Repeat("{a,", 20000), "braces that are never closed"},
		{strings.Repeat("{a,b}", 10000), "braces that make too many words of a name"},
		{"ssh " + strings.Repeat("a ", 30000), "any of many words may be a command"},
		{"eval " + strings.Repeat("eval ", 10000), "scripts in scripts"},
		{strings.Repeat("a;", 30000), "many commands"},
		{strings.Repeat("if ", 5000), "branches without end"},
		{"env -S '" + strings.Repeat("env ", 10000) + "'", "words in words"},
	} {
		if r := read(row.script); r.Unclear == "" {
			t.Errorf("%s: %d commands, and no doubt", row.why, len(r.Commands))
		}
	}
}
