package shell

import (
	"slices"
	"strings"
)

// Word is one argument of a command, as far as it is known.
type Word struct {
	// Runes is the text, with anyText and anyRune where it is not known.
	Runes []rune
	// Spread says how many words it may turn out to be.
	Spread Spread
	// Tilde is set if it begins with a tilde that the shell replaces by a directory.
	Tilde bool
}

// What stands in a word in place of what is not known.
const (
	anyText rune = -1 - iota // any text, or none
	anyRune                  // any one character
)

// Spread is how many words a word may turn out to be.
type Spread int

// The spreads.
const (
	// One word, like this.
	One Spread = iota
	// Some are one or more, each like this: a pattern of file names.
	Some
	// Any are any number of any words, or none.
	Any
)

// anything is what an unquoted expansion may come to.
func anything() Word { return Word{Runes: []rune{anyText}, Spread: Any} }

// literalWord is a word that is known.
func literalWord(text string) Word { return Word{Runes: []rune(text)} }

func literalWords(texts []string) (words []Word) {
	for _, text := range texts {
		words = append(words, literalWord(text))
	}
	return words
}

// Literal is the word's text, if it is known.
func (w Word) Literal() (string, bool) {
	if w.Spread != One || w.Tilde || slices.ContainsFunc(w.Runes, hole) {
		return "", false
	}
	return string(w.Runes), true
}

// is reports that the word is known to be this text.
func (w Word) is(text string) bool {
	literal, ok := w.Literal()
	return ok && literal == text
}

func hole(r rune) bool { return r < 0 }

// known is the part of the word before its first hole.
func (w Word) known() string {
	if i := slices.IndexFunc(w.Runes, hole); i >= 0 {
		return string(w.Runes[:i])
	}
	return string(w.Runes)
}

// base is the last element of the word as a path. Where a hole may hold a slash, it may begin
// there.
func (w Word) base() Word {
	runes := w.Runes
	for i, r := range slices.Backward(runes) {
		if r == '/' {
			return Word{Runes: runes[i+1:]}
		}
		if r == anyText {
			return Word{Runes: runes[i:]}
		}
	}
	return Word{Runes: runes, Tilde: w.Tilde}
}

// replaced is the word with any text wherever it holds the given one.
func (w Word) replaced(text string) Word {
	pieces := strings.Split(string(w.marked()), text)
	if len(pieces) == 1 || text == "" {
		return w
	}
	out := Word{Spread: w.Spread, Tilde: w.Tilde}
	for i, piece := range pieces {
		if i > 0 {
			out.Runes = append(out.Runes, anyText)
		}
		for _, r := range piece {
			if r == holeMark {
				r = anyText
			}
			out.Runes = append(out.Runes, r)
		}
	}
	return out
}

// holeMark stands for a hole in what is handled as a string. No text holds it.
const holeMark = '\U0010FFFF'

func (w Word) marked() []rune {
	runes := slices.Clone(w.Runes)
	for i, r := range runes {
		if hole(r) {
			runes[i] = holeMark
		}
	}
	return runes
}
