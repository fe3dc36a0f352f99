package shell

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxPattern bounds a pattern, in bytes.
const maxPattern = 1024

// Pattern is a pattern of commands: words with blanks between, alternatives with | between. The
// first word is the command's name, by its base name if it holds no slash. The others are what the
// command must have besides, whatever else it has:
//
//	-rf           short options, each anywhere, alone or with others in one word
//	--force       a long option, anywhere, with or without =value
//	push /etc/*   words, in this order, as globs
type Pattern struct {
	source  string
	name    []Glob
	options [][]optionPattern
	words   [][]Glob
}

// optionPattern is one spelling of an option.
type optionPattern struct {
	letters []rune // of short options
	long    *Glob  // with its dashes
}

// ParsePattern reads a pattern.
func ParsePattern(source string) (Pattern, error) {
	p := Pattern{source: source}
	words := strings.Fields(source)
	switch {
	case len(words) == 0:
		return p, errors.New("a command needs a name")
	case len(source) > maxPattern:
		return p, fmt.Errorf("it has %d bytes, the limit is %d", len(source), maxPattern)
	}
	for i, word := range words {
		if err := addWord(&p, i, word); err != nil {
			return p, fmt.Errorf("%q: %w", word, err)
		}
	}
	return p, nil
}

// addWord reads one word of a pattern.
func addWord(p *Pattern, i int, word string) error {
	var globs []Glob
	var options []optionPattern
	for alternative := range strings.SplitSeq(word, "|") {
		if alternative == "" {
			return errors.New("an alternative is empty")
		}
		if i > 0 && alternative[0] == '-' && alternative != "-" && alternative != "--" {
			o, err := parseOption(alternative)
			if err != nil {
				return err
			}
			options = append(options, o)
			continue
		}
		g, err := ParseGlob(alternative)
		if err != nil {
			return err
		}
		globs = append(globs, g)
	}
	switch {
	case len(globs) > 0 && len(options) > 0:
		return errors.New("an option and a word can't be alternatives")
	case i == 0:
		p.name = globs
	case len(options) > 0:
		p.options = append(p.options, options)
	default:
		p.words = append(p.words, globs)
	}
	return nil
}

func parseOption(text string) (optionPattern, error) {
	if strings.Contains(text, "=") {
		return optionPattern{}, errors.New("an option is named without its value")
	}
	if strings.HasPrefix(text, "--") {
		g, err := ParseGlob(text)
		return optionPattern{long: &g}, err
	}
	if strings.ContainsAny(text, `*?[\`) {
		return optionPattern{}, errors.New("short options are letters; write [-]... for a word that begins with a dash")
	}
	return optionPattern{letters: []rune(text[1:])}, nil
}

// String is the pattern as it was written.
func (p Pattern) String() string { return p.source }

// Runs reports whether what was read runs a command of the pattern.
func (r Reading) Runs(p Pattern) Truth {
	found := truth(false)
	if r.Unclear != "" {
		found = Maybe
	}
	for _, c := range r.Commands {
		if found = max(found, p.match(c)); found == Yes {
			return Yes
		}
	}
	return found
}

// match reports whether a command is one of the pattern's.
func (p Pattern) match(c Command) Truth {
	found := p.matchName(c.Words[0])
	if c.Doubtful {
		found = min(found, Maybe)
	}
	args := c.Words[1:]
	for _, option := range p.options {
		if found == No {
			return No
		}
		found = min(found, best(option, func(o optionPattern) Truth { return o.among(args) }))
	}
	if found == No {
		return No
	}
	return min(found, p.matchWords(args))
}

func (p Pattern) matchName(name Word) Truth {
	return best(p.name, func(g Glob) Truth {
		if strings.Contains(g.source, "/") {
			return g.Match(name)
		}
		return g.Match(name.base())
	})
}

// best is the greatest of the answers.
func best[T any](all []T, ask func(T) Truth) (found Truth) {
	for _, one := range all {
		if found = max(found, ask(one)); found == Yes {
			return found
		}
	}
	return found
}

// matchWords looks for the pattern's words among the arguments, in order.
func (p Pattern) matchWords(args []Word) Truth {
	// reached is, for each number of words, whether so many can have been found so far.
	reached := make([]Truth, len(p.words)+1)
	reached[0] = Yes
	for _, arg := range args {
		for i, word := range slices.Backward(p.words) {
			found := min(reached[i], best(word, func(g Glob) Truth { return g.Match(arg) }))
			reached[i+1] = max(reached[i+1], found)
		}
		if arg.Spread != One { // it may be several
			for i := range p.words {
				found := min(reached[i], best(p.words[i], func(g Glob) Truth { return g.Match(arg) }))
				reached[i+1] = max(reached[i+1], found)
			}
		}
	}
	return reached[len(p.words)]
}

// among reports whether the option is among the arguments.
func (o optionPattern) among(args []Word) Truth {
	if o.long != nil {
		return best(args, o.matchLong)
	}
	found := Yes
	for _, letter := range o.letters {
		found = min(found, best(args, func(w Word) Truth { return hasLetter(w, letter) }))
	}
	return found
}

// matchLong reports whether a word is the long option. Many programs take the beginning of one for
// it, if it is the only one that begins so.
func (o optionPattern) matchLong(w Word) Truth {
	name := w
	if i := slices.Index(w.Runes, '='); i >= 0 {
		name.Runes = w.Runes[:i]
	}
	found := o.long.Match(name)
	if full, ok := o.long.literal(); ok && found == No {
		text, known := name.Literal()
		if known && len(text) > len("--") && strings.HasPrefix(full, text) {
			return Maybe
		}
	}
	return found
}

// hasLetter reports whether a word holds a short option.
func hasLetter(w Word, letter rune) Truth {
	if w.Spread == Any {
		return Maybe
	}
	runes := w.Runes
	if w.Tilde || len(runes) == 0 {
		return No
	}
	sure := w.Spread == One && runes[0] == '-'
	switch {
	case !hole(runes[0]) && runes[0] != '-', len(runes) > 1 && runes[0] == '-' && runes[1] == '-':
		return No
	case slices.Contains(runes[1:], letter):
		if sure && !hole(runes[1]) { // a hole there may make it a long option
			return Yes
		}
		return Maybe
	case slices.ContainsFunc(runes, hole):
		return Maybe
	}
	return No
}
