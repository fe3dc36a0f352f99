package cli

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// Document is a flag that names a YAML file. In a configuration file the content of the file may
// stand in place of its name.
type Document struct {
	// Path is the file's name; empty if none was named.
	Path   string
	inline []byte // content that stood in the file Path
}

var _ pflag.Value = (*Document)(nil)

// Set implements [pflag.Value]. It names a file.
func (d *Document) Set(path string) error {
	*d = Document{Path: path}
	return nil
}

// embed takes what stands in a configuration file. Its lines are numbered as they are there.
func (d *Document) embed(file string, content []byte) { *d = Document{Path: file, inline: content} }

// String implements [pflag.Value]. Content is not shown: there may be secrets in it; but see [InForce].
func (d *Document) String() string {
	if d.inline != nil {
		return "{...}"
	}
	return d.Path
}

// shown is the content as a member of a configuration file, without its secrets. Content that can't be read
// is not shown: what reads it in earnest says why.
func (d *Document) shown(name, source string) string {
	members, err := readMembers(d.inline)
	switch {
	case err != nil:
		return fmt.Sprintf("# %s:  # %s, which can't be read\n", name, source)
	case len(members) == 0:
		return fmt.Sprintf("%s: {}  # %s\n", name, source)
	}
	return fmt.Sprintf("%s:  # %s%s\n", name, source, mappingText(byName, members, 1))
}

// Type implements [pflag.Value].
func (d *Document) Type() string { return "file" }

// Given reports that there is a document.
func (d *Document) Given() bool { return d.Path != "" }

// Read returns the document's content. Its name in errors is Path.
func (d *Document) Read() ([]byte, error) {
	if d.inline != nil {
		return d.inline, nil
	}
	data, err := os.ReadFile(d.Path)
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	return data, nil
}
