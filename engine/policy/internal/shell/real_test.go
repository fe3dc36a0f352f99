package shell

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"mvdan.cc/sh/v3/syntax"
	"pgregory.net/rapid"
)

// pieces are what random words are made of. Each means something of its own to a shell.
var pieces = []string{
	"a", "b", "-r", "/", "é", "=", ",", ".", "..", "1", "3", "0",
	`\a`, `\"`, `\'`, `\\`, `\$`, "\\`", `\ `, "\\\n", `\{`, `\*`,
	`'x y'`, `'$x'`, `'\'`, `''`, `'"'`,
	`"x y"`, `"\a"`, `"\$"`, `"\\"`, "\"\\\n\"", `""`, `"'"`, `"$k"`, `"${k}b"`, `"~"`,
	`$k`, `${k}`, `$l`, `$e`, `{`, `}`, `{a,b}`, `{1..3}`, `{c..a}`, `x{,y}`, `{a}`, `{a,{b,c}}`, `{x,$k}`, `{~,y}`,
}

// ansi are pieces that Bash alone knows.
var ansi = []string{`$'x'`, `$'\x72'`, `$'\162'`, `$'é'`, `$'\n'`, `$'\''`, `$'\\'`, `$'\q'`, `$'\e'`, `$'\cA'`, `$'\x'`}

// prelude sets the variables of the pieces, and show prints arguments so that they can be told apart.
const (
	prelude = "k=v; l='p q'; e=; "
	show    = `printf '<%s>'`
)

// What is read of words is what real shells make of them, or has holes.
func TestWordsAsShellsReadThem(t *testing.T) {
	t.Parallel()
	for name, lang := range map[string]syntax.LangVariant{"bash": syntax.LangBash, "dash": syntax.LangPOSIX} {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Logf("there is no %s here", name)
			continue
		}
		all := pieces
		if lang == syntax.LangBash {
			all = append(slices.Clone(pieces), ansi...)
		}
		rapid.Check(t, func(t *rapid.T) {
			var words []string
			for range rapid.IntRange(1, 12).Draw(t, "words") {
				words = append(words, strings.Join(rapid.SliceOfN(rapid.SampledFrom(all), 1, 5).Draw(t, "word"), ""))
			}
			script := prelude + show + " " + strings.Join(words, " ")
			want, err := exec.Command(program, "-c", script).Output() //nolint:gosec // made of the pieces above
			if err != nil {
				return // no script
			}
			got, ok := shown(t, script, lang)
			if ok && got != string(want) {
				t.Fatalf("%s: %s\n%s", name, script, cmp.Diff(string(want), got))
			}
		})
	}
}

// shown is what the script prints, if it was read without holes.
func shown(t *rapid.T, script string, lang syntax.LangVariant) (string, bool) {
	statements, err := parse(script, lang)
	if err != nil {
		t.Fatalf("a shell takes %q: %v", script, err)
	}
	v := variablesOf(statements, lang)
	call, ok := statements[len(statements)-1].Cmd.(*syntax.CallExpr)
	if !ok {
		return "", false
	}
	words := v.words(call.Args)
	if len(words) < 2 || !words[1].is("<%s>") {
		t.Fatalf("%q is no show", script)
	}
	var b strings.Builder
	for _, w := range words[2:] {
		text, ok := w.Literal()
		if !ok {
			return "", false
		}
		b.WriteString("<" + text + ">")
	}
	if len(words) == 2 {
		b.WriteString("<>")
	}
	return b.String(), true
}
