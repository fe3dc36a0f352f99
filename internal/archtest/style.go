package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// The rules in this file are about how Go files are written: their size, their comments, their goroutines,
// their package variables, the paths they name.

const (
	maxFileLines     = 600
	maxFunctionLines = 80
	// maxCommentLines is how long a package comment may be outside doc.go.
	maxCommentLines = 15
)

// Sizes checks that files and functions can be read in one go. Tests are exempt.
func Sizes(t *Tree) []Problem {
	var found []Problem
	for _, f := range t.Files {
		if f.Test || f.Generated {
			continue
		}
		if f.Lines > maxFileLines {
			found = append(found, Problem{"sizes", f.Path, fmt.Sprintf("%d lines, the limit is %d: one file holds one idea", f.Lines, maxFileLines)})
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			fn, ok := n.(*ast.FuncDecl)
			if ok && fn.Body != nil && f.height(fn) > maxFunctionLines {
				found = append(found, Problem{"sizes", f.At(fn), fmt.Sprintf("%s has %d lines, the limit is %d: keep the decisions, move the steps out", fn.Name.Name, f.height(fn), maxFunctionLines)})
			}
			return true
		})
	}
	return found
}

// PackageComments checks that each package is introduced exactly once.
func PackageComments(t *Tree) []Problem {
	const rule = "package-comments"
	var found []Problem
	for _, dir := range t.Packages() {
		var commented, all []string
		for _, f := range t.Files {
			if f.Dir != dir || f.Test {
				continue
			}
			all = append(all, f.Path)
			if f.AST.Doc == nil {
				continue
			}
			commented = append(commented, f.Path)
			if lines := f.height(f.AST.Doc); lines > maxCommentLines && !strings.HasSuffix(f.Path, "/doc.go") {
				found = append(found, Problem{rule, f.Path, fmt.Sprintf("the package comment has %d lines: over %d it belongs in doc.go, where people look", lines, maxCommentLines)})
			}
		}
		switch {
		case len(all) == 0:
			// tests only
		case len(commented) == 0:
			found = append(found, Problem{rule, dir, "the package has no comment: say in doc.go what it is for, where to start reading, and who owns its goroutines"})
		case len(commented) > 1:
			found = append(found, Problem{rule, dir, "the package is introduced in " + strings.Join(commented, " and ") + ": keep one"})
		}
	}
	return found
}

// fileName matches the name of a file without a directory.
var fileName = regexp.MustCompile(`(?:^|[^\w./-])([a-z]\w*\.go)\b`)

// FileLists checks that a package comment that tells its files tells all of them. One that names no
// more than half says where to begin, and is left alone.
func FileLists(t *Tree) []Problem {
	var found []Problem
	for _, f := range t.Files {
		if f.Test || f.AST.Doc == nil {
			continue
		}
		named := map[string]bool{}
		for _, match := range fileName.FindAllStringSubmatch(f.AST.Doc.Text(), -1) {
			named[match[1]] = true
		}
		var told, missing []string
		for _, other := range t.Files {
			switch base := path.Base(other.Path); {
			case other.Dir != f.Dir || other.Test || other == f:
			case named[base]:
				told = append(told, base)
			default:
				missing = append(missing, base)
			}
		}
		if len(told) > len(missing) && len(missing) > 0 {
			found = append(found, Problem{"file-lists", f.Path, fmt.Sprintf("the package comment tells its files, but not %s: a list with gaps sends readers past what they look for; say what it is for", strings.Join(missing, ", "))})
		}
	}
	return found
}

// Inits checks that nothing happens before main.
func Inits(t *Tree) []Problem {
	var found []Problem
	for _, f := range t.Files {
		for _, decl := range f.AST.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				found = append(found, Problem{"inits", f.At(fn), "init runs unasked, in every program and test that links the package: make a constructor"})
			}
		}
	}
	return found
}

// Goroutines checks that each go statement says when its goroutine ends.
func Goroutines(t *Tree) []Problem {
	var found []Problem
	for _, f := range t.Files {
		if f.Test {
			continue
		}
		commented := map[int]bool{}
		for _, group := range f.AST.Comments {
			for _, c := range group.List {
				commented[f.fset.Position(c.End()).Line] = true
			}
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if _, ok := n.(*ast.GoStmt); ok && !commented[f.Line(n)] && !commented[f.Line(n)-1] {
				found = append(found, Problem{"goroutines", f.At(n), "a naked go: use sync.WaitGroup.Go or an errgroup and wait for it, or say in a comment on this line or the one above when it ends and who waits"})
			}
			return true
		})
	}
	return found
}

// PackageVariables checks that package variables are constants in all but name: set where they
// are declared and never again. What changes belongs to a value that somebody made, or two
// engines in one process (as in most tests) would share it.
func PackageVariables(t *Tree) []Problem {
	var found []Problem
	for _, dir := range t.Packages() {
		vars := map[string]bool{}
		for _, f := range t.Files {
			if f.Dir == dir && !f.Test {
				found = append(found, declarations(f, vars)...)
			}
		}
		for _, f := range t.Files {
			if f.Dir == dir {
				found = append(found, changes(f, vars)...)
			}
		}
	}
	return found
}

// mutable matches types that are only good for changing.
var mutable = regexp.MustCompile(`^(sync\.(Mutex|RWMutex|Map|Once|WaitGroup|Cond)|atomic\.\w+|chan)$`)

func declarations(f *Source, vars map[string]bool) []Problem {
	var found []Problem
	for _, decl := range f.AST.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.VAR {
			continue
		}
		for _, spec := range d.Specs {
			v := spec.(*ast.ValueSpec)
			for _, name := range v.Names {
				vars[name.Name] = name.Name != "_"
			}
			if typ := typeName(v.Type); mutable.MatchString(typ) {
				found = append(found, Problem{"package-variables", f.At(v), fmt.Sprintf("a package variable of type %s is state that everything in the process shares: keep it in a value that somebody made", typ)})
			}
		}
	}
	return found
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			return x.Name + "." + e.Sel.Name
		}
	case *ast.IndexExpr: // a generic type
		return typeName(e.X)
	case *ast.ChanType:
		return "chan"
	}
	return ""
}

// changes finds what assigns to, deletes from or takes the address of a package variable.
func changes(f *Source, vars map[string]bool) []Problem {
	var found []Problem
	shared := packageLevel(f)
	check := func(n ast.Node, target ast.Expr) {
		id := root(target)
		if id == nil || !vars[id.Name] || !shared(id) {
			return
		}
		found = append(found, Problem{"package-variables", f.At(n), fmt.Sprintf("package variable %s is changed: two users in one process would see each other's; keep it in a value that somebody made, or pass it in", id.Name)})
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				return true
			}
			for _, target := range n.Lhs {
				check(n, target)
			}
		case *ast.IncDecStmt:
			check(n, n.X)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				check(n, n.X)
			}
		case *ast.CallExpr:
			if fn, ok := n.Fun.(*ast.Ident); ok && (fn.Name == "delete" || fn.Name == "clear") && len(n.Args) > 0 {
				check(n, n.Args[0])
			}
		}
		return true
	})
	return found
}

// root is the variable that an expression such as v.f[i] starts from.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// packageLevel tells whether an identifier stands for a package variable. The parser resolves
// names within a file, so it is one declared at the file's top, or not in this file at all.
func packageLevel(f *Source) func(*ast.Ident) bool {
	top := map[any]bool{}
	for _, decl := range f.AST.Decls {
		if d, ok := decl.(*ast.GenDecl); ok {
			for _, spec := range d.Specs {
				top[spec] = true
			}
		}
	}
	return func(id *ast.Ident) bool { return id.Obj == nil || top[id.Obj.Decl] }
}

// machinePath matches directories that exist on one machine only.
var machinePath = regexp.MustCompile(`(^|[^\w/.~-])/(home|root|Users|work|mnt)/\w`)

// Paths checks that no source or document names a place on somebody's machine.
func Paths(t *Tree) []Problem {
	var found []Problem
	add := func(where, text string) {
		if hit := machinePath.FindString(text); hit != "" {
			found = append(found, Problem{"paths", where, fmt.Sprintf("%q is a place on one machine: use t.TempDir in tests, a setting in the product, and a relative path in documents", strings.TrimSpace(hit))})
		}
	}
	for _, f := range t.Files {
		for _, group := range f.AST.Comments {
			add(f.At(group), group.Text())
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				add(f.At(lit), lit.Value)
			}
			return true
		})
	}
	for _, name := range t.documents() {
		for i, line := range strings.Split(t.Document(name), "\n") {
			add(fmt.Sprintf("%s:%d", name, i+1), line)
		}
	}
	return found
}

// LeakChecks checks that packages with goroutines look for leaked ones in their tests.
func LeakChecks(t *Tree) []Problem {
	var found []Problem
	for _, dir := range t.Packages() {
		concurrent, tested, checked := false, false, false
		for _, f := range t.Files {
			if f.Dir != dir {
				continue
			}
			if f.Test {
				tested = true
				checked = checked || slices.ContainsFunc(f.AST.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == `"go.uber.org/goleak"` })
				continue
			}
			concurrent = concurrent || startsGoroutines(f)
		}
		if concurrent && tested && !checked {
			found = append(found, Problem{"leak-checks", dir, "the package starts goroutines and its tests don't look for leaked ones: add a TestMain that calls goleak.VerifyTestMain"})
		}
	}
	return found
}

// startsGoroutines reports a go statement, or a call of a method Go with one function.
func startsGoroutines(f *Source) bool {
	starts := false
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" && len(n.Args) == 1 {
				starts = true
			}
		}
		return !starts
	})
	return starts
}
