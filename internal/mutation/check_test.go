package mutation

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"braid/schemas"
)

const root = "../.."

func load(t *testing.T) []Mutant {
	t.Helper()
	all, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Every mutant applies, and the code compiles with it: a mutant that does not compile is noticed by
// everybody, and shows nothing.
func TestMutantsCompile(t *testing.T) {
	all := load(t)
	tree := newTree(t, all)
	for _, m := range all {
		t.Run(m.Name, func(t *testing.T) {
			text, err := m.Apply(root)
			if err != nil {
				t.Fatal(err)
			}
			if m.Old == m.New {
				t.Fatal("it changes nothing")
			}
			if err := tree.compile(m.File, text); err != nil {
				t.Errorf("it does not compile: %v", err)
			}
		})
	}
}

// tree knows what packages are made of, and what they export.
type tree struct {
	files   map[string][]string // by directory
	exports map[string]string   // by import path
}

// newTree asks the go command about the packages of all mutants and what these import.
func newTree(t *testing.T, all []Mutant) *tree {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export"}
	seen := map[string]bool{}
	for _, m := range all {
		if dir := "./" + filepath.ToSlash(filepath.Dir(m.File)); !seen[dir] {
			seen[dir] = true
			args = append(args, dir)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	tr := &tree{files: map[string][]string{}, exports: map[string]string{}}
	for in := jsontext.NewDecoder(bytes.NewReader(out)); ; {
		value, err := in.ReadValue()
		if err == io.EOF {
			return tr
		}
		var p struct {
			ImportPath, Dir, Export string
			GoFiles                 []string
		}
		if err == nil {
			err = schemas.DecodeJSON(value, &p)
		}
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		tr.files[p.Dir], tr.exports[p.ImportPath] = p.GoFiles, p.Export
	}
}

// compile checks the types of the package of a file that has another text.
func (tr *tree) compile(file string, text []byte) error {
	path, err := filepath.Abs(filepath.Join(root, file))
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range tr.files[dir] {
		var source any
		if filepath.Join(dir, name) == path {
			source = text
		}
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed = append(parsed, f)
	}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if export := tr.exports[path]; export != "" {
			return os.Open(export)
		}
		return nil, fmt.Errorf("nothing is known of %s", path)
	})}
	_, err = config.Check("braid/"+filepath.ToSlash(filepath.Dir(file)), fset, parsed, nil)
	return err
}

func TestStale(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	for old, want := range map[string]string{"one": "", "two": "2 times", "three": "0 times"} {
		m := Mutant{Name: "m", File: "a.go", Old: old, New: "x"}
		if _, err := m.Apply(dir); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", old, err)
		}
	}
	if _, err := (Mutant{Name: "m", File: "b.go"}).Apply(dir); err == nil {
		t.Error("a file that is gone is no error")
	}
}
