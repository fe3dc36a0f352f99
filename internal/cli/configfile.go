package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/pflag"
)

// maxConfig bounds a configuration file, in bytes.
const maxConfig = 4 << 20

// entry is a key of a configuration file and what it says.
type entry struct {
	key  string
	line int
	// values are the scalars, one unless list is set.
	values []string
	list   bool
	// document is the text of a mapping, on the lines where it stands in the file.
	document []byte
}

// configFile is a configuration file: what it says to all, and to each section.
type configFile struct {
	name     string
	lines    [][]byte
	top      []entry
	sections map[string][]entry
}

// readConfig reads a configuration file and refuses what no command could take from it.
func readConfig(name string, section string, flags *pflag.FlagSet) (*configFile, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return parseConfig(name, data, section, flags)
}

// parseConfig is readConfig of the content. flags, unless they are nil, are all that the section knows.
func parseConfig(name string, data []byte, section string, flags *pflag.FlagSet) (*configFile, error) {
	c, root, err := parseYAML(name, "a configuration", data)
	if err != nil || root == nil {
		return c, err
	}
	known := services()
	if flags != nil {
		known[section] = flags
	}
	return c, c.read(root, known)
}

// parseYAML reads a file of what it is said to hold; its root is nil if there is nothing in it.
func parseYAML(name, what string, data []byte) (c *configFile, root ast.Node, err error) {
	defer func() {
		// The YAML parser is not ours: should a file make it panic, the file is at fault.
		if p := recover(); p != nil {
			c, root, err = nil, nil, fmt.Errorf("%s: this can't be read as YAML", name)
		}
	}()
	if len(data) > maxConfig {
		return nil, nil, fmt.Errorf("%s has %d bytes, the limit is %d", name, len(data), maxConfig)
	}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, nil, yamlError(name, "this is not the YAML of "+what, err)
	}
	c = &configFile{name: name, lines: bytes.Split(data, []byte("\n")), sections: map[string][]entry{}}
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil {
		return c, nil, nil
	}
	if len(tree.Docs) > 1 {
		return nil, nil, fmt.Errorf("%s: it must be one YAML document, not %d", name, len(tree.Docs))
	}
	return c, tree.Docs[0].Body, nil
}

// read takes the keys of the file.
func (c *configFile) read(root ast.Node, known map[string]*pflag.FlagSet) error {
	keys, err := c.keys("the file", root, len(c.lines)+1)
	if err != nil {
		return err
	}
	names := topNames(known)
	for _, k := range keys {
		switch {
		case k.name == SectionRun || known[k.name] != nil:
			if err := c.readSection(k, known[k.name]); err != nil {
				return err
			}
		case !slices.Contains(names, k.name):
			return c.unknown(k, names)
		default:
			e, err := c.entry(k)
			if err != nil {
				return err
			}
			c.top = append(c.top, e)
		}
	}
	return nil
}

// readSection takes the keys of a section; a nil set of flags takes any.
func (c *configFile) readSection(k key, flags *pflag.FlagSet) error {
	if _, none := k.value.(*ast.NullNode); none {
		return nil
	}
	keys, err := c.keys(k.name, k.value, k.end)
	if err != nil {
		return err
	}
	for _, inner := range keys {
		if flags != nil && !configurable(flags.Lookup(inner.name)) {
			return c.unknown(inner, flagNames(flags))
		}
		e, err := c.entry(inner)
		if err != nil {
			return err
		}
		c.sections[k.name] = append(c.sections[k.name], e)
	}
	return nil
}

// key is a key of a mapping: its lines are from line up to, and without, end.
type key struct {
	name              string
	line, column, end int
	value             ast.Node
}

// keys lists the keys of a mapping that ends before a line.
func (c *configFile) keys(what string, node ast.Node, end int) ([]key, error) {
	line := node.GetToken().Position.Line
	mapping, ok := node.(*ast.MappingNode)
	if !ok || mapping.IsFlowStyle {
		return nil, fmt.Errorf("%s:%d: %s must be a mapping, with a line for each key", c.name, line, what)
	}
	var out []key
	for _, v := range mapping.Values {
		token := v.Key.GetToken()
		if _, plain := v.Key.(*ast.StringNode); !plain {
			return nil, fmt.Errorf("%s:%d: a key must be a plain name", c.name, token.Position.Line)
		}
		if n := len(out); n > 0 {
			out[n-1].end = token.Position.Line
		}
		out = append(out, key{name: token.Value, line: token.Position.Line, column: token.Position.Column, end: end, value: v.Value})
	}
	return out, nil
}

// entry reads the value of a key.
func (c *configFile) entry(k key) (entry, error) {
	e := entry{key: k.name, line: k.line}
	var elements []ast.Node
	switch v := k.value.(type) {
	case *ast.MappingNode:
		e.document = c.cut(k)
		return e, nil
	case *ast.SequenceNode:
		e.list, elements = true, v.Values
	default:
		elements = []ast.Node{v}
	}
	for _, element := range elements {
		text, ok := scalar(element)
		if !ok {
			return e, fmt.Errorf("%s:%d: %s has no value that can be read: plain text, a number, or a list of these", c.name, k.line, k.name)
		}
		e.values = append(e.values, text)
	}
	return e, nil
}

// scalar is the text of a value as it is written, so that no number is rounded.
func scalar(node ast.Node) (string, bool) {
	switch v := node.(type) {
	case *ast.LiteralNode:
		return v.Value.Value, true
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return v.GetToken().Value, true
	}
	return "", false
}

// cut returns the file with nothing left but the value of a key, in its place.
func (c *configFile) cut(k key) []byte {
	out := bytes.Repeat([]byte("\n"), k.line-1)
	first := c.lines[k.line-1]
	colon := k.column + bytes.IndexByte(first[min(k.column, len(first)):], ':')
	out = append(out, bytes.Repeat([]byte(" "), colon+1)...)
	out = append(out, first[min(colon+1, len(first)):]...)
	for _, line := range c.lines[k.line : k.end-1] {
		out = append(append(out, '\n'), line...)
	}
	return append(out, '\n')
}

// unknown says that a key means nothing, and which was probably meant.
func (c *configFile) unknown(k key, names []string) error {
	hint := ""
	if near := nearest(k.name, names); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	return fmt.Errorf("%s:%d: unknown key %q%s", c.name, k.line, k.name, hint)
}

// yamlError is what the YAML parser has to say, in one line; otherwise is said of what is none of its
// errors, which may show content.
func yamlError(file, otherwise string, err error) error {
	line, message := 1, otherwise
	if at, ok := errors.AsType[yaml.Error](err); ok {
		message = at.GetMessage()
		if tk := at.GetToken(); tk != nil {
			line = tk.Position.Line
		}
	}
	return fmt.Errorf("%s:%d: %s", file, line, message)
}

// topNames are the keys that may stand at the top of a file, beside flags of one section only.
func topNames(known map[string]*pflag.FlagSet) []string {
	names := []string{SectionRun}
	for section, flags := range known {
		names = append(names, section)
		if section != SectionRun {
			names = append(names, flagNames(flags)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// flagNames are the keys that a set of flags knows.
func flagNames(flags *pflag.FlagSet) []string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if configurable(f) {
			names = append(names, f.Name)
		}
	})
	return names
}

// nearest is the name that is least changes of a letter away; empty if that takes more than a third
// of the letters.
func nearest(word string, names []string) string {
	word = strings.ReplaceAll(strings.ToLower(word), "_", "-")
	best, least := "", len(word)/3+2
	for _, name := range names {
		if d := distance(word, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance is how many letters have to be put in, taken out or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // of the letters of a so far, to each beginning of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
