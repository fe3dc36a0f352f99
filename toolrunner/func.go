package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"braid/schemas"
)

// Func makes a tool of a Go function. In is a struct: what the model is told of the arguments is
// derived from its fields. A field is required unless its json tag has omitzero or omitempty; a
// jsonschema tag describes it to the model.
//
//	type Weather struct {
//		City string `json:"city" jsonschema:"the city, in English"`
//		Days int    `json:"days,omitzero" jsonschema:"how many days ahead; 0 is today"`
//	}
//
// The function runs only with arguments that fit; for others the model gets a message that says
// what does not. What it writes to out the model, and whoever watches, gets as it comes; then comes the
// string it returns, then, if it returns an error, the error's text in a failed output. ctx ends
// when the call is stopped, and the function is to return soon after. [CallOf] says whose call it is.
//
// A tool counts as one that may change things and must not run twice; [ReadOnly] and [RetrySafe]
// say otherwise. If no tool can be made of the function, [Serve] and [NewRunner] return the error.
func Func[In any](name, description string, run func(ctx context.Context, in In, out io.Writer) (string, error), options ...Option) Tool {
	tool := Tool{Definition: schemas.ToolDefinition{Name: name, Description: description}}
	for _, option := range options {
		option(&tool)
	}
	parameters, err := parametersOf[In](&tool.Definition)
	if err == nil && run == nil {
		err = errors.New("it has no function")
	}
	if err != nil {
		tool.err = errors.Join(tool.err, fmt.Errorf("make the tool %s: %w", name, err))
		return tool
	}
	tool.Run = func(ctx context.Context, call Call, out *Output) Result {
		var in In
		if err := decodeArguments(call.Arguments, parameters, &in); err != nil {
			return Result{Err: err}
		}
		text, err := run(context.WithValue(ctx, callKey{}, call), in, out)
		if _, late := out.WriteString(text); late != nil && err == nil {
			err = late // the call is over; the execution has said so already
		}
		return Result{Err: err}
	}
	return tool
}

// Option changes what a tool says of itself.
type Option func(*Tool)

// ReadOnly says that the tool changes nothing: by default no person is asked before it runs.
func ReadOnly(t *Tool) { t.Definition.Permission = schemas.PermissionRead }

// RetrySafe says that a call may run again, if its toolrunner was lost while it ran.
func RetrySafe(t *Tool) { t.Definition.Retry = schemas.RetrySafe }

// InWorkspace says that the tool works on the session's files, in [Call.Workspace]: all such calls of a
// session run in one place.
func InWorkspace(t *Tool) { t.Definition.Workspace = true }

// Pool puts the tool into a pool of that name instead of [ServeOptions.Pool].
func Pool(name string) Option {
	return func(t *Tool) { t.Definition.Pool = name }
}

// Timeout bounds one run; 120 s without. It is counted in whole milliseconds, at least one.
func Timeout(d time.Duration) Option {
	return func(t *Tool) { t.Definition.TimeoutMS = max(d.Milliseconds(), 1) }
}

// OutputCap bounds how much of the output the model sees, in bytes; 32 KiB without.
func OutputCap(bytes int64) Option {
	return func(t *Tool) { t.Definition.OutputCap = bytes }
}

// Parameters is the JSON Schema of the arguments, draft 2020-12, in place of the derived one: for
// what struct tags can't say, such as bounds and alternatives. It is what arguments must fit, and
// after that they must fit the struct.
func Parameters(schema string) Option {
	return func(t *Tool) {
		raw, err := schemas.CompactRaw([]byte(schema))
		if err != nil {
			t.err = fmt.Errorf("make the tool %s: parameters: %w", t.Definition.Name, err)
		}
		t.Definition.Parameters = raw
	}
}

type callKey struct{}

// CallOf is the call that a [Func] runs for, from its context; false outside of one.
func CallOf(ctx context.Context) (Call, bool) {
	call, ok := ctx.Value(callKey{}).(Call)
	return call, ok
}

// parametersOf is the schema that arguments must fit: the definition's own, or else the one of In,
// which the definition then gets.
func parametersOf[In any](definition *schemas.ToolDefinition) (*jsonschema.Resolved, error) {
	schema := new(jsonschema.Schema)
	derived := definition.Parameters == nil
	var err error
	if derived {
		schema, err = jsonschema.For[In](nil)
	} else {
		err = schemas.DecodeJSON(definition.Parameters, schema)
	}
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	if schema.Type != "object" {
		return nil, errors.New("parameters: arguments are an object, so they need a struct and a schema of type object")
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	if !derived {
		return resolved, nil
	}
	if definition.Parameters, err = schemas.EncodeJSON(schema); err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	return resolved, agrees[In](resolved)
}

// agrees reports a struct that JSON is not read into as its schema says, by the value at hand: an
// empty one. Otherwise each call would fail.
func agrees[In any](schema *jsonschema.Resolved) error {
	var empty In
	text, err := schemas.EncodeJSON(empty)
	var value map[string]any
	if err == nil {
		err = schemas.DecodeJSON(text, &value)
	}
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		return fmt.Errorf("parameters: a field has a type that JSON Schema and JSON see differently: %w", err)
	}
	return nil
}
