package transport

import (
	"bytes"
	"strconv"
	"strings"

	"braid/schemas"

	"github.com/go-json-experiment/json/jsontext"
)

// Detail is what an error's body says, in any of the forms that providers use. Nothing of it is
// redacted yet.
type Detail struct {
	// Message is for people.
	Message string
	// Code and Type are the provider's names for what is wrong; either may be empty.
	Code, Type string
	// Status is an HTTP status that the body names; 0 if it names none.
	Status int
}

// ParseDetail reads a body. What is no JSON is its own message.
func ParseDetail(body []byte) Detail {
	var members map[string]jsontext.Value
	value := jsontext.Value(bytes.TrimSpace(body))
	if value.Kind() == jsontext.KindBeginArray {
		var list []jsontext.Value
		if schemas.DecodeJSON(value, &list) == nil && len(list) > 0 {
			value = list[0]
		}
	}
	if schemas.DecodeJSON(value, &members) != nil {
		return Detail{Message: plain(value)}
	}
	if inner, ok := members["error"]; ok {
		var d Detail
		switch inner.Kind() {
		case jsontext.KindBeginObject:
			d = ParseDetail(inner)
		case jsontext.KindString:
			d = Detail{Message: word(inner)}
			if message := word(members["message"]); message != "" {
				d = Detail{Message: message, Code: d.Message}
			}
		}
		if d.Status == 0 {
			d.Status = statusOf(members)
		}
		return d
	}
	d := Detail{Code: word(members["code"]), Type: word(members["type"]), Status: statusOf(members)}
	for _, name := range []string{"message", "msg", "detail", "error_description"} {
		if d.Message = word(members[name]); d.Message != "" {
			break
		}
	}
	if d.Message == "" {
		d.Message = string(value)
	}
	if raw := cause(members["metadata"]); raw != "" {
		d.Message += ": " + raw
	}
	return d
}

// cause is what a provider behind the provider said.
func cause(metadata jsontext.Value) string {
	var members map[string]jsontext.Value
	if schemas.DecodeJSON(metadata, &members) != nil {
		return ""
	}
	return word(members["raw"])
}

// word is a JSON string's or number's text, or any other value's JSON; null is empty.
func word(v jsontext.Value) string {
	switch v.Kind() {
	case jsontext.KindNull, jsontext.KindInvalid:
		return ""
	case jsontext.KindString:
		var s string
		_ = schemas.DecodeJSON(v, &s) // it has been parsed before
		return s
	}
	return string(v)
}

// statusOf is the HTTP status among the members, if any has one.
func statusOf(members map[string]jsontext.Value) int {
	for _, name := range []string{"code", "status", "status_code"} {
		if n, err := strconv.Atoi(word(members[name])); err == nil && n >= 400 && n <= 599 {
			return n
		}
	}
	return 0
}

// plain is the text of a body that is no JSON: of a page only its title.
func plain(body []byte) string {
	text := string(body)
	if !strings.HasPrefix(text, "<") {
		return text
	}
	if _, after, ok := strings.Cut(text, "<title>"); ok {
		title, _, _ := strings.Cut(after, "</title>")
		return title
	}
	return "a page instead of an answer"
}
