package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// variables are those of a script whose value is known: set once, to a literal, in a place that is
// always passed.
type variables struct {
	values map[string]variable
	bash   bool // the script is read as Bash reads it, which expands braces
}

type variable struct {
	value string
	from  uint // where in the script it is set; before, it is not known
}

// variablesOf finds the variables of a script.
func variablesOf(statements []*syntax.Stmt, lang syntax.LangVariant) variables {
	v := variables{values: map[string]variable{}, bash: lang == syntax.LangBash}
	for _, s := range statements {
		v.define(s)
	}
	set := map[string]int{}
	each(statements, func(n syntax.Node) {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil {
				set[n.Name.Value]++
			}
		case *syntax.WordIter:
			set[n.Name.Value] += 2
		case *syntax.ParamExp:
			if n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
				set[n.Param.Value] += 2
			}
		}
	})
	for name, n := range set {
		if n > 1 {
			delete(v.values, name)
		}
	}
	each(statements, func(n syntax.Node) {
		switch n := n.(type) {
		case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop, *syntax.DeclClause:
			clear(v.values) // each can set any variable
		case *syntax.CallExpr:
			if v.mayChange(n) {
				clear(v.values)
			}
		}
	})
	return v
}

func each(statements []*syntax.Stmt, visit func(syntax.Node)) {
	for _, s := range statements {
		syntax.Walk(s, func(n syntax.Node) bool { visit(n); return true })
	}
}

// define takes the assignments of a statement that is always passed.
func (v variables) define(s *syntax.Stmt) {
	if s.Background || s.Coprocess {
		return
	}
	switch c := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		if c.Op == syntax.AndStmt || c.Op == syntax.OrStmt {
			v.define(c.X)
		}
	case *syntax.Block:
		for _, s := range c.Stmts {
			v.define(s)
		}
	case *syntax.CallExpr:
		if len(c.Args) > 0 {
			return
		}
		for _, a := range c.Assigns {
			if a.Append || a.Naked || a.Index != nil || a.Array != nil {
				continue
			}
			if value, ok := assigned(a.Value); ok {
				v.values[a.Name.Value] = variable{value: value, from: a.End().Offset()}
			}
		}
	}
}

// assigned is the literal that an assignment gives: nothing is split, and no pattern means anything
// there.
func assigned(w *syntax.Word) (string, bool) {
	if w == nil {
		return "", true
	}
	value := variables{}.quoted(w)
	text, ok := value.Literal()
	for _, part := range w.Parts {
		if lit, isLit := part.(*syntax.Lit); isLit && strings.Contains(lit.Value, "~") {
			return "", false
		}
	}
	return text, ok
}

// setters are the builtins that can set variables by other means than an assignment.
var setters = map[string]bool{
	"read": true, "printf": true, "getopts": true, "mapfile": true, "readarray": true, "let": true,
	"unset": true, "eval": true, "source": true, ".": true, "trap": true, "export": true, "readonly": true,
	"declare": true, "typeset": true, "local": true, "wait": true, "alias": true, "builtin": true, "command": true,
}

// mayChange reports that the command may set any variable.
func (v variables) mayChange(c *syntax.CallExpr) bool {
	if len(c.Args) == 0 {
		return false
	}
	words := v.words(c.Args)
	if len(words) == 0 {
		return false
	}
	name, ok := words[0].Literal()
	if name == "printf" {
		return len(words) > 1 && (words[1].known() == "" || words[1].known()[0] == '-')
	}
	return !ok || setters[name]
}

// steering are the variables that change which programs names stand for, or what they load.
var steering = map[string]bool{
	"PATH": true, "IFS": true, "ENV": true, "BASH_ENV": true, "SHELLOPTS": true, "BASHOPTS": true,
	"PROMPT_COMMAND": true, "PS0": true, "PS1": true, "PS2": true, "PS4": true, "BASH_CMDS": true, "BASH_ALIASES": true, "LD_PRELOAD": true, "LD_AUDIT": true, "LD_LIBRARY_PATH": true,
	"DYLD_INSERT_LIBRARIES": true, "DYLD_LIBRARY_PATH": true,
}

func steers(name string) bool { return steering[name] || strings.HasPrefix(name, "BASH_FUNC_") }
