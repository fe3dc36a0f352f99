package archtest

import (
	"fmt"
	"go/ast"
	"slices"
)

// A banned call is one with a better way.
type banned struct {
	library string
	names   []string
	// here says where it is banned.
	here func(*Source) bool
	why  string
}

var bans = []banned{
	{"time", []string{"Sleep"}, sleeps,
		"a sleep can't be cancelled and makes tests slow or flaky: wait for a condition, on a timer and a context, or run the test in a testing/synctest bubble"},
	{"os", []string{"Getenv", "LookupEnv", "Environ"}, outside("cmd"),
		"the environment is read by commands only, so that everything a package depends on shows in its options"},
	{"os", []string{"Exit"}, func(f *Source) bool { return !f.Test && f.AST.Name.Name != "main" },
		"it skips every deferred clean-up of the process: return an error, main decides"},
	{"fmt", []string{"Print", "Printf", "Println"}, outside("cmd"),
		"packages don't write to standard output: return what there is to say, or log it"},
	{"github.com/go-json-experiment/json", []string{"Marshal", "MarshalWrite", "MarshalEncode", "Unmarshal", "UnmarshalRead", "UnmarshalDecode"}, outside("schemas"),
		"the options that keep what others wrote byte for byte are set in one place: use schemas.EncodeJSON and schemas.DecodeJSON"},
	{"context", []string{"TODO"}, func(*Source) bool { return true },
		"take a context from the caller"},
	{"runtime", []string{"Goexit"}, func(f *Source) bool { return !f.Test },
		"return instead"},
}

// Calls checks that no banned function is used.
func Calls(t *Tree) []Problem {
	var found []Problem
	for _, f := range t.Files {
		imports := f.Imports()
		ast.Inspect(f.AST, func(n ast.Node) bool {
			library, name := used(n, imports)
			for _, b := range bans {
				if library == b.library && slices.Contains(b.names, name) && b.here(f) {
					found = append(found, Problem{"calls", f.At(n), fmt.Sprintf("%s.%s is not used here: %s", lastElement(library), name, b.why)})
				}
			}
			return true
		})
	}
	return found
}

// used returns the library and name of a qualified identifier, empty for any other node. The
// parser resolves what is local to a file, so a variable that shadows an import is not mistaken
// for it.
func used(n ast.Node, imports map[string]string) (library, name string) {
	selector, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	x, ok := selector.X.(*ast.Ident)
	if !ok || x.Obj != nil {
		return "", ""
	}
	return imports[x.Name], selector.Sel.Name
}

// outside bans in product code that does not lie under dir.
func outside(dir string) func(*Source) bool {
	return func(f *Source) bool { return !f.Test && !forTests(f.Dir) && !within(f.Dir, dir) }
}

// sleeps bans sleeping, except in tests with a fake clock, and where a toolrunner gives the kernel
// a moment to bury processes: nothing tells when it has.
func sleeps(f *Source) bool {
	if within(f.Dir, "toolrunner") && !f.Test {
		return false
	}
	for _, target := range f.Imports() {
		if target == "testing/synctest" {
			return false
		}
	}
	return true
}
