package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// vocabulary is what random commands are made of.
var vocabulary = []string{
	"rm", "-r", "-f", "-rf", "--recursive", "/x", "sudo", "env", "sh", "-c", "echo", "git", "push", "--force",
	"xargs", "find", "-exec", ";", "{}", "bash", "timeout", "5", "A=b", "x y", "rm -r /x", "$X", "ls", "eval", "--",
	"", "~", "*", "\\", "'", "#", "é", "\n",
}

var separators = []string{"; ", " && ", " || ", " | ", "\n", " & ", " ;\n"}

// spelled writes a word for a shell, quoted in a random way.
func spelled(t *rapid.T, word string) string {
	if word == "" {
		return rapid.SampledFrom([]string{"''", `""`, `''""`}).Draw(t, "empty")
	}
	var b strings.Builder
	for _, r := range word {
		c := string(r)
		ways := []string{"'" + c + "'", `"` + c + `"`, `\` + c, c}
		switch {
		case c == "'":
			ways = []string{`"'"`, `\'`}
		case c == "\n":
			ways = []string{"'\n'", "\"\n\""}
		case strings.ContainsAny(c, `"$\`+"`"):
			ways = []string{"'" + c + "'", `\` + c}
		case strings.ContainsAny(c, " ;{}*#~=&|<>()"):
			ways = ways[:3] // it means something else unquoted
		}
		b.WriteString(rapid.SampledFrom(ways).Draw(t, "way"))
	}
	return b.String()
}

// How a word is quoted never changes what is made of a script, and what a plain script runs is found.
func TestQuotingChangesNothing(t *testing.T) {
	t.Parallel()
	p := mustParse(t, spellingRules)
	rapid.Check(t, func(t *rapid.T) {
		var one, other strings.Builder
		plain, deletes := true, false
		for i := range rapid.IntRange(1, 4).Draw(t, "commands") {
			if i > 0 {
				separator := rapid.SampledFrom(separators).Draw(t, "separator")
				one.WriteString(separator)
				other.WriteString(separator)
			}
			words := rapid.SliceOfN(rapid.SampledFrom(vocabulary), 1, 7).Draw(t, "words")
			for _, w := range words {
				one.WriteString(spelled(t, w) + " ")
				other.WriteString(spelled(t, w) + " ")
			}
			plain = plain && slices.Contains([]string{"echo", "rm", "ls", "git"}, words[0])
			deletes = deletes || words[0] == "rm" && (slices.Contains(words, "-r") || slices.Contains(words, "-rf") || slices.Contains(words, "--recursive")) ||
				words[0] == "git" && slices.Contains(words, "push") && (slices.Contains(words, "-f") || slices.Contains(words, "--force"))
		}
		a, b := p.Judge("p", "exec_command", execArguments(t, one.String())), p.Judge("p", "exec_command", execArguments(t, other.String()))
		if a != b {
			t.Fatalf("%q\n%+v\n%q\n%+v", one.String(), a, other.String(), b)
		}
		if plain && deletes && a.Ruling != Forbidden {
			t.Fatalf("%q is %+v", one.String(), a)
		}
	})
}

// Whatever stands around a command that is forbidden, it is found.
func TestNestingHidesNothing(t *testing.T) {
	t.Parallel()
	p := mustParse(t, spellingRules)
	around := []string{
		"%s", "( %s\n)", "{ %s\n}", "if true; then %s\nfi", "while true; do %s\ndone", "f() { %s\n}; f", "echo $( %s\n)", "x=$( %s\n)",
		"true && %s", "{ %s\n} || true", "( %s\n) | cat", "{ %s\n} & wait", "case x in *) %s\n;; esac", "for i in 1; do %s\ndone", "! { %s\n}",
		"cat <( %s\n)", "echo \"${x:-$( %s\n)}\"", "cat <<EOF\n$( %s\n)\nEOF", "[ -n \"$( %s\n)\" ]", "until ( %s\n); do :; done", "time ( %s\n)",
	}
	inside := []string{"sh -c %s", "eval %s", "sudo -n bash -lc %s", "env A=b timeout 5 sh -ec %s", "trap %s EXIT", "watch %s"}
	rapid.Check(t, func(t *rapid.T) {
		script := "rm -r /x"
		for range rapid.IntRange(0, 5).Draw(t, "levels") {
			if rapid.Bool().Draw(t, "inside") {
				script = fmt.Sprintf(rapid.SampledFrom(inside).Draw(t, "program"), spelled(t, script))
			} else {
				script = fmt.Sprintf(rapid.SampledFrom(around).Draw(t, "place"), script)
			}
		}
		if v := p.Judge("p", "exec_command", execArguments(t, script)); v.Ruling != Forbidden {
			t.Fatalf("%s\nis %+v", script, v)
		}
	})
}

func FuzzJudge(f *testing.F) {
	for _, row := range spellings {
		f.Add(row.script)
	}
	p := mustParse(f, spellingRules)
	f.Fuzz(func(t *testing.T, script string) {
		first := p.Judge("p", "exec_command", execArguments(t, script))
		if again := p.Judge("p", "exec_command", execArguments(t, script)); again != first {
			t.Errorf("%+v, then %+v", first, again)
		}
		// What is added in front of a script, on a line of its own, hides nothing of it.
		if first.Ruling == Forbidden && p.Judge("p", "exec_command", execArguments(t, "true\n"+script)).Ruling != Forbidden {
			t.Errorf("a line in front hides what is forbidden: %q", script)
		}
		_ = p.Judge("p", "exec_command", script) // as arguments
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(spellingRules))
	f.Add([]byte("rules:\n  - name: a\n    arguments: {/x/*: {regexp: '^a'}, /y: 'b?'}\n    projects: [p]\n    tools: ['[!a]*']\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse("p.yaml", data)
		if (p == nil) != (err != nil) {
			t.Fatalf("%v, %v", p, err)
		}
		p.Judge("p", "exec_command", `{"command":"rm -r $X","x":[1,{"y":null}]}`)
	})
}

func BenchmarkJudge(b *testing.B) {
	p := mustParse(b, spellingRules)
	arguments := execArguments(b, `cd /srv/app && git pull --ff-only && go build ./... 2>&1 | tail -n 20; test -f go.sum || sudo -u app cp "$HOME/go.sum" .`)
	b.ReportAllocs()
	for b.Loop() {
		p.Judge("p", "exec_command", arguments)
	}
}
