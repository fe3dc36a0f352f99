package shell

import (
	"cmp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// The bounds of what is read. A script that exceeds one is unclear.
const (
	// MaxScript is how many bytes of script are read, those inside of others included.
	MaxScript = 64 << 10
	maxDepth  = 8     // scripts in scripts
	maxNested = 200   // parentheses in parentheses, braces in braces
	maxWords  = 20000 // words of all commands
)

// Reading is what a script runs, as far as that can be read.
type Reading struct {
	Commands []Command
	// Unclear says why the script may run more than the commands; empty if it does not.
	Unclear string
}

// Command is a program or builtin and its arguments.
type Command struct {
	// Words are its name and what it gets. The name is one word.
	Words []Word
	// Doubtful is set if it is not clear that these words are run as a command.
	Doubtful bool
}

// Read reads a script. It takes time in proportion to the script's length.
func Read(script string) (out Reading) {
	defer func() {
		// The parser is not ours, and the script is nobody's friend: should reading it fail, nothing
		// is known of it.
		if recover() != nil {
			out = Reading{Unclear: "the script can't be read"}
		}
	}()
	return read(script)
}

func read(script string) Reading {
	r := &reader{left: MaxScript, seen: map[scriptRead]bool{}}
	r.script(script)
	return r.out
}

// reader collects what a script and those inside of it run.
type reader struct {
	out   Reading
	seen  map[scriptRead]bool
	left  int // bytes that may still be read
	words int // of all commands
	depth int
	doubt bool // what is found may not be run
	fed   bool // what is found reads something that the script brings to it
}

// scriptRead is a script that was read, perhaps in doubt.
type scriptRead struct {
	text  string
	doubt bool
}

// unclear notes that something may run that can't be read. The first reason is kept.
func (r *reader) unclear(why string) {
	if r.out.Unclear == "" {
		r.out.Unclear = why
	}
}

// script reads one text.
func (r *reader) script(text string) {
	// What was read in doubt is read again once it is surely run.
	if r.seen[scriptRead{text, false}] || r.seen[scriptRead{text, r.doubt}] {
		return
	}
	r.seen[scriptRead{text, r.doubt}] = true
	if r.left -= len(text); r.left < 0 {
		r.unclear("the script is too long")
		return
	}
	if r.depth++; r.depth > maxDepth || nested(text) > maxNested {
		r.unclear("scripts are nested too deep")
		return
	}
	defer func() { r.depth-- }()
	for _, lang := range []syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX} {
		statements, err := parse(text, lang)
		r.statements(statements, lang) // those before an error are run
		if err != nil && lang == syntax.LangBash {
			// The parser and Bash may disagree about what is an error, such as two parentheses in a row that are no
			// arithmetic. What is one for other shells alone is Bash's own.
			r.unclear("the script can't be parsed")
		}
	}
}

// nested is how deep parentheses and braces stand in one another, at most: the parser takes them by
// recursion, and what is never closed more than once.
func nested(text string) (deepest int) {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{':
			depth++
			deepest = max(deepest, depth)
		case ')', '}':
			depth = max(depth-1, 0)
		}
	}
	return deepest
}

// parse returns the statements of a script, up to the first that can't be parsed.
func parse(text string, lang syntax.LangVariant) (statements []*syntax.Stmt, err error) {
	for s, failed := range syntax.NewParser(syntax.Variant(lang)).StmtsSeq(strings.NewReader(text)) {
		// The parser may go on after an error, so the loop does as well.
		if err = cmp.Or(err, failed); err == nil {
			statements = append(statements, s)
		}
	}
	return statements, err
}
