package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// This file is list_files, and the walk through directories and the globs that search_files uses as well.

type listArguments struct {
	Path      string `json:"path,omitzero" jsonschema:"the directory; the workspace if left out"`
	Glob      string `json:"glob,omitzero" jsonschema:"which to list, such as *.go or src/**/*.ts; all if left out"`
	Recursive bool   `json:"recursive,omitzero" jsonschema:"list what is in the directories below, too"`
}

func list(ctx context.Context, w *workspace, in listArguments, out io.Writer) (string, error) {
	listed := 0
	v := visit{glob: in.Glob, flat: !in.Recursive}
	note, err := w.walk(ctx, in.Path, v, func(name string, entry fs.DirEntry) error {
		if listed == maxListed {
			return errEnough
		}
		listed++
		_, err := fmt.Fprintln(out, spelled(name)+suffix(entry))
		return err
	})
	if err == nil && listed == 0 && note == "" {
		note = "[nothing there]"
	}
	return note, err
}

// suffix marks what is no regular file.
func suffix(entry fs.DirEntry) string {
	switch {
	case entry.IsDir():
		return "/"
	case entry.Type()&fs.ModeSymlink != 0:
		return "@"
	}
	return ""
}

// visit says what a walk is for.
type visit struct {
	glob string
	// flat walks do not go below the directory; files leaves out what is none.
	flat, files bool
}

// errEnough ends a walk that has shown all it may.
var errEnough = errors.New("enough")

// walk calls do for each entry below a directory that the glob names, in order of names, or for
// the one file that the path names. It follows no links but the path itself, and looks into no .git. The
// note says what was left out.
func (w *workspace) walk(ctx context.Context, given string, v visit, do func(name string, entry fs.DirEntry) error) (note string, err error) {
	if err := checkGlob(v.glob); err != nil {
		return "", err
	}
	start, err := w.name(given)
	if err != nil {
		return "", err
	}
	info, err := w.root.Stat(start)
	if err != nil {
		return "", explain(start, err)
	}
	if info.IsDir() {
		err = w.walkDir(ctx, start, v, do)
	} else if err = regular(start, info); err == nil && matches(v.glob, path.Base(start)) {
		err = do(start, fs.FileInfoToDirEntry(info))
	}
	if errors.Is(err, errEnough) {
		return "[there is more; narrow it down with path and glob]", nil
	}
	return "", err
}

func (w *workspace) walkDir(ctx context.Context, start string, v visit, do func(name string, entry fs.DirEntry) error) (err error) {
	dir, err := w.root.OpenRoot(start)
	if err != nil {
		return explain(start, err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	visited := 0
	return fs.WalkDir(dir.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		visited++
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && name == ".":
			return explain(start, err)
		case err != nil:
			return nil //nolint:nilerr // it went away, or may not be read: the rest is worth showing
		case visited > maxVisited:
			return errEnough
		case name == ".":
			return nil
		}
		if (!v.files || entry.Type().IsRegular()) && matches(v.glob, name) {
			if err := do(path.Join(start, name), entry); err != nil {
				return err
			}
		}
		if entry.IsDir() && (v.flat || entry.Name() == ".git") {
			return fs.SkipDir
		}
		return nil
	})
}

// checkGlob reports a pattern that matches nothing because it is none.
func checkGlob(glob string) error {
	for part := range strings.SplitSeq(glob, "/") {
		if _, err := path.Match(part, ""); err != nil {
			return refuse("glob %q is no pattern", glob)
		}
	}
	return nil
}

// matches reports that a glob names a path: by its last part if the glob has one part only, else as a
// whole. ** stands for any number of directories. An empty glob names all.
func matches(glob, name string) bool {
	if glob == "" {
		return true
	}
	if !strings.Contains(glob, "/") && glob != "**" {
		ok, err := path.Match(glob, path.Base(name))
		return err == nil && ok
	}
	return matchParts(strings.Split(glob, "/"), strings.Split(name, "/"))
}

// matchParts keeps, for each part of the glob, how much of the name can be behind it: no pattern
// makes it slow.
func matchParts(glob, name []string) bool {
	reached := make([]bool, len(name)+1)
	reached[0] = true
	for _, part := range glob {
		next := make([]bool, len(name)+1)
		for i, ok := range reached {
			switch {
			case part == "**":
				next[i] = ok || i > 0 && next[i-1]
			case ok && i < len(name):
				if hit, err := path.Match(part, name[i]); err == nil && hit {
					next[i+1] = true
				}
			}
		}
		reached = next
	}
	return reached[len(name)]
}
