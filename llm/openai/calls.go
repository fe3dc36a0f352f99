package openai

import (
	"slices"
	"strings"

	"braid/schemas"

	"github.com/go-json-experiment/json/jsontext"
)

// call is a tool call as far as it has come.
type call struct {
	index *int // as the server says; nil if it did not
	id    string
	name  string
	args  strings.Builder
	extra jsontext.Value
}

// calls puts together the calls of one answer from fragments.
type calls struct {
	list []*call
	// touched are those that the current delta has spoken of.
	touched []*call
}

// next begins a delta.
func (c *calls) next() { c.touched = c.touched[:0] }

// add takes a fragment, and reports which call it belongs to and whether that is a new one.
func (c *calls) add(p callPart) (of *call, fresh bool) {
	id, name, args := text(p.ID), text(p.Function.Name), arguments(p.Function.Arguments)
	of = c.find(p.Index, id, name, args)
	if fresh = of == nil; fresh {
		of = &call{index: p.Index}
		c.list = append(c.list, of)
	}
	c.touched = append(c.touched, of)
	if of.id == "" {
		of.id = id
	}
	if name != of.name { // some repeat the whole name each time, some send it in pieces
		of.name += name
	}
	of.args.WriteString(args)
	if len(p.Extra) > 0 && p.Extra.Kind() != jsontext.KindNull {
		if extra, err := schemas.CompactRaw(p.Extra); err == nil {
			of.extra = extra
		}
	}
	return of, fresh
}

// find returns the call that a fragment continues, nil if it begins one.
//
// An index names a call, unless the fragment has another id than that call, or names a tool when
// its arguments are whole: some servers give every call the index 0. Without an index the id
// decides; without both the fragment continues the newest call, unless this very delta has spoken of
// that one already, or its arguments are whole and a tool is named.
func (c *calls) find(index *int, id, name, args string) *call {
	var found *call
	for _, known := range slices.Backward(c.list) {
		if index != nil && known.index != nil && *known.index == *index {
			found = known
			break
		}
		if index == nil && (id == "" || known.id == id) {
			found = known
			break
		}
	}
	switch {
	case found == nil:
		return nil
	case id != "" && found.id != "" && id != found.id:
		return nil
	case name != "" && args != "" && found.whole():
		return nil
	case index == nil && id == "" && slices.Contains(c.touched, found):
		return nil
	}
	return found
}

// whole reports that the arguments are a JSON object.
func (c *call) whole() bool {
	s := strings.TrimSpace(c.args.String())
	if !strings.HasSuffix(s, "}") { // which spares reading long arguments again with each fragment
		return false
	}
	v := jsontext.Value(s)
	return v.Kind() == jsontext.KindBeginObject && v.IsValid()
}
