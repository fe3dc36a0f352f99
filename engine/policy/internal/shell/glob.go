package shell

import (
	"errors"
	"path"
	"slices"
	"strings"
)

// Glob is a pattern of texts: * stands for any text (slashes and blanks as well), ? for any one
// character, [a-z] and [!a-z] for one of a class, and a backslash takes the next character as it is.
type Glob struct {
	source   string
	elements []element
}

// element is one position of a glob.
type element struct {
	star  bool
	any   bool // any one character
	r     rune
	class []span // if not nil, one of these, or none of them
	not   bool
}

type span struct{ low, high rune }

// ParseGlob reads a pattern.
func ParseGlob(source string) (Glob, error) {
	g := Glob{source: source}
	runes := []rune(source)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; r {
		case '*':
			if n := len(g.elements); n == 0 || !g.elements[n-1].star {
				g.elements = append(g.elements, element{star: true})
			}
		case '?':
			g.elements = append(g.elements, element{any: true})
		case '\\':
			i++
			if i == len(runes) {
				return g, errors.New("it ends in a backslash that takes nothing")
			}
			g.elements = append(g.elements, element{r: runes[i]})
		case '[':
			class, next, err := parseClass(runes, i+1)
			if err != nil {
				return g, err
			}
			g.elements = append(g.elements, class)
			i = next
		default:
			g.elements = append(g.elements, element{r: r})
		}
	}
	return g, nil
}

// parseClass reads a class behind its bracket, and returns where it ends.
func parseClass(runes []rune, i int) (e element, end int, err error) {
	e.class = []span{}
	if i < len(runes) && (runes[i] == '!' || runes[i] == '^') {
		e.not = true
		i++
	}
	for first := true; i < len(runes); first = false {
		if runes[i] == ']' && !first {
			return e, i, nil
		}
		low := runes[i]
		high := low
		if i+2 < len(runes) && runes[i+1] == '-' && runes[i+2] != ']' {
			high = runes[i+2]
			i += 2
		}
		if high < low {
			return e, i, errors.New("a range in its class ends before it begins")
		}
		e.class = append(e.class, span{low, high})
		i++
	}
	return e, i, errors.New("its class is not closed by ]")
}

// takes reports that the element can be this character.
func (e element) takes(r rune) bool {
	switch {
	case e.star || e.any:
		return true
	case e.class != nil:
		in := slices.ContainsFunc(e.class, func(s span) bool { return s.low <= r && r <= s.high })
		return in != e.not
	}
	return e.r == r
}

// String is the pattern as it was written.
func (g Glob) String() string { return g.source }

// literal is the only text that the pattern matches, if there is only one.
func (g Glob) literal() (string, bool) {
	var b strings.Builder
	for _, e := range g.elements {
		if e.star || e.any || e.class != nil {
			return "", false
		}
		b.WriteRune(e.r)
	}
	return b.String(), true
}

// MatchText reports that the pattern matches a text. A pattern that holds a slash is also held to
// the text as a path without detours: /etc/* matches /etc/../etc/passwd.
func (g Glob) MatchText(text string) bool { return g.Match(literalWord(text)) == Yes }

// Match reports whether the pattern matches a word.
func (g Glob) Match(w Word) Truth {
	if w.Spread == Any {
		return Maybe
	}
	runes := w.Runes
	if w.Tilde && !strings.HasPrefix(g.source, "~") {
		runes = afterTilde(runes)
	}
	found := g.match(runes)
	if found != Yes && strings.Contains(g.source, "/") && !slices.ContainsFunc(runes, hole) {
		found = max(found, g.match([]rune(path.Clean(string(runes)))))
	}
	if w.Spread == Some {
		found = min(found, Maybe) // no file may be like this
	}
	return found
}

// afterTilde is the word with its directory, which is not known.
func afterTilde(runes []rune) []rune {
	rest := slices.Index(runes, '/')
	if rest < 0 {
		return []rune{anyText}
	}
	return append([]rune{anyText}, runes[rest:]...)
}

// match follows two sets of places in the pattern along the text: those where it surely is, whatever
// the holes hold, and those where it may be.
func (g Glob) match(runes []rune) Truth {
	sure, may := g.start(), g.start()
	for _, r := range runes {
		sure, may = g.advance(sure, r, false), g.advance(may, r, true)
	}
	switch end := len(g.elements); {
	case sure[end]:
		return Yes
	case may[end]:
		return Maybe
	}
	return No
}

func (g Glob) start() []bool {
	places := make([]bool, len(g.elements)+1)
	places[0] = true
	g.skipStars(places)
	return places
}

// skipStars adds the places behind stars, which may stand for nothing.
func (g Glob) skipStars(places []bool) {
	for i, e := range g.elements {
		if places[i] && e.star {
			places[i+1] = true
		}
	}
}

// advance is where the pattern may be behind one more character, or hole. generous takes a hole for
// whatever suits the pattern.
func (g Glob) advance(places []bool, r rune, generous bool) []bool {
	next := make([]bool, len(places))
	for i, e := range g.elements {
		if !places[i] {
			continue
		}
		switch {
		case r == anyText && generous:
			for j := i; j < len(next); j++ {
				next[j] = true
			}
			return next
		case r == anyText:
			next[i] = e.star || next[i]
		case r == anyRune && !generous && !e.star && !e.any:
		case r != anyRune && !e.takes(r):
		case e.star:
			next[i] = true
		default:
			next[i+1] = true
		}
	}
	if r == anyText && places[len(g.elements)] && generous {
		next[len(g.elements)] = true
	}
	g.skipStars(next)
	return next
}
