package timelinetest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"braid/llm/scripted"
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

// Models parses the scripts of a timeline's models, by their names: model.yaml is that of the model m,
// NAME.model.yaml that of the model NAME.
func Models(a *txtar.Archive) (map[string]*scripted.Script, error) {
	models := map[string]*scripted.Script{}
	for _, f := range a.Files {
		name, ok := strings.CutSuffix(f.Name, ".model.yaml")
		if f.Name == "model.yaml" {
			name, ok = "m", true
		}
		if !ok {
			continue
		}
		script, err := scripted.Parse(f.Data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		models[name] = script
	}
	return models, nil
}

// SectionNames lists a timeline's sections, in their order.
func SectionNames(a *txtar.Archive) (names []string) {
	for _, f := range a.Files {
		names = append(names, f.Name)
	}
	return names
}
