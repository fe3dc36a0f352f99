package schemas

import (
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// DecodeInput reads a JSON document that somebody outside wrote. Unlike [DecodeJSON] it refuses
// members that v does not know, and text that is not valid UTF-8, lone surrogates included, instead
// of putting something else in its place. The error is an *[Error] of code [CodeInvalid] with the
// path of the member that is wrong, such as "input[2].content[0].text". It repeats nothing that the
// document says: that may be a prompt, and errors are logged.
func DecodeInput(b []byte, v any) error {
	if err := json.Unmarshal(b, v, json.RejectUnknownMembers(true)); err != nil {
		return undecodable(err)
	}
	return nil
}

// DecodeCommand reads a command as [DecodeInput] does, but for members that a newer version may
// have added: they are ignored outside of a task's input. It does not validate it. What could be read
// of a command that is refused is returned as well.
func DecodeCommand(b []byte) (Command, error) {
	var c Command
	if err := json.Unmarshal(b, &c); err != nil {
		refused := undecodable(err)
		// Paths begin in the command's body, as those of Validate do.
		if body, rest, ok := strings.Cut(refused.Field, "."); ok && body != "session" {
			refused.Field = rest
		}
		return c, refused
	}
	return c, nil
}

// undecodable says what is wrong with a document.
func undecodable(err error) *Error {
	refused := &Error{Code: CodeInvalid, Message: "the body is not valid JSON"}
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.As(err, &syntactic):
		refused.Field = fieldOf(syntactic.JSONPointer)
		switch {
		case errors.Is(err, jsontext.ErrDuplicateName):
			refused.Message = "this member is given twice"
		case strings.Contains(err.Error(), "invalid UTF-8"), strings.Contains(err.Error(), "surrogate"):
			refused.Message = "this text is not valid UTF-8"
		}
	case errors.As(err, &semantic):
		refused.Field = fieldOf(semantic.JSONPointer)
		refused.Message = "this member has the wrong type"
		if refused.Field == "" {
			refused.Message = "the body must be an object"
		}
		if errors.Is(err, json.ErrUnknownName) {
			refused.Message = "there is no such member"
		}
		if known, ok := errors.AsType[*Error](err); ok { // the member's own type says more
			refused.Message = known.Message
		}
	}
	return refused
}

// fieldOf turns a JSON pointer into a path such as "a[0].b", of bounded length.
func fieldOf(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if _, err := strconv.ParseUint(token, 10, 32); err == nil && b.Len() > 0 {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
	}
	field := b.String()
	if len(field) > 2*MaxNameLength {
		field = strings.ToValidUTF8(field[:2*MaxNameLength], "") + "..."
	}
	return field
}
