package shell

import (
	"slices"
	"strings"
)

// wrapper describes a program that runs the command behind its own options.
type wrapper struct {
	flags    string   // short options without a value
	values   string   // short options with one, in the same word or the next
	attached string   // short options with one in the same word, or none
	bare     []string // long options without a value
	long     []string // long options with one, in the same word or the next
	stops    string   // short options under which nothing is run
	assigns  bool     // assignments stand before the command
	operands int      // words before the command
	extra    bool     // further words are put behind it
}

// wrappers are the programs whose options are known.
var wrappers = map[string]wrapper{
	"sudo": {
		flags: "ABbEeHiKklnPSsVv", values: "CDghpRrTtUu", assigns: true,
		bare: []string{
			"askpass", "background", "bell", "edit", "set-home", "login", "remove-timestamp", "reset-timestamp",
			"list", "no-update", "non-interactive", "preserve-groups", "stdin", "shell", "validate", "preserve-env",
		},
		long: []string{
			"close-from", "chdir", "group", "host", "prompt", "chroot", "role", "type", "command-timeout", "other-user", "user",
		},
	},
	"doas": {flags: "Lns", values: "aCu"},
	"env": {
		flags: "i0v", values: "uCS", assigns: true,
		bare: []string{"ignore-environment", "null", "debug", "block-signal", "default-signal", "ignore-signal", "list-signal-handling"},
		long: []string{"unset", "chdir", "split-string", "argv0"},
	},
	"nohup":  {},
	"setsid": {flags: "cfw", bare: []string{"ctty", "fork", "wait"}},
	"nice":   {flags: "0123456789-", values: "n", long: []string{"adjustment"}},
	"ionice": {flags: "t", values: "cn", bare: []string{"ignore"}, long: []string{"class", "classdata"}},
	"timeout": {
		flags: "vfp", values: "ks", operands: 1,
		bare: []string{"foreground", "preserve-status", "verbose"}, long: []string{"kill-after", "signal"},
	},
	"time": {
		flags: "apqvV", values: "fo",
		bare: []string{"append", "portability", "quiet", "verbose"}, long: []string{"format", "output"},
	},
	"stdbuf":  {values: "ioe", long: []string{"input", "output", "error"}},
	"chroot":  {bare: []string{"skip-chdir"}, operands: 1},
	"taskset": {flags: "apc", bare: []string{"all-tasks", "pid", "cpu-list"}, operands: 1},
	"xargs": {
		flags: "0oprtx", values: "aEIJLPRSdns", attached: "eil", extra: true,
		bare: []string{"null", "interactive", "no-run-if-empty", "open-tty", "replace", "eof", "max-lines", "verbose", "exit", "show-limits"},
		long: []string{"arg-file", "delimiter", "max-args", "max-chars", "max-procs", "process-slot-var"},
	},
	"command": {flags: "p", stops: "vV"},
	"exec":    {flags: "cl", values: "a"},
	"builtin": {},
	"coproc":  {},
	"busybox": {},
	"toybox":  {},
}

// option is one that was given to a wrapper.
type option struct {
	name  string // without dashes
	value Word
}

// unwrap reads the command behind a wrapper's options.
func (r *reader) unwrap(name string, w wrapper, args []Word, stdin *Word) {
	options, rest, ok := w.parse(args)
	if !ok {
		r.uncertain(args)
		return
	}
	for _, o := range options {
		switch {
		case len(o.name) == 1 && strings.Contains(w.stops, o.name):
			return
		case name == "env" && (o.name == "S" || o.name == "split-string"):
			r.splitString(o.value, rest, stdin)
			return
		}
	}
	for w.assigns && len(rest) > 0 && isAssignment(rest[0]) {
		r.assignment(rest[0])
		rest = rest[1:]
	}
	for range w.operands {
		if len(rest) > 0 {
			rest = rest[1:]
		}
	}
	if len(rest) == 0 {
		if name == "sudo" && slices.ContainsFunc(options, startsShell) {
			r.input(stdin)
		}
		return
	}
	if w.extra {
		rest = append(slices.Clone(rest), anything())
		rest = replaced(rest, options)
	}
	r.command(rest, stdin)
}

func startsShell(o option) bool {
	return o.name == "s" || o.name == "i" || o.name == "shell" || o.name == "login"
}

// uncertain takes arguments of which the command could not be found.
func (r *reader) uncertain(args []Word) {
	r.suffixes(args)
	if slices.ContainsFunc(args, func(w Word) bool { return w.Spread == Any }) {
		r.unclear("what a command runs is not known")
	}
}

// parse cuts a wrapper's options off; false if one is not known.
func (w wrapper) parse(args []Word) (options []option, rest []Word, ok bool) {
	for len(args) > 0 {
		text, literal := args[0].Literal()
		switch {
		case !literal && (args[0].Spread != One || args[0].known() == "" || args[0].known()[0] == '-'):
			return nil, nil, false // it may be an option
		case text == "--":
			return options, args[1:], args1(args)
		case strings.HasPrefix(text, "--"):
			o, n, ok := w.longOption(text[2:], args)
			if !ok {
				return nil, nil, false
			}
			options, args = append(options, o), args[n:]
		case len(text) > 1 && text[0] == '-':
			o, n, ok := w.cluster(text[1:], args)
			if !ok {
				return nil, nil, false
			}
			options, args = append(options, o...), args[n:]
		case text == "-" && w.assigns: // env - is env -i
			args = args[1:]
		default:
			return options, args, clearWords(args, w)
		}
	}
	return options, nil, true
}

// args1 reports that what follows the first word is one word.
func args1(args []Word) bool { return len(args) < 2 || args[1].Spread == One }

// clearWords reports that the words up to the command are one each.
func clearWords(args []Word, w wrapper) bool {
	n := w.operands
	for w.assigns && n < len(args) && isAssignment(args[n]) {
		n++
	}
	for _, a := range args[:min(n+1, len(args))] {
		if a.Spread != One {
			return false
		}
	}
	return true
}

// longOption reads --name, --name=value or --name value, and says how many words that took.
func (w wrapper) longOption(text string, args []Word) (o option, n int, ok bool) {
	name, value, has := strings.Cut(text, "=")
	o = option{name: name, value: literalWord(value)}
	switch {
	case has && (slices.Contains(w.long, name) || slices.Contains(w.bare, name)):
		return o, 1, true
	case slices.Contains(w.bare, name):
		return o, 1, true
	case slices.Contains(w.long, name) && len(args) > 1 && args[1].Spread == One:
		o.value = args[1]
		return o, 2, true
	}
	return o, 0, false
}

// cluster reads short options in one word.
func (w wrapper) cluster(text string, args []Word) (options []option, n int, ok bool) {
	for i := range len(text) {
		o := option{name: text[i : i+1]}
		switch {
		case strings.Contains(w.flags+w.stops, o.name):
			options = append(options, o)
		case strings.Contains(w.attached, o.name):
			o.value = literalWord(text[i+1:])
			return append(options, o), 1, true
		case !strings.Contains(w.values, o.name):
			return nil, 0, false
		case i+1 < len(text):
			o.value = literalWord(text[i+1:])
			return append(options, o), 1, true
		case len(args) > 1 && args[1].Spread == One:
			o.value = args[1]
			return append(options, o), 2, true
		default:
			return nil, 0, false
		}
	}
	return options, 1, true
}

// replaced is what xargs makes of the command's words when it puts its input into them.
func replaced(words []Word, options []option) []Word {
	for _, o := range options {
		if !slices.Contains([]string{"I", "i", "J", "replace"}, o.name) {
			continue
		}
		text, ok := o.value.Literal()
		if !ok || text == "" {
			text = "{}"
		}
		for i, w := range words {
			words[i] = w.replaced(text)
		}
	}
	return words
}

// splitString takes env -S: one word that holds several.
func (r *reader) splitString(w Word, rest []Word, stdin *Word) {
	text, ok := w.Literal()
	if !ok || strings.ContainsAny(text, "\\\"'$#`") {
		r.unclear("what a command runs is not known")
		return
	}
	if r.depth++; r.depth > maxDepth {
		r.unclear("scripts are nested too deep")
		return
	}
	r.open("env", append(literalWords(strings.Fields(text)), rest...), stdin)
	r.depth--
}

// isAssignment reports that a word before a command sets a variable.
func isAssignment(w Word) bool { return w.Spread == One && strings.Contains(w.known(), "=") }

// assignment notes a variable that a command gets, or that a builtin sets.
func (r *reader) assignment(w Word) {
	if name, _, _ := strings.Cut(w.known(), "="); steers(name) {
		r.unclear("it sets " + name)
	}
}
