package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"
)

// This file is search_files: the lines that a regular expression matches, of all files that a walk finds.

type searchArguments struct {
	Pattern    string `json:"pattern" jsonschema:"the regular expression, RE2 syntax"`
	Path       string `json:"path,omitzero" jsonschema:"a directory or one file; the workspace if left out"`
	Glob       string `json:"glob,omitzero" jsonschema:"which files to search, such as *.go or src/**/*.ts; all if left out"`
	IgnoreCase bool   `json:"ignore_case,omitzero" jsonschema:"small and capital letters are the same"`
}

func search(ctx context.Context, w *workspace, in searchArguments, out io.Writer) (string, error) {
	pattern := in.Pattern
	if in.IgnoreCase {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return "", refuse("pattern: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	s := searcher{w: w, re: re, out: out}
	note, err := w.walk(ctx, in.Path, visit{glob: in.Glob, files: true}, func(name string, _ fs.DirEntry) error {
		return s.file(name)
	})
	if err != nil {
		return "", err
	}
	return s.note(note), nil
}

type searcher struct {
	w                       *workspace
	re                      *regexp.Regexp
	out                     io.Writer
	files, skipped, matches int
}

// file shows the lines of a file that match. What can't be read as text is skipped, and counted.
func (s *searcher) file(name string) error {
	text, _, err := s.w.text(name)
	if err != nil {
		s.skipped++
		return nil // the note tells of it
	}
	s.files++
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimRight(line, "\r\n")
		if !s.re.Match(line) {
			continue
		}
		if s.matches == maxMatches {
			return errEnough
		}
		s.matches++
		if len(line) > maxLine {
			line = append(wholeRunes(line[:maxLine:maxLine]), "..."...)
		}
		line = bytes.ReplaceAll(line, []byte("\r"), []byte(`\r`)) // or the output would end the line there
		if _, err := fmt.Fprintf(s.out, "%s:%d:%s\n", spelled(name), number, line); err != nil {
			return errors.Join(errEnough, err) // the call is over
		}
	}
	return nil
}

// note says what the matches are not.
func (s *searcher) note(more string) string {
	var notes []string
	if more != "" {
		notes = append(notes, more)
	} else if s.matches == 0 {
		notes = append(notes, fmt.Sprintf("[no match in %d files]", s.files))
	}
	if s.skipped > 0 {
		notes = append(notes, fmt.Sprintf("[%d files skipped: binary, over %d MiB, or not readable]", s.skipped, maxText>>20))
	}
	return strings.Join(notes, "\n")
}
