package scripted

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"braid/schemas"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// A ParseError is one thing wrong with a script.
type ParseError struct {
	// File is the script's name.
	File string
	// Line is where, from 1.
	Line int
	// Message says what.
	Message string
}

// Error renders the error as "file:line: message".
func (e *ParseError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message) }

// reader reads values from YAML nodes. It goes on after an error, so that one run tells all that
// is wrong; a value that can't be read is its type's zero value.
type reader struct {
	file string
	errs []error
}

func (r *reader) errorf(line int, format string, args ...any) {
	r.errs = append(r.errs, &ParseError{File: r.file, Line: line, Message: fmt.Sprintf(format, args...)})
}

// document returns the one document of a file, nil after an error.
func (r *reader) document(data []byte) ast.Node {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		line, message := 1, err.Error()
		if at, ok := errors.AsType[yaml.Error](err); ok {
			message = at.GetMessage()
			if tk := at.GetToken(); tk != nil {
				line = tk.Position.Line
			}
		}
		r.errorf(line, "%s", message)
		return nil
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		r.errorf(1, "the script is empty")
		return nil
	}
	if len(file.Docs) > 1 {
		r.errorf(lineOf(file.Docs[1]), "a script is one document, this is a second")
	}
	return file.Docs[0].Body
}

// lineOf is the line a node begins at.
func lineOf(n ast.Node) int {
	if n == nil || n.GetToken() == nil {
		return 1
	}
	switch m := n.(type) { // the token of a mapping is a colon, which may be lines away
	case *ast.MappingNode:
		if len(m.Values) > 0 {
			n = m.Values[0].Key
		}
	case *ast.MappingValueNode:
		n = m.Key
	}
	return n.GetToken().Position.Line
}

// fields says what to do with each key of a mapping.
type fields map[string]func(ast.Node)

// mapping reads a mapping, what being its name in messages. Unknown keys are errors.
func (r *reader) mapping(n ast.Node, what string, known fields) {
	for _, v := range r.entries(n, what) {
		key := keyOf(v)
		if read, ok := known[key]; ok {
			read(v.Value)
			continue
		}
		names := slices.Sorted(maps.Keys(known))
		r.errorf(lineOf(v.Key), "a %s has no %q; it may have %s", what, key, strings.Join(names, ", "))
	}
}

func (r *reader) entries(n ast.Node, what string) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	r.errorf(lineOf(n), "a %s is a mapping, this is %s", what, describeNode(n))
	return nil
}

// list reads a list of at least one.
func (r *reader) list(n ast.Node, what string, item func(ast.Node)) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok || len(seq.Values) == 0 {
		r.errorf(lineOf(n), "%s is a list of at least one, this is %s", what, describeNode(n))
		return
	}
	for _, v := range seq.Values {
		item(v)
	}
}

// text reads any scalar as the text that stands in the file: 42 and true are texts as well.
func (r *reader) text(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return schemas.ValidText(n.Value)
	case *ast.LiteralNode:
		return schemas.ValidText(n.Value.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value
	}
	r.errorf(lineOf(n), "this must be a text, it is %s", describeNode(n))
	return ""
}

// texts reads a text or a list of texts.
func (r *reader) texts(n ast.Node) []string {
	if _, ok := n.(*ast.SequenceNode); !ok {
		return []string{r.text(n)}
	}
	var out []string
	r.list(n, "this", func(n ast.Node) { out = append(out, r.text(n)) })
	return out
}

// oneOf reads a text that must be among those listed.
func (r *reader) oneOf(n ast.Node, allowed ...string) string {
	s := r.text(n)
	if !slices.Contains(allowed, s) {
		r.errorf(lineOf(n), "%q must be one of %s", s, strings.Join(allowed, ", "))
	}
	return s
}

// number reads a whole number from least on.
func (r *reader) number(n ast.Node, least int64) int64 {
	i, ok := n.(*ast.IntegerNode)
	if !ok {
		r.errorf(lineOf(n), "this must be a whole number, it is %s", describeNode(n))
		return least
	}
	v, err := strconv.ParseInt(fmt.Sprint(i.Value), 10, 64)
	if err != nil || v < least || v > 1<<53 {
		r.errorf(lineOf(n), "%s is out of range: a number from %d on", i.GetToken().Value, least)
		return least
	}
	return v
}

func (r *reader) boolean(n ast.Node) bool {
	b, ok := n.(*ast.BoolNode)
	if !ok {
		r.errorf(lineOf(n), "this must be true or false, it is %s", describeNode(n))
		return false
	}
	return b.Value
}

func (r *reader) duration(n ast.Node) time.Duration {
	s := r.text(n)
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		r.errorf(lineOf(n), "%q is not a duration such as 50ms or 2s", s)
		return 0
	}
	return d
}

// object reads a mapping as JSON, its keys in the order of the file.
func (r *reader) object(n ast.Node) jsontext.Value {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return r.appendJSON(nil, n)
	}
	r.errorf(lineOf(n), "this must be a mapping, it is %s", describeNode(n))
	return nil
}

func (r *reader) appendJSON(out []byte, n ast.Node) []byte {
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		out = append(out, '{')
		for i, v := range r.entries(n, "mapping") {
			if i > 0 {
				out = append(out, ',')
			}
			out = r.appendScalar(out, n, keyOf(v))
			out = append(out, ':')
			out = r.appendJSON(out, v.Value)
		}
		return append(out, '}')
	case *ast.SequenceNode:
		out = append(out, '[')
		for i, v := range n.Values {
			if i > 0 {
				out = append(out, ',')
			}
			out = r.appendJSON(out, v)
		}
		return append(out, ']')
	case *ast.NullNode:
		return append(out, "null"...)
	case *ast.BoolNode:
		return r.appendScalar(out, n, n.Value)
	case *ast.IntegerNode:
		return r.appendScalar(out, n, n.Value)
	case *ast.FloatNode:
		return r.appendScalar(out, n, n.Value)
	}
	return r.appendScalar(out, n, r.text(n))
}

func (r *reader) appendScalar(out []byte, n ast.Node, v any) []byte {
	out, err := schemas.AppendJSON(out, v)
	if err != nil {
		r.errorf(lineOf(n), "this has no form in JSON: %v", err)
		return append(out, "null"...)
	}
	return out
}

// keyOf is the text of a key.
func keyOf(v *ast.MappingValueNode) string {
	if s, ok := v.Key.(*ast.StringNode); ok {
		return s.Value
	}
	return v.Key.GetToken().Value
}

// describeNode says what a node is, for messages.
func describeNode(n ast.Node) string {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		if len(n.Values) == 0 {
			return "an empty list"
		}
		return "a list"
	case *ast.AnchorNode, *ast.AliasNode:
		return "an anchor or alias, which scripts don't support"
	case *ast.TagNode:
		return "a tag, which scripts don't support"
	}
	return fmt.Sprintf("%q", n.GetToken().Value)
}
