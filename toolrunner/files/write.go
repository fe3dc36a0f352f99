package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// This file is write_file and edit_file. Both put a whole new file in place of the old one.

type writeArguments struct {
	Path    string `json:"path" jsonschema:"the file"`
	Content string `json:"content" jsonschema:"the whole text of the file"`
}

func write(_ context.Context, w *workspace, in writeArguments, _ io.Writer) (string, error) {
	name, err := w.name(in.Path)
	if err != nil {
		return "", err
	}
	if len(in.Content) > maxText {
		return "", refuse("content has %d bytes; at most %d can be written", len(in.Content), maxText)
	}
	target, err := w.target(name)
	if err != nil {
		return "", err
	}
	old, err := w.existing(target)
	if err != nil {
		return "", explain(name, err)
	}
	if old == nil {
		if err := w.makeDir(target); err != nil {
			return "", explain(path.Dir(name), err)
		}
	}
	if err := w.replace(target, []byte(in.Content), old); err != nil {
		return "", explain(name, err)
	}
	what := "wrote"
	if old == nil {
		what = "created"
	}
	return fmt.Sprintf("%s %s (%d bytes)", what, spelled(name), len(in.Content)), nil
}

// existing describes the regular file at a place; nil if there is none.
func (w *workspace) existing(target string) (fs.FileInfo, error) {
	info, err := w.root.Lstat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return info, regular(path.Base(target), info)
}

// makeDir makes the directory that a file is to be in, if it is missing.
func (w *workspace) makeDir(target string) error {
	dir, _ := path.Split(target)
	if dir == "" {
		return nil
	}
	if _, err := w.root.Stat(dir); err == nil {
		return nil
	}
	return w.root.MkdirAll(path.Clean(dir), 0o777)
}

// replace puts a text in the place of an old file, if there is one, all at once.
func (w *workspace) replace(target string, text []byte, old fs.FileInfo) (err error) {
	dir, _ := path.Split(target)
	temporary := dir + ".braid-" + strings.ToLower(rand.Text()) + ".tmp"
	f, err := w.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.root.Remove(temporary))
		}
	}()
	_, err = f.Write(text)
	if err == nil && old != nil {
		err = f.Chmod(old.Mode().Perm())
	}
	if err == nil {
		err = f.Sync() // or a crash could leave an empty file in the old one's place
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return w.root.Rename(temporary, target)
}

type editArguments struct {
	Path    string `json:"path" jsonschema:"the file"`
	OldText string `json:"old_text" jsonschema:"the text to replace"`
	NewText string `json:"new_text" jsonschema:"what takes its place"`
	All     bool   `json:"all,omitzero" jsonschema:"replace every occurrence"`
}

func edit(_ context.Context, w *workspace, in editArguments, _ io.Writer) (string, error) {
	switch in.OldText {
	case "":
		return "", refuse("old_text is empty; write_file makes new files")
	case in.NewText:
		return "", refuse("old_text and new_text are the same")
	}
	name, err := w.name(in.Path)
	if err != nil {
		return "", err
	}
	target, err := w.target(name)
	if err != nil {
		return "", err
	}
	text, old, err := w.text(name)
	if err != nil {
		return "", err
	}
	from, to := []byte(in.OldText), []byte(in.NewText)
	if onlyCRLF(text) { // the model knows "\n" alone
		from, to = crlf(from), crlf(to)
	}
	at := occurrences(text, from)
	switch {
	case len(at) == 0:
		return "", refuse("old_text does not occur in %s; it must be given exactly, blanks and line ends included%s", spelled(name), nearby(text, from))
	case len(at) > 1 && !in.All:
		return "", refuse("old_text occurs %d times in %s, at lines %s; give more of the text around it, or set all", len(at), spelled(name), some(at))
	}
	text = bytes.ReplaceAll(text, from, to)
	if len(text) > maxText {
		return "", refuse("%s would have %d bytes; at most %d can be written", spelled(name), len(text), maxText)
	}
	if err := w.replace(target, text, old); err != nil {
		return "", explain(name, err)
	}
	return fmt.Sprintf("replaced %d in %s, at line %s", len(at), spelled(name), some(at)), nil
}

// onlyCRLF reports that every line of a text ends in "\r\n".
func onlyCRLF(text []byte) bool {
	ends := bytes.Count(text, []byte("\n"))
	return ends > 0 && ends == bytes.Count(text, []byte("\r\n"))
}

// crlf ends lines in "\r\n", once.
func crlf(text []byte) []byte {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))
}

// occurrences lists the lines at which a text occurs, from 1.
func occurrences(text, part []byte) (lines []int) {
	line := 1
	for {
		i := bytes.Index(text, part)
		if i < 0 {
			return lines
		}
		line += bytes.Count(text[:i], []byte("\n"))
		lines = append(lines, line)
		line += bytes.Count(part, []byte("\n"))
		text = text[i+len(part):]
	}
}

// some names the first few lines.
func some(lines []int) string { return someFrom(1, lines) }

// someFrom does, of a text whose first line has that number.
func someFrom(first int, lines []int) string {
	const shown = 10
	var names []string
	for _, line := range lines[:min(len(lines), shown)] {
		names = append(names, fmt.Sprint(first-1+line))
	}
	if len(lines) > shown {
		names = append(names, "...")
	}
	return strings.Join(names, ", ")
}

// nearby hints at a line that differs from the first of the part in blanks only.
func nearby(text, part []byte) string {
	first, _, _ := bytes.Cut(bytes.TrimSpace(part), []byte("\n"))
	first = bytes.Join(bytes.Fields(first), []byte(" "))
	if len(first) == 0 {
		return ""
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if bytes.Equal(bytes.Join(bytes.Fields(line), []byte(" ")), first) {
			return fmt.Sprintf(". Line %d is like its first line", number)
		}
	}
	return ""
}
