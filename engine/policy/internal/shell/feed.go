package shell

import "mvdan.cc/sh/v3/syntax"

// feeds are the statements that read what the script brings to them by another way than a redirection
// of their own: through a pipe, or from what stands around them.
type feeds map[*syntax.Stmt]bool

// feedsOf finds them. A function may be called where it is fed, so its statements are if any are.
func feedsOf(statements []*syntax.Stmt, v variables) feeds {
	f := feeds{}
	each(statements, func(n syntax.Node) {
		switch n := n.(type) {
		case *syntax.BinaryCmd:
			if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
				f.add(n.Y)
			}
		case *syntax.ProcSubst:
			if n.Op == syntax.CmdOut {
				f.add(n.Stmts...)
			}
		case *syntax.CoprocClause:
			f.add(n.Stmt)
		case *syntax.Stmt:
			if !feeding(stdinOf(n.Redirs, v)) {
				return
			}
			switch cmd := n.Cmd.(type) {
			case *syntax.CallExpr:
				if len(cmd.Args) > 0 && v.words(cmd.Args[:1])[0].is("exec") {
					f.add(statements...) // the shell itself reads it from there on
				}
			default:
				f.add(n)
			}
		}
	})
	if len(f) > 0 {
		each(statements, func(n syntax.Node) {
			if fn, ok := n.(*syntax.FuncDecl); ok {
				f.add(fn.Body)
			}
		})
	}
	return f
}

// add takes statements and all inside of them. Where the outermost was taken the others were.
func (f feeds) add(statements ...*syntax.Stmt) {
	for _, s := range statements {
		if !f[s] {
			each([]*syntax.Stmt{s}, func(n syntax.Node) {
				if s, ok := n.(*syntax.Stmt); ok {
					f[s] = true
				}
			})
		}
	}
}

// feeding reports that a redirection brings something, or may.
func feeding(stdin *Word) bool { return stdin != nil && !stdin.is("") }
