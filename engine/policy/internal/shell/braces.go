package shell

import (
	"slices"
	"strconv"

	"mvdan.cc/sh/v3/syntax"
)

// braces expands {a,b} and {1..3} in a word; false if that makes too many.
func (v variables) braces(w *syntax.Word) ([]*syntax.Word, bool) {
	if !v.bash {
		return []*syntax.Word{w}, true
	}
	split := &syntax.Word{Parts: append([]syntax.WordPart(nil), w.Parts...)}
	if !syntax.SplitBraces(split) {
		return []*syntax.Word{w}, true
	}
	words, ok := expandBraces(split)
	return words, ok && !slices.ContainsFunc(words, renames)
}

// renames reports that braces have put text behind a variable's name: $x{a,b} is $xa $xb.
func renames(w *syntax.Word) bool {
	for i := 1; i < len(w.Parts); i++ {
		p, ok := w.Parts[i-1].(*syntax.ParamExp)
		lit, follows := w.Parts[i].(*syntax.Lit)
		if ok && p.Short && follows && lit.Value != "" && (lit.Value[0] == '\\' || syntax.ValidName("_"+lit.Value[:1])) {
			return true
		}
	}
	return false
}

func expandBraces(w *syntax.Word) ([]*syntax.Word, bool) {
	all := []*syntax.Word{{}}
	for _, part := range w.Parts {
		choices := []*syntax.Word{{Parts: []syntax.WordPart{part}}}
		if b, ok := part.(*syntax.BraceExp); ok {
			if choices, ok = elements(b); !ok {
				return nil, false
			}
		}
		if len(all)*len(choices) > maxBraces {
			return nil, false
		}
		var next []*syntax.Word
		for _, head := range all {
			for _, tail := range choices {
				parts := append(append([]syntax.WordPart(nil), head.Parts...), tail.Parts...)
				next = append(next, &syntax.Word{Parts: parts})
			}
		}
		all = next
	}
	return all, true
}

// elements are what a brace expression stands for.
func elements(b *syntax.BraceExp) (words []*syntax.Word, ok bool) {
	if b.Sequence {
		return sequence(b)
	}
	for _, e := range b.Elems {
		inner, ok := expandBraces(e)
		if !ok || len(words)+len(inner) > maxBraces {
			return nil, false
		}
		words = append(words, inner...)
	}
	return words, true
}

// sequence counts from the first to the last element; a step counts as one too large to follow.
func sequence(b *syntax.BraceExp) (words []*syntax.Word, ok bool) {
	if len(b.Elems) != 2 {
		return nil, false
	}
	first, last := b.Elems[0].Lit(), b.Elems[1].Lit()
	from, err := strconv.Atoi(first)
	letters := err != nil
	to, _ := strconv.Atoi(last)
	if letters {
		from, to = int(first[0]), int(last[0])
	}
	step := 1
	if to < from {
		step = -1
	}
	if (to-from)*step >= maxBraces || (to-from)*step < 0 || !letters && (padded(first) || padded(last)) {
		return nil, false
	}
	for i := from; ; i += step {
		text := strconv.Itoa(i)
		if letters {
			text = `\` + string(rune(i)) // letters only, but some between Z and a are not
		}
		words = append(words, &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{Value: text}}})
		if i == to {
			return words, true
		}
	}
}

// padded reports that a number has leading zeros, which its sequence keeps.
func padded(number string) bool {
	if number != "" && (number[0] == '-' || number[0] == '+') {
		number = number[1:]
	}
	return len(number) > 1 && number[0] == '0'
}
