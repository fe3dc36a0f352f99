package openai

import (
	"maps"
	"slices"
	"strings"

	"braid/schemas"

	"github.com/go-json-experiment/json/jsontext"
)

// details are the reasoning_details of an answer, put together from the fragments they come in:
// those of one type and index are one block, whose signature is for all of its text. Anything else
// in them is kept as it is.
type details struct{ blocks []*block }

type block struct {
	kind, index string // index is empty if it has none: then nothing continues it
	members     map[string]jsontext.Value
	raw         jsontext.Value // as it came, while it is one fragment or not an object
}

// add takes a fragment, and returns the words in it.
func (d *details) add(v jsontext.Value) string {
	raw, err := schemas.CompactRaw(v)
	if err != nil {
		return ""
	}
	b := &block{raw: raw}
	if schemas.DecodeJSON(raw, &b.members) != nil {
		d.blocks = append(d.blocks, b)
		return ""
	}
	b.kind, b.index = text(b.members["type"]), string(b.members["index"])
	words := text(b.members["text"]) + text(b.members["summary"])
	for _, known := range d.blocks {
		if b.index != "" && known.index == b.index && known.kind == b.kind {
			known.join(b)
			return words
		}
	}
	d.blocks = append(d.blocks, b)
	return words
}

// join adds a later fragment: its words go behind, of other members the latest counts.
func (b *block) join(later *block) {
	b.raw = nil
	for name, v := range later.members {
		old, both := b.members[name]
		switch {
		case v.Kind() == jsontext.KindNull && both:
		case both && (name == "text" || name == "summary") && old.Kind() == jsontext.KindString:
			b.members[name] = joined(old, v)
		default:
			b.members[name] = v
		}
	}
}

// joined joins two JSON strings without reading them, so that nothing in them changes.
func joined(a, b jsontext.Value) jsontext.Value {
	if b.Kind() != jsontext.KindString {
		return a
	}
	return slices.Concat(a[:len(a)-1], b[1:])
}

// values are the blocks as they go back.
func (d *details) values() []jsontext.Value {
	var out []jsontext.Value
	for _, b := range d.blocks {
		if b.raw != nil {
			out = append(out, b.raw)
			continue
		}
		var s strings.Builder
		for i, name := range slices.Sorted(maps.Keys(b.members)) {
			if i > 0 {
				s.WriteByte(',')
			}
			key, _ := schemas.EncodeJSON(name) // a string
			s.Write(key)
			s.WriteByte(':')
			s.Write(b.members[name])
		}
		out = append(out, jsontext.Value("{"+s.String()+"}"))
	}
	return out
}
