package toolrunner

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"braid/schemas"
	"braid/toolrunner/internal/safetext"
)

// maxShownArguments bounds how much of unusable arguments is shown back, in bytes.
const maxShownArguments = 800

// DecodeArguments reads a call's arguments into v, a pointer to a struct. They must be one JSON
// object, without duplicate or unknown members, and proper Unicode: arguments that have to be
// guessed at are no basis for doing something. Empty arguments count as {}.
//
// The error is a [schemas.Error] of code invalid, written for the model: it names the problem and
// shows the arguments' beginning.
func DecodeArguments(arguments string, v any) error { return decodeArguments(arguments, nil, v) }

// decodeArguments is [DecodeArguments] for arguments that must fit a schema too, if there is one.
func decodeArguments(arguments string, schema *jsonschema.Resolved, v any) error {
	if strings.TrimSpace(arguments) == "" {
		arguments = "{}"
	}
	err := checkObject(arguments)
	if err == nil && schema != nil {
		err = checkSchema(arguments, schema)
	}
	if err == nil {
		err = schemas.DecodeStrictJSON([]byte(arguments), v)
	}
	if err == nil {
		return nil
	}
	shown := string(safetext.Cut([]byte(safetext.String(arguments)), maxShownArguments))
	return &schemas.Error{
		Code: schemas.CodeInvalid, Field: "arguments",
		Message: fmt.Sprintf("the arguments can't be used: %s; they were: %s", reason(err), shown),
	}
}

// checkObject reports why the text is not exactly one JSON object.
func checkObject(text string) error {
	dec := jsontext.NewDecoder(strings.NewReader(text))
	value, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if value.Kind() != jsontext.KindBeginObject {
		return errors.New("they must be one JSON object")
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON object")
	}
	return nil
}

// checkSchema reports what in a JSON object does not fit a schema.
func checkSchema(text string, schema *jsonschema.Resolved) error {
	var value map[string]any
	if err := schemas.DecodeJSON([]byte(text), &value); err != nil {
		return err
	}
	if err := schema.Validate(value); err != nil {
		return errors.New(schemaReason(err.Error()))
	}
	return nil
}

// schemaReason is a validation error without the path that led to it: "member /a/b: ..." instead of
// one place in the schema after the other.
func schemaReason(text string) string {
	member := ""
	for {
		rest, nested := strings.CutPrefix(text, "validating ")
		place, inner, ok := strings.Cut(rest, ": ")
		if !nested || !ok {
			break
		}
		if place != "root" {
			member = "member " + strings.ReplaceAll(place, "/properties/", "/") + ": "
		}
		text = inner
	}
	return member + text
}

// reason is a decoding error in words that mean something to whoever wrote the JSON: no Go types.
func reason(err error) string {
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return strings.TrimPrefix(err.Error(), "jsontext: ")
	}
	where := "the object"
	if semantic.JSONPointer != "" {
		where = "member " + string(semantic.JSONPointer)
	}
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return where + " is not known"
	case semantic.Err != nil:
		return where + " is not valid: " + semantic.Err.Error()
	}
	return fmt.Sprintf("%s must not be of JSON type %v", where, semantic.JSONKind)
}
