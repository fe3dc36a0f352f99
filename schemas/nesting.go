package schemas

import "bytes"

// MaxNesting is how deep arrays and objects may stand in one another in JSON from outside that is kept as it
// is: a model's arguments, what its provider adds, a tool's parameters. The JSON library reads ten times as
// much, and no more; but what is kept goes on as a part of documents of our own, some levels deeper, which must
// still be readable by everybody.
const MaxNesting = 1000

// maxLineNesting bounds a line of a trace, whose members hold such JSON.
const maxLineNesting = 2 * MaxNesting

// NestedTooDeep reports that the JSON is nested deeper than [MaxNesting].
func NestedTooDeep(raw []byte) bool { return nestedDeeper(raw, MaxNesting) }

// nestedDeeper looks for an array or object that stands in that many others. The JSON need not be valid.
func nestedDeeper(raw []byte, limit int) bool {
	if bytes.Count(raw, []byte("["))+bytes.Count(raw, []byte("{")) <= limit {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++ // what is escaped ends no text
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[', c == '{':
			if depth++; depth > limit {
				return true
			}
		case c == ']', c == '}':
			depth--
		}
	}
	return false
}
