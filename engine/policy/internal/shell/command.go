package shell

import (
	"path"
	"slices"
	"strings"
)

// command takes one command and what it opens. stdin is the text it reads, nil if that is not in the
// script.
func (r *reader) command(words []Word, stdin *Word) {
	if len(words) == 0 {
		return
	}
	if r.words += len(words); r.words > maxWords {
		r.unclear("it has too many words")
		return
	}
	name := words[0]
	if name.Spread != One {
		r.unclear("the name of a command is not known")
		return
	}
	r.out.Commands = append(r.out.Commands, Command{Words: words, Doubtful: r.doubt})
	base, ok := name.base().Literal()
	if !ok {
		r.unclear("the name of a command is not known")
		return
	}
	if !r.doubt && foreign(name) {
		r.unclear("it runs a program outside of the system's directories")
	}
	r.open(base, words[1:], stdin)
}

// systemDirs are where programs are what their names say, unless somebody broke the machine.
var systemDirs = []string{
	"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin", "/snap/bin",
}

// foreign reports that a command is named by a path that may lead to a script, or to a copy of
// another program.
func foreign(name Word) bool {
	if !slices.Contains(name.Runes, '/') {
		return false
	}
	text, ok := name.Literal()
	return !ok || !slices.Contains(systemDirs, path.Dir(path.Clean(text)))
}

// open reads what a command runs in turn.
func (r *reader) open(name string, args []Word, stdin *Word) {
	if w, ok := wrappers[name]; ok {
		r.unwrap(name, w, args, stdin)
		return
	}
	switch {
	case shells[name]:
		r.shell(args, stdin)
	case name == "at", name == "batch":
		r.input(stdin)
	case carriers[name]:
		r.suffixes(args)
		r.carried(stdin)
	case interpreters[strings.TrimRight(name, "0123456789.")]:
		r.interpreter(name, args)
	default:
		r.special(name, args)
	}
}

// suffixes takes for a command, in doubt, whatever may be one: some program runs its arguments, from
// which on is not clear.
func (r *reader) suffixes(args []Word) {
	if r.doubt {
		return // whoever was in doubt first takes these as well
	}
	r.doubt = true
	for i, w := range args {
		r.command(args[i:], nil)
		if text, ok := w.Literal(); ok && strings.ContainsAny(text, " \t\n;|&") {
			r.script(text)
		}
	}
	r.doubt = false
}

// carried takes for a script, in doubt, what a program reads that runs things elsewhere. What comes
// through a pipe may be one, and is not known.
func (r *reader) carried(stdin *Word) {
	if stdin == nil && r.fed {
		r.unclear("what a command reads may be a script")
	}
	if stdin == nil || r.doubt {
		return
	}
	r.doubt = true
	r.text(*stdin)
	r.doubt = false
}

// text reads a script that is an argument.
func (r *reader) text(w Word) {
	if text, ok := w.Literal(); ok {
		r.script(text)
		return
	}
	r.unclear("a script inside of it is not known")
}

// input reads the script that a shell reads.
func (r *reader) input(stdin *Word) {
	if stdin == nil {
		r.unclear("a shell reads what it runs")
		return
	}
	r.text(*stdin)
}
