package shell

import (
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

// computes reports that a script calculates, and holds a text with a command in it: where a variable
// holds such a text as the index of an array, Bash runs the command.
func computes(statements []*syntax.Stmt) bool {
	calculates, holds := false, false
	each(statements, func(n syntax.Node) {
		switch n := n.(type) {
		case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
			calculates = true
		case *syntax.ParamExp:
			calculates = calculates || n.Index != nil || n.Slice != nil
		case *syntax.UnaryTest:
			calculates = calculates || n.Op == syntax.TsVarSet
		case *syntax.SglQuoted:
			holds = holds || strings.Contains(n.Value, "$(") || strings.Contains(n.Value, "`")
		case *syntax.Lit:
			holds = holds || strings.Contains(n.Value, `\$`) || strings.Contains(n.Value, "\\`")
		}
	})
	return calculates && holds
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
