package policy

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"braid/engine/policy/internal/shell"
	"braid/schemas"
)

// argument is what one place in a call's arguments must hold.
type argument struct {
	path   []string // the tokens of a JSON pointer; "*" is any member or element
	glob   shell.Glob
	regexp *regexp.Regexp // in place of the glob, if not nil
}

// match reports whether a call's arguments hold it.
func (a argument) match(c *call) shell.Truth {
	if c.unreadable {
		return shell.Maybe
	}
	return a.inObject(c.members, a.path)
}

// inObject looks for the path in an object.
func (a argument) inObject(members map[string]jsontext.Value, path []string) shell.Truth {
	if path[0] == "*" {
		return a.any(slices.Collect(maps.Values(members)), path[1:])
	}
	value, found := member(members, path[0])
	if found != shell.Yes {
		return found
	}
	return a.within(value, path[1:])
}

// within looks for the rest of the path in a value.
func (a argument) within(value jsontext.Value, path []string) shell.Truth {
	if len(path) == 0 {
		return a.matchValue(value)
	}
	switch value.Kind() {
	case jsontext.KindBeginObject:
		var members map[string]jsontext.Value
		if schemas.DecodeJSON(value, &members) != nil {
			return shell.Maybe
		}
		return a.inObject(members, path)
	case jsontext.KindBeginArray:
		var elements []jsontext.Value
		if schemas.DecodeJSON(value, &elements) != nil {
			return shell.Maybe
		}
		if path[0] == "*" {
			return a.any(elements, path[1:])
		}
		if i, err := strconv.Atoi(path[0]); err == nil && i >= 0 && i < len(elements) {
			return a.within(elements[i], path[1:])
		}
	}
	return shell.No
}

func (a argument) any(among []jsontext.Value, path []string) (found shell.Truth) {
	for _, value := range among {
		found = max(found, a.within(value, path))
	}
	return found
}

// matchValue matches a string by what it says, and a number, true, false or null as it is written.
func (a argument) matchValue(value jsontext.Value) shell.Truth {
	text, ok := stringOf(value)
	if !ok {
		switch value.Kind() {
		case jsontext.KindNumber, jsontext.KindTrue, jsontext.KindFalse, jsontext.KindNull:
			text = strings.TrimSpace(string(value))
		default:
			return shell.No
		}
	}
	matches := a.glob.MatchText
	if a.regexp != nil {
		matches = a.regexp.MatchString
	}
	if matches(text) {
		return shell.Yes
	}
	return shell.No
}

// member finds an object's member. One whose name differs in case alone is taken for it by some JSON
// parsers, so where there is such a one nobody can tell.
func member(members map[string]jsontext.Value, name string) (jsontext.Value, shell.Truth) {
	value, ok := members[name]
	for other := range members {
		if other != name && strings.EqualFold(other, name) {
			return value, shell.Maybe
		}
	}
	if !ok {
		return nil, shell.No
	}
	return value, shell.Yes
}

func stringOf(value jsontext.Value) (text string, ok bool) {
	if value.Kind() != jsontext.KindString || schemas.DecodeJSON(value, &text) != nil {
		return "", false
	}
	return text, true
}

func isBlank(text string) bool { return strings.TrimSpace(text) == "" }
