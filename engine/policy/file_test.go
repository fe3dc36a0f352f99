package policy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ text, want, why string }{
		{"", "p.yaml:1: ", "nothing at all"},
		{"rules: [", "p.yaml:1: ", "no YAML"},
		{"rules:\n  - name: a\n    tools: [x]\n    comands: [rm]", `p.yaml:4: unknown field "comands"`, "an unknown key in a rule"},
		{"rule: []", `p.yaml:1: unknown field "rule"`, "an unknown key"},
		{"rules: []\nrules: []", "p.yaml:2: ", "a key twice"},
		{"rules: 3", "p.yaml:1: ", "a number in place of a list"},
		{"undecidable: perhaps", "p.yaml:1: undecidable: it must be ask, forbid or allow", "a word that means nothing"},
		{"rules:\n  - tools: [x]", "p.yaml:2: rules[0].name: a rule needs a name", "no name"},
		{"rules:\n  - name: a\n    tools: [x]\n  - name: a\n    tools: [y]", "p.yaml:4: rules[1].name: another rule is named", "a name twice"},
		{"rules:\n  - name: a", "p.yaml:2: rules[0]: a rule needs tools, commands or arguments", "a rule about everything"},
		{"rules:\n  - name: a\n    projects: [p]", "rules[0]: a rule needs tools", "a rule about a whole project"},
		{"rules:\n  - name: a\n    tools: [x, '[a']", "p.yaml:3: rules[0].tools[1]: ", "a class that is not closed"},
		{"rules:\n  - name: a\n    tools: ['']", "rules[0].tools[0]: a pattern is empty", "an empty pattern"},
		{"rules:\n  - name: a\n    commands:\n      - ls\n      - '  '", "p.yaml:5: rules[0].commands[1]: a command needs a name", "an empty command"},
		{"rules:\n  - name: a\n    commands: ['rm -r|x']", "an option and a word can't be alternatives", "alternatives of two kinds"},
		{"rules:\n  - name: a\n    commands: ['rm -r|']", "an alternative is empty", "an alternative without text"},
		{"rules:\n  - name: a\n    commands: ['rm -[rf]']", "short options are letters", "a glob of short options"},
		{"rules:\n  - name: a\n    commands: ['x --o=/etc']", "an option is named without its value", "a value"},
		{"rules:\n  - name: a\n    arguments: {path: x}", "p.yaml:3: rules[0].arguments: \"path\" is no JSON pointer", "a name in place of a pointer"},
		{"rules:\n  - name: a\n    arguments: {/path: {regexp: '('}}", "rules[0].arguments: /path: error parsing regexp", "a bad regular expression"},
		{"rules:\n  - name: a\n    arguments: {/path: {glob: x}}", `unknown field "glob"`, "an unknown key in an argument"},
		{"rules:\n  - name: a\n    arguments: {/path: {}}", "it must be a glob, or {regexp: ...}", "neither"},
		{"rules:\n  - name: " + strings.Repeat("a", 65) + "\n    tools: [x]", "rules[0].name: it has 65 bytes", "a long name"},
		{"rules:\n  - name: a\n    tools: [x]\n    reason: " + strings.Repeat("a", 1025), "rules[0].reason: it has 1025 bytes", "a long reason"},
		{"rules: [" + strings.Repeat("{name: a, tools: [x]},", 1001) + "]", "rules: there are 1001, the limit is 1000", "too many rules"},
		{strings.Repeat("#", maxFile+1), "larger than 262144 bytes", "a large file"},
		{"scripts: {x: ''}", "scripts: it names, for each tool", "a script that is nowhere"},
		{"rules: []\n---\nrules: []", "one YAML document", "two documents"},
	} {
		p, err := Parse("p.yaml", []byte(row.text))
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %s", row.why, err, row.want)
		}
		if p != nil {
			t.Errorf("%s: there is a policy", row.why)
		}
		if _, ok := errors.AsType[*Error](err); err != nil && !ok {
			t.Errorf("%s: %T is no *Error", row.why, err)
		}
	}
}

// One run tells all that is wrong.
func TestParseTellsAll(t *testing.T) {
	t.Parallel()
	_, err := Parse("p.yaml", []byte("undecidable: x\nrules:\n  - name: ''\n    tools: ['[']\n"))
	if n := len(strings.Split(err.Error(), "\n")); n != 3 {
		t.Errorf("%d errors: %v", n, err)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(spellingRules), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if p.Len() != 4 || p.Source() != file {
		t.Errorf("%d rules of %s", p.Len(), p.Source())
	}
	if _, err := Load(file + ".not"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
