package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// This file prints documents that stand in a configuration file, without their secrets.

// Members that hold secrets: those whose names speak of one, all headers, and what should name a variable
// but is no such name, since then the key itself stands there. Text is masked already where a name may speak
// of a secret, which numbers, as in max_tokens, are no reason for.
var (
	secretMember = regexp.MustCompile(`(?i)(token|secret|passw(or)?d|passphrase|credentials?|cookie|auth(orization)?|signature|(^|[._-]|api)key)$`)
	secretText   = regexp.MustCompile(`(?i:secret|passw(or)?d|passphrase|credential|cookie|authori[sz]ation|signature|bearer|apikey)|` +
		`((^|[^A-Za-z])(?i:token|key|auth|pwd|pass)|[a-z](Token|Key|Auth|Pwd|Pass))s?([^a-z]|$)`)
	headersMember = regexp.MustCompile(`(?i)headers$`)
	variableName  = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
)

const (
	variableSuffix = "_env"
	headerName     = "api_key_header" // where a key stands, not the key
	bodyMember     = "body"
)

// secrecy says which members of a mapping are masked.
type secrecy int

const (
	byName secrecy = iota // those whose names speak of secrets, but not the members of such a one: an agent may be called so
	within                // and their members: all that stands in a body is somebody else's
	all
)

// of is the secrecy of the members of a member.
func (s secrecy) of(member string) secrecy {
	switch {
	case s == all || headersMember.MatchString(member), s == within && secretText.MatchString(member):
		return all
	case member == bodyMember:
		return within
	}
	return s
}

// hides reports whether text is a secret because of the member that it is.
func (s secrecy) hides(member, text string) bool {
	switch {
	case text == "" || member == headerName && s != all:
		return false
	case strings.HasSuffix(member, variableSuffix) && s == byName:
		return !variableName.MatchString(text)
	}
	return s == all || secretMember.MatchString(member) || secretText.MatchString(member) || headersMember.MatchString(member)
}

// readMembers is the content of a document, with its members in order.
func readMembers(content []byte) (members yaml.MapSlice, err error) {
	defer func() {
		// The YAML parser is not ours: should content make it panic, the content is at fault.
		if p := recover(); p != nil {
			members, err = nil, fmt.Errorf("this can't be read as YAML")
		}
	}()
	err = yaml.UnmarshalWithOptions(content, &members, yaml.UseOrderedMap())
	return members, err
}

// yamlText is the value of a member as YAML of that depth, to follow its colon. Its secrets are masked.
func yamlText(hide secrecy, member string, value any, depth int) string {
	switch v := value.(type) {
	case yaml.MapSlice:
		return mappingText(hide.of(member), v, depth)
	case []any:
		return listText(hide, member, v, depth)
	case string:
		if hide.hides(member, v) {
			return quoted(mask)
		}
		return textOf(masked("", v), depth)
	}
	if hide == all || secretMember.MatchString(member) {
		return quoted(mask)
	}
	switch v := value.(type) {
	case nil:
		return "null"
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64) // the parser takes an exponent for text
	}
	return fmt.Sprint(value) // a whole number, or true or false
}

func mappingText(hide secrecy, members yaml.MapSlice, depth int) string {
	if len(members) == 0 {
		return "{}"
	}
	var b strings.Builder
	for _, m := range members {
		name := fmt.Sprint(m.Key)
		text := yamlText(hide, name, m.Value, depth+1)
		fmt.Fprintf(&b, "\n%s%s:%s%s", indent(depth), textOf(name, -1), gap(text), text)
	}
	return b.String()
}

// gap is what stands before a value: nothing if it begins on the next line.
func gap(text string) string {
	if strings.HasPrefix(text, "\n") {
		return ""
	}
	return " "
}

// listText is a list: of plain values in one line, else an element a line.
func listText(hide secrecy, member string, list []any, depth int) string {
	plain := !slices.ContainsFunc(list, func(v any) bool {
		switch v.(type) {
		case yaml.MapSlice, []any:
			return true
		}
		return false
	})
	texts := make([]string, len(list))
	for i, v := range list {
		if plain {
			texts[i] = yamlText(hide, member, v, -1)
			continue
		}
		text := yamlText(hide, member, v, depth+1)
		if rest, ok := strings.CutPrefix(text, "\n"+indent(depth+1)); ok {
			text = rest // a mapping's first member follows the dash
		}
		texts[i] = "\n" + indent(depth) + "- " + text
	}
	if plain {
		return "[" + strings.Join(texts, ", ") + "]"
	}
	return strings.Join(texts, "")
}

func indent(depth int) string { return strings.Repeat("  ", max(depth, 0)) }

// otherThanText is what is a number, a truth or nothing in YAML, and has to be quoted to be text; unfit what
// does not survive, or is not seen, where text has lines of its own.
var (
	otherThanText = regexp.MustCompile(`(?i)^(true|false|yes|no|on|off|y|n|null|~|[-+.]?[0-9].*|[-+]?\.(inf|nan))$`)
	unfit         = regexp.MustCompile(`^\s|[^\n\PC]|[\x{2028}\x{2029}]|[^\S\n]\n|\s$`)
)

// textOf is text as YAML of that depth; a negative one leaves no room for lines.
func textOf(text string, depth int) string {
	lines, ended := strings.CutSuffix(text, "\n")
	switch {
	case otherThanText.MatchString(text):
		return inQuotes(text)
	case depth < 0, !strings.Contains(lines, "\n"), unfit.MatchString(lines):
		return quoted(text)
	}
	b := new(strings.Builder)
	b.WriteString("|")
	if !ended {
		b.WriteString("-")
	}
	for line := range strings.SplitSeq(lines, "\n") {
		b.WriteString("\n")
		if line != "" {
			b.WriteString(indent(depth) + line)
		}
	}
	return b.String()
}
