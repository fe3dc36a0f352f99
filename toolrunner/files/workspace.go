package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"braid/schemas"
	"braid/toolrunner"
)

// workspace is a session's directory, which nothing leads out of.
type workspace struct {
	root *os.Root
	// dirs are the ways to say where it is: as it was given, and without links.
	dirs []string
}

func openWorkspace(base, name string) (*workspace, error) {
	dir, err := toolrunner.WorkspaceDir(base, name)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("use the workspace: %w", err)
	}
	w := &workspace{root: root, dirs: []string{dir}}
	if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
		w.dirs = append(w.dirs, real)
	}
	return w, nil
}

// spelled is a name as it is shown: in quotes, as Go writes strings, if what is around it could not be told
// from it, or something in it could not be seen: it stays on its line, and can be given to any tool.
func spelled(name string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == ':' }
	if !utf8.ValidString(name) || strings.ContainsFunc(name, odd) || strings.Trim(name, " @") != name || strings.HasPrefix(name, `"`) || strings.HasPrefix(name, "[") {
		return strconv.Quote(name)
	}
	return name
}

// unspelled is the name that is shown as the given text. The slash that list_files puts behind a directory may
// stand behind the quotes, and more of a path behind that.
func unspelled(given string) (string, error) {
	if !strings.HasPrefix(given, `"`) {
		return given, nil
	}
	quoted, err := strconv.QuotedPrefix(given)
	rest := given[len(quoted):]
	if err == nil && (rest == "" || rest[0] == '/') {
		quoted, err = strconv.Unquote(quoted)
		return quoted + rest, err
	}
	return "", refuse("%s begins with a quote, but is no path in quotes as list_files has them", spelled(given))
}

// name is what the model calls a file as the workspace calls it: relative, clean, with slashes. It may be
// in quotes, as [spelled] shows it.
func (w *workspace) name(given string) (string, error) {
	given, err := unspelled(given)
	if err != nil {
		return "", err
	}
	if strings.IndexByte(given, 0) >= 0 {
		return "", refuse("a path holds a NUL character")
	}
	local := filepath.FromSlash(given)
	if filepath.IsAbs(local) {
		for _, dir := range w.dirs {
			if rel, err := filepath.Rel(dir, local); err == nil && filepath.IsLocal(rel) {
				return filepath.ToSlash(rel), nil
			}
		}
		return "", refuse("%s is outside the workspace, which is %s", spelled(given), w.dirs[0])
	}
	clean := filepath.Clean(local)
	if !filepath.IsLocal(clean) {
		return "", refuse("%s is outside the workspace", spelled(given))
	}
	return filepath.ToSlash(clean), nil
}

// explain says what went wrong with a file, in the words of the workspace.
func explain(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return schemas.Errorf(schemas.CodeNotFound, "there is no %s in the workspace", spelled(name))
	case strings.Contains(err.Error(), "path escapes from parent"): // package os has no error for it to be known by
		return refuse("%s leads out of the workspace", spelled(name))
	}
	if known, ok := errors.AsType[*schemas.Error](err); ok {
		return known
	}
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		err = inner.Err
	}
	return fmt.Errorf("%s: %w", spelled(name), err)
}

// open opens a regular file to read it, and waits for no device or pipe.
func (w *workspace) open(name string) (*os.File, fs.FileInfo, error) {
	f, err := w.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, explain(name, err)
	}
	info, err := f.Stat()
	if err == nil {
		err = regular(name, info)
	}
	if err != nil {
		return nil, nil, errors.Join(explain(name, err), f.Close())
	}
	return f, info, nil
}

func regular(name string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return refuse("%s is a directory", spelled(name))
	case !info.Mode().IsRegular():
		return refuse("%s is not a regular file", spelled(name))
	}
	return nil
}

// text reads a whole text file.
func (w *workspace) text(name string) (text []byte, info fs.FileInfo, err error) {
	f, info, err := w.open(name)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err = io.ReadAll(io.LimitReader(f, maxText+1))
	switch {
	case err != nil:
		return nil, nil, explain(name, err)
	case len(text) > maxText:
		return nil, nil, refuse("%s has %d bytes; at most %d can be taken", spelled(name), info.Size(), maxText)
	case binary(text) || !utf8.Valid(text):
		return nil, nil, binaryError(name, info.Size())
	}
	return text, info, nil
}

// binary reports that what a file begins with is not text.
func binary(text []byte) bool {
	return bytes.IndexByte(text[:min(len(text), sniffed)], 0) >= 0
}

func binaryError(name string, size int64) error {
	return refuse("%s is binary, or not UTF-8 (%d bytes): the file tools take text only", spelled(name), size)
}

// target is the file that a name stands for once links are followed, for whoever puts another in its
// place. The path is not clean: what its ".." mean depends on links before them. Where it leads out of
// the workspace that is an error.
func (w *workspace) target(name string) (string, error) {
	const maxLinks = 40 // as many as Linux follows
	at := name
	for range maxLinks {
		info, err := w.root.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return at, nil
		}
		if err != nil {
			return "", explain(name, err)
		}
		to, err := w.root.Readlink(at)
		if err != nil {
			return "", explain(name, err)
		}
		if filepath.IsAbs(to) {
			return "", refuse("%s leads out of the workspace: it is a link with an absolute path", spelled(name))
		}
		dir, _ := path.Split(at)
		at = dir + filepath.ToSlash(to)
	}
	return "", refuse("%s is a link that leads nowhere", spelled(name))
}
