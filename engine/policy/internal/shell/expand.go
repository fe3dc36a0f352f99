package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxBraces bounds the words that braces make of one.
const maxBraces = 64

// words is what a command gets of the words that stand in the script.
func (v variables) words(source []*syntax.Word) (words []Word) {
	for _, w := range source {
		braced, ok := v.braces(w)
		if !ok || len(words) > maxWords {
			words = append(words, anything())
			continue
		}
		for _, w := range braced {
			f := fields{v: v}
			f.word(w)
			words = append(words, f.out...)
		}
	}
	return words
}

// quoted is the word as it would be between double quotes: not split, no pattern.
func (v variables) quoted(w *syntax.Word) Word {
	f := fields{v: v, whole: true}
	f.word(w)
	if len(f.out) == 0 {
		return Word{}
	}
	return f.out[0]
}

// document is the text of a here-document.
func (v variables) document(redirect *syntax.Redirect) Word {
	if redirect.Hdoc == nil {
		return Word{}
	}
	f := fields{v: v, whole: true}
	expands := redirect.Word.Lit() != "" && !strings.Contains(redirect.Word.Lit(), `\`)
	for _, part := range redirect.Hdoc.Parts {
		if lit, ok := part.(*syntax.Lit); ok {
			text := lit.Value
			if expands {
				text = unescape(text, "$`\\")
			}
			f.add(text)
			continue
		}
		f.part(part, true)
	}
	f.end()
	w := Word{}
	if len(f.out) > 0 {
		w = f.out[0]
	}
	if redirect.Op == syntax.DashHdoc {
		w = w.withoutTabs()
	}
	return w
}

// withoutTabs drops the tabs that begin lines.
func (w Word) withoutTabs() Word {
	out := Word{Spread: w.Spread}
	begins := true
	for _, r := range w.Runes {
		if begins && r == '\t' {
			continue
		}
		begins = r == '\n'
		out.Runes = append(out.Runes, r)
	}
	return out
}

// opaque reports that the word is not a literal.
func (v variables) opaque(w *syntax.Word) bool {
	_, ok := v.quoted(w).Literal()
	return !ok
}

// fields builds the words that one word of the script becomes.
type fields struct {
	v     variables
	whole bool // it is not split, and patterns mean nothing
	out   []Word
	now   Word
	begun bool // now is a word, if only an empty one
}

// word takes a word without braces.
func (f *fields) word(w *syntax.Word) {
	for i, part := range w.Parts {
		if lit, ok := part.(*syntax.Lit); ok && i == 0 && !f.whole && strings.HasPrefix(lit.Value, "~") {
			f.now.Tilde = true
		}
		f.part(part, f.whole)
	}
	f.end()
}

// end closes the word that is being built.
func (f *fields) end() {
	if f.begun || f.whole {
		f.out = append(f.out, f.now)
	}
	f.now, f.begun = Word{}, false
}

func (f *fields) add(text string) {
	f.begun = true
	f.now.Runes = append(f.now.Runes, []rune(text)...)
}

func (f *fields) hole() {
	f.begun = true
	f.now.Runes = append(f.now.Runes, anyText)
}

// splice takes what may become any number of words.
func (f *fields) splice() {
	f.hole()
	if !f.whole {
		f.now.Spread = Any
	}
}

func (f *fields) part(part syntax.WordPart, quoted bool) {
	switch p := part.(type) {
	case *syntax.Lit:
		f.literal(p.Value)
	case *syntax.SglQuoted:
		f.singleQuoted(p)
	case *syntax.DblQuoted:
		f.begun = f.begun || !isArray(p)
		for _, inner := range p.Parts {
			if lit, ok := inner.(*syntax.Lit); ok {
				f.add(unescape(lit.Value, "$`\"\\"))
				continue
			}
			f.part(inner, true)
		}
	case *syntax.ParamExp:
		f.parameter(p, quoted)
	case *syntax.CmdSubst:
		if quoted {
			f.hole()
		} else {
			f.splice()
		}
	case *syntax.ExtGlob:
		f.hole()
		f.now.Spread = max(f.now.Spread, Some)
	default: // arithmetic, process substitution: one word, whatever it is
		f.hole()
	}
}

// isArray reports that quotes hold nothing but an expansion that is any number of words.
func isArray(q *syntax.DblQuoted) bool {
	if len(q.Parts) != 1 {
		return false
	}
	p, ok := q.Parts[0].(*syntax.ParamExp)
	return ok && spreads(p)
}

func (f *fields) singleQuoted(p *syntax.SglQuoted) {
	if !p.Dollar {
		f.add(p.Value)
		return
	}
	text, ok := ansiQuoted(p.Value)
	f.add(text)
	if !ok {
		f.hole()
	}
}

// parameter takes $x: its value where that is known.
func (f *fields) parameter(p *syntax.ParamExp, quoted bool) {
	known, ok := f.v.value(p)
	switch {
	case !ok && (!quoted || spreads(p)):
		f.splice()
	case !ok:
		f.hole()
	case quoted:
		f.add(known)
	default:
		f.split(known)
	}
}

// value is what a plain expansion of a variable comes to, if that is known.
func (v variables) value(p *syntax.ParamExp) (string, bool) {
	plain := p.Param != nil && !p.Excl && !p.Length && !p.Width && p.Index == nil && p.Slice == nil &&
		p.Repl == nil && p.Names == 0 && p.Exp == nil && p.NestedParam == nil && !p.IsSet && p.Flags == nil
	if !plain {
		return "", false
	}
	known, ok := v.values[p.Param.Value]
	return known.value, ok && known.from <= p.Pos().Offset()
}

// spreads reports that the expansion is any number of words even between quotes.
func spreads(p *syntax.ParamExp) bool {
	if p.Param != nil && p.Param.Value == "@" || p.Names == syntax.NamesPrefixWords {
		return true
	}
	return p.Index != nil || p.Excl || p.Exp != nil && brings(p.Exp)
}

// brings reports that an expansion may put an array in the variable's place.
func brings(e *syntax.Expansion) bool {
	switch e.Op {
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull,
		syntax.AssignUnset, syntax.AssignUnsetOrNull:
		return e.Word != nil && e.Word.Lit() == ""
	default:
		return false
	}
}

// split takes a value that stands unquoted: its blanks end words, and its patterns count.
func (f *fields) split(text string) {
	for i, field := range strings.FieldsFunc(" "+text+" ", isBlank) {
		if i > 0 || text != "" && isBlank(rune(text[0])) {
			f.endIfBegun()
		}
		f.literalGlob(field, false)
	}
	if text != "" && isBlank(rune(text[len(text)-1])) {
		f.endIfBegun()
	}
}

func (f *fields) endIfBegun() {
	if f.begun {
		f.end()
	}
}

func isBlank(r rune) bool { return r == ' ' || r == '\t' || r == '\n' }

// literal takes unquoted text of the script.
func (f *fields) literal(text string) { f.literalGlob(text, true) }

// literalGlob takes unquoted text: patterns of file names are holes. escapes says that a backslash
// takes the next character as it is.
func (f *fields) literalGlob(text string, escapes bool) {
	f.begun = true
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		switch {
		case r == '\\' && escapes:
			if i++; i == len(runes) {
				f.now.Runes = append(f.now.Runes, r)
			} else if runes[i] != '\n' {
				f.now.Runes = append(f.now.Runes, runes[i])
			}
			continue
		case f.whole:
		case r == '*', r == '[' && strings.ContainsRune(string(runes[i+1:]), ']'):
			r = anyText
		case r == '?':
			r = anyRune
		}
		if r < 0 {
			f.now.Spread = max(f.now.Spread, Some)
		}
		f.now.Runes = append(f.now.Runes, r)
	}
}

// unescape takes the backslashes away that quote one of the given characters, or the end of a line.
func unescape(text, escaped string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			if text[i+1] == '\n' {
				i++
				continue
			}
			if strings.IndexByte(escaped, text[i+1]) >= 0 {
				i++
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
