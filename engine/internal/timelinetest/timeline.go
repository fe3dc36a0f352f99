package timelinetest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"
)

// Load reads the timelines that match a pattern, by their names without the ending. No file is an
// error.
func Load(pattern string) (map[string]*txtar.Archive, error) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no timelines match %s: %w", pattern, err)
	}
	all := make(map[string]*txtar.Archive, len(files))
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			return nil, fmt.Errorf("read a timeline: %w", err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".txtar")] = archive
	}
	return all, nil
}

// Section is what a timeline holds under a name; empty if it has no such section.
func Section(a *txtar.Archive, name string) string {
	i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
	if i < 0 {
		return ""
	}
	return string(a.Files[i].Data)
}

// SectionNames lists a timeline's sections, in their order.
func SectionNames(a *txtar.Archive) (names []string) {
	for _, f := range a.Files {
		names = append(names, f.Name)
	}
	return names
}
