package files

import (
	"context"
	"errors"
	"fmt"
	"io"

	"braid/schemas"
	"braid/toolrunner"
)

// Options set up the tools. The zero value of a field means its default.
type Options struct {
	// Dir is the workspace of sessions that have none, and what a relative workspace is relative
	// to; the toolrunner's working directory.
	Dir string
}

// The names of the tools.
const (
	ReadName   = "read_file"
	WriteName  = "write_file"
	EditName   = "edit_file"
	ListName   = "list_files"
	SearchName = "search_files"
)

// The bounds of the tools, in bytes unless they say otherwise.
const (
	// maxRead bounds what read_file shows; it leaves room for a line about the rest in the output
	// cap that tools have by default.
	maxRead = 30 << 10
	// maxLine bounds a line that search_files shows.
	maxLine = 400
	// maxText bounds a file that is written, edited or searched.
	maxText = 8 << 20
	// maxListed is how many entries list_files shows.
	maxListed = 1000
	// maxMatches is how many lines search_files shows.
	maxMatches = 200
	// maxVisited is how many entries of directories list_files and search_files look at.
	maxVisited = 200_000
	// sniffed is how much of a file is looked at to tell whether it is text.
	sniffed = 8 << 10
)

// quoting is what the tools that show names say of those that need quotes.
const quoting = `A name with odd characters is in quotes, with escapes ("a\nb"): give it back so, to any of these tools.`

// Tools are all of the tools: read_file, write_file, edit_file, list_files and search_files.
func Tools(o Options) []toolrunner.Tool {
	return []toolrunner.Tool{
		tool(o, ReadName, fmt.Sprintf("Reads a text file of the workspace. Shows whole lines, up to %d bytes at once, and says "+
			"where to go on; start_line and lines choose others.", maxRead), read, toolrunner.ReadOnly, toolrunner.RetrySafe),
		tool(o, WriteName, fmt.Sprintf("Writes a text file of the workspace, new or in place of what is there, at most %d MiB. "+
			"Missing directories are made.", maxText>>20), write),
		tool(o, EditName, "Replaces text in a file of the workspace. old_text must occur in it exactly as given, blanks and line "+
			"ends included, and only once unless all is set.", edit),
		tool(o, ListName, fmt.Sprintf("Lists files and directories of the workspace, at most %d, one a line. Directories end in /, links in @, and "+
			".git is left out below the first level. "+quoting, maxListed), list, toolrunner.ReadOnly, toolrunner.RetrySafe),
		tool(o, SearchName, fmt.Sprintf("Searches the text files of the workspace for a regular expression (RE2), line by line. "+
			"Shows path:line:text, at most %d matches. Binary files and .git are skipped. "+quoting, maxMatches),
			search, toolrunner.ReadOnly, toolrunner.RetrySafe),
	}
}

// tool makes a tool of a function that gets the workspace of the session that calls.
func tool[In any](o Options, name, description string, run func(ctx context.Context, w *workspace, in In, out io.Writer) (string, error), options ...toolrunner.Option) toolrunner.Tool {
	return toolrunner.Func(name, description, func(ctx context.Context, in In, out io.Writer) (_ string, err error) {
		call, _ := toolrunner.CallOf(ctx)
		w, err := openWorkspace(o.Dir, call.Workspace)
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, w.root.Close()) }()
		return run(ctx, w, in, out)
	}, append(options, toolrunner.InWorkspace)...)
}

// refuse is an error that the model reads.
func refuse(format string, args ...any) error {
	return schemas.Errorf(schemas.CodeInvalid, format, args...)
}
