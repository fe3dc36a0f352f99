package mutation

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/txtar"
)

// Mutant is one change that breaks a guarantee.
type Mutant struct {
	// Name is that of its file, and Breaks the guarantee that does not hold any more.
	Name, Breaks string
	// File is where Old stands, once, and New in its place. It is relative to the repository's root.
	File, Old, New string
	// Tests are the arguments of runs of go test, of which one fails.
	Tests [][]string
}

// Load reads the mutants of a directory, sorted by name.
func Load(dir string) ([]Mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no mutants in %s: %w", dir, err)
	}
	var all []Mutant
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			return nil, fmt.Errorf("read a mutant: %w", err)
		}
		m, err := parse(archive)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		m.Name = strings.TrimSuffix(filepath.Base(file), ".txtar")
		all = append(all, m)
	}
	return all, nil
}

func parse(a *txtar.Archive) (Mutant, error) {
	if len(a.Files) != 3 || a.Files[1].Name != "becomes" || a.Files[2].Name != "tests" {
		return Mutant{}, fmt.Errorf("the sections of a mutant are the file, becomes and tests")
	}
	m := Mutant{
		Breaks: strings.Join(strings.Fields(string(a.Comment)), " "), File: a.Files[0].Name,
		Old: strings.TrimSuffix(string(a.Files[0].Data), "\n"), New: strings.TrimSuffix(string(a.Files[1].Data), "\n"),
	}
	for line := range strings.Lines(string(a.Files[2].Data)) {
		if words := strings.Fields(line); len(words) > 0 {
			m.Tests = append(m.Tests, words)
		}
	}
	if m.Breaks == "" || m.Old == "" || len(m.Tests) == 0 {
		return m, fmt.Errorf("a mutant says what it breaks, what it replaces and which tests notice")
	}
	return m, nil
}

// Apply returns the mutant's file as it makes it.
func (m Mutant) Apply(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, fmt.Errorf("the mutant %s is stale: %w", m.Name, err)
	}
	if n := bytes.Count(text, []byte(m.Old)); n != 1 {
		return nil, fmt.Errorf("the mutant %s is stale: what it replaces stands %d times in %s", m.Name, n, m.File)
	}
	return bytes.Replace(text, []byte(m.Old), []byte(m.New), 1), nil
}
