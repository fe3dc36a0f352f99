package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Problem is one breach of a rule.
type Problem struct {
	Rule string
	// Where is a file, or a file and line.
	Where string
	// Text says what is wrong, why, and what to do instead.
	Text string
}

// String renders the problem as a compiler would.
func (p Problem) String() string { return fmt.Sprintf("%s: [%s] %s", p.Where, p.Rule, p.Text) }

// Source is one Go file.
type Source struct {
	// Path and Dir are relative to the repository's root, with slashes. The root's Dir is ".".
	Path, Dir string
	// Test is set for files that are only part of test binaries.
	Test bool
	// Generated is set for files that no person edits.
	Generated bool
	Lines     int
	AST       *ast.File

	fset *token.FileSet
}

// Line is the line a node begins at.
func (s *Source) Line(n ast.Node) int { return s.fset.Position(n.Pos()).Line }

// At names the place of a node.
func (s *Source) At(n ast.Node) string { return s.Path + ":" + strconv.Itoa(s.Line(n)) }

// height is how many lines a node takes.
func (s *Source) height(n ast.Node) int { return s.fset.Position(n.End()).Line - s.Line(n) + 1 }

// Imports lists the file's imports: the path of each by the name that it has in the file.
func (s *Source) Imports() map[string]string {
	imports := make(map[string]string, len(s.AST.Imports))
	for _, spec := range s.AST.Imports {
		target, _ := strconv.Unquote(spec.Path.Value)
		name := lastElement(target)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = target
	}
	return imports
}

// lastElement is the name a package most likely has: the last element of its path that is not
// a major version.
func lastElement(importPath string) string {
	base := path.Base(importPath)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(importPath))
	}
	return base
}

// Tree is the repository: its Go files parsed, its documents at hand.
type Tree struct {
	// Module is the module's path, which import paths of our own begin with.
	Module string
	Files  []*Source

	root fs.FS
}

// Load parses every Go file of the module at the root, without the modules nested in it.
func Load(root fs.FS) (*Tree, error) {
	t := &Tree{root: root}
	mod, err := fs.ReadFile(root, "go.mod")
	if err != nil {
		return nil, fmt.Errorf("load the repository: %w", err)
	}
	first, _, _ := bytes.Cut(mod, []byte("\n"))
	t.Module = strings.TrimSpace(strings.TrimPrefix(string(first), "module "))
	fset := token.NewFileSet()
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return t.enter(name)
		}
		if strings.HasSuffix(name, ".go") {
			return t.parse(fset, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load the repository: %w", err)
	}
	return t, nil
}

// enter tells whether a directory belongs to the module.
func (t *Tree) enter(dir string) error {
	base := path.Base(dir)
	if dir == "." {
		return nil
	}
	if base == "testdata" || base == "vendor" || base[0] == '.' || base[0] == '_' {
		return fs.SkipDir
	}
	if _, err := fs.Stat(t.root, path.Join(dir, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func (t *Tree) parse(fset *token.FileSet, name string) error {
	text, err := fs.ReadFile(t.root, name)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	t.Files = append(t.Files, &Source{
		Path: name, Dir: path.Dir(name),
		Test: strings.HasSuffix(name, "_test.go"), Generated: ast.IsGenerated(file),
		Lines: bytes.Count(text, []byte("\n")), AST: file, fset: fset,
	})
	return nil
}

// Document is the text of a file that is not Go; empty if there is none.
func (t *Tree) Document(name string) string {
	text, err := fs.ReadFile(t.root, name)
	if err != nil {
		return ""
	}
	return string(text)
}

// Packages lists the directories that hold Go files, sorted.
func (t *Tree) Packages() []string {
	var dirs []string
	for _, f := range t.Files {
		dirs = append(dirs, f.Dir)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// own turns an import path of this module into a directory.
func (t *Tree) own(importPath string) (dir string, ok bool) {
	return strings.CutPrefix(importPath, t.Module+"/")
}

// within reports whether dir is base or lies below it.
func within(dir, base string) bool { return dir == base || strings.HasPrefix(dir, base+"/") }

// forTests reports whether a package exists for tests only: its name ends in "test", or it lies
// in internal/ at the root and is not what the commands share.
func forTests(dir string) bool {
	return strings.HasSuffix(dir, "test") || within(dir, "internal") && !within(dir, "internal/cli")
}
