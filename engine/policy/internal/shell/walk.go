package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// statements reads the commands of parsed statements, wherever they stand: in lists, branches,
// loops, functions and substitutions.
func (r *reader) statements(statements []*syntax.Stmt, lang syntax.LangVariant) {
	v := variablesOf(statements, lang)
	f := feedsOf(statements, v)
	each(statements, func(n syntax.Node) { r.visit(n, v, f) })
	if computes(statements) {
		r.unclear("arithmetic may run a command that a text holds")
	}
}

func (r *reader) visit(n syntax.Node, v variables, f feeds) {
	switch n := n.(type) {
	case *syntax.Stmt:
		if call, ok := n.Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			words, stdin, around := v.words(call.Args), stdinOf(n.Redirs, v), r.fed
			r.fed = around || f[n] || feeding(stdin)
			r.command(words, stdin)
			r.fed = around
		}
	case *syntax.Assign:
		if n.Name != nil && steers(n.Name.Value) {
			r.unclear("it sets " + n.Name.Value)
		}
		if n.Name == nil && n.Value != nil && v.opaque(n.Value) {
			r.unclear("which variable it sets is not known")
		}
	case *syntax.DblQuoted:
		if misquoted(n.Parts) {
			r.unclear("where a text ends is not clear")
		}
	case *syntax.Redirect:
		if n.Hdoc != nil && misquoted(n.Hdoc.Parts) {
			r.unclear("where a text ends is not clear")
		}
	case *syntax.WordIter:
		if steers(n.Name.Value) {
			r.unclear("it sets " + n.Name.Value)
		}
	case *syntax.ParamExp:
		if n.Exp != nil && n.Exp.Op == syntax.OtherParamOps && n.Exp.Word.Lit() == "P" {
			r.unclear("a text is expanded like a prompt")
		}
	}
}

// misquoted reports a single quote in what a parameter is replaced by in double quotes, as in "${x:-'}". Shells take
// it as it is there, and the parser for the beginning of a text.
func misquoted(parts []syntax.WordPart) bool {
	return slices.ContainsFunc(parts, func(part syntax.WordPart) bool {
		p, ok := part.(*syntax.ParamExp)
		if !ok || p.Exp == nil || p.Exp.Word == nil {
			return false
		}
		return slices.ContainsFunc(p.Exp.Word.Parts, func(part syntax.WordPart) bool {
			_, quoted := part.(*syntax.SglQuoted)
			return quoted
		}) || misquoted(p.Exp.Word.Parts)
	})
}

// computes reports that a script calculates, and holds a text with a command in it: where a variable
// holds such a text as the index of an array, Bash runs the command.
func computes(statements []*syntax.Stmt) bool {
	calculating, holding := false, false
	each(statements, func(n syntax.Node) {
		calculating = calculating || calculates(n)
		holding = holding || holds(n)
	})
	return calculating && holding
}

// calculates reports that Bash takes a part of it for arithmetic, or looks into an array.
func calculates(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
		return true
	case *syntax.ParamExp:
		return n.Index != nil || n.Slice != nil
	case *syntax.Assign:
		return n.Index != nil
	case *syntax.ArrayElem:
		return n.Index != nil
	case *syntax.DeclClause: // it may declare numbers and references; export does neither
		return n.Variant.Value != "export"
	case *syntax.UnaryTest:
		return n.Op == syntax.TsVarSet
	case *syntax.BinaryTest:
		switch n.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			return true
		default: // it compares texts or files
		}
	case *syntax.CallExpr:
		return testsVariable(n)
	}
	return false
}

// testsVariable reports that the command is test -v.
func testsVariable(c *syntax.CallExpr) bool {
	is := func(text string) func(*syntax.Word) bool {
		return func(w *syntax.Word) bool { return variables{}.quoted(w).is(text) }
	}
	if len(c.Args) == 0 || !is("test")(c.Args[0]) && !is("[")(c.Args[0]) {
		return false
	}
	return slices.ContainsFunc(c.Args[1:], is("-v"))
}

// holds reports a text with a command in it.
func holds(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.SglQuoted:
		text := n.Value
		if n.Dollar {
			said, known := ansiQuoted(text)
			if !known {
				return true
			}
			text = said
		}
		return strings.Contains(text, "$(") || strings.Contains(text, "`")
	case *syntax.Lit:
		return strings.Contains(n.Value, `\$`) || strings.Contains(n.Value, "\\`")
	}
	return false
}

// stdinOf is the text that a command reads, if it is in the script.
func stdinOf(redirects []*syntax.Redirect, v variables) *Word {
	var stdin *Word
	for _, redirect := range redirects {
		if redirect.N != nil && redirect.N.Value != "0" {
			continue
		}
		switch redirect.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			w := v.document(redirect)
			stdin = &w
		case syntax.WordHdoc:
			w := v.quoted(redirect.Word)
			stdin = &w
		case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn:
			w := anything()
			if file := v.quoted(redirect.Word); file.is("/dev/null") {
				w = Word{}
			}
			stdin = &w
		default: // it writes
		}
	}
	return stdin
}
