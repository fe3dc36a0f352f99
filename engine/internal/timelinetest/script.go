package timelinetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"braid/schemas"
)

// Cue is one step of a script.
type Cue struct {
	// Line is the step's line, from 1, and Text the step as it is written.
	Line int
	Text string
	// Verb is its first word, Args the others, without options.
	Verb string
	Args []string
	// Rest is all behind the verb, as it stands.
	Rest string
	// Options are the words name=value of the verbs that have any.
	Options map[string]string
	// Code is what stands behind "->": how a command is answered that is not applied.
	Code schemas.Code
}

// withOptions are the verbs that take options.
var withOptions = []string{"create", "set", "engine"}

// Arg is the i-th argument; empty if there are fewer.
func (c Cue) Arg(i int) string {
	if i < len(c.Args) {
		return c.Args[i]
	}
	return ""
}

// String names the step for messages.
func (c Cue) String() string { return fmt.Sprintf("line %d: %s", c.Line, c.Text) }

// Parse reads a script.
func Parse(script string) (cues []Cue, err error) {
	for i, line := range strings.Split(script, "\n") {
		words, err := cutWords(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if len(words) == 0 {
			continue
		}
		c := Cue{Line: i + 1, Text: line, Verb: words[0], Options: map[string]string{}}
		if n := len(words); n > 2 && words[n-2] == "->" {
			c.Code, words = schemas.Code(words[n-1]), words[:n-2]
		}
		for _, w := range words[1:] {
			if name, value, ok := strings.Cut(w, "="); ok && slices.Contains(withOptions, c.Verb) {
				c.Options[name] = value
				continue
			}
			c.Args = append(c.Args, w)
		}
		_, c.Rest, _ = strings.Cut(strings.TrimSpace(line), " ")
		cues = append(cues, c)
	}
	return cues, nil
}

// cutWords cuts a line at its blanks. A quoted word, or the quoted value of name="...", is one.
func cutWords(line string) (words []string, err error) {
	word, in := "", false
	flush := func() {
		if in {
			words = append(words, word)
		}
		word, in = "", false
	}
	for line != "" && (in || line[0] != '#') {
		switch line[0] {
		case ' ', '\t':
			flush()
			line = line[1:]
		case '"':
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, fmt.Errorf("unfinished quotes: %s", line)
			}
			text, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, err
			}
			word, in, line = word+text, true, line[len(quoted):]
		default:
			word, in, line = word+line[:1], true, line[1:]
		}
	}
	flush()
	return words, nil
}

// Matches reports whether a line fits the pattern of a wait: it begins as the pattern does, and
// holds the parts behind each "...".
func Matches(pattern, line string) bool {
	parts := strings.Split(strings.TrimSpace(pattern), "...")
	if !strings.HasPrefix(line, strings.TrimSpace(parts[0])) {
		return false
	}
	return !slices.ContainsFunc(parts[1:], func(p string) bool { return !strings.Contains(line, strings.TrimSpace(p)) })
}
