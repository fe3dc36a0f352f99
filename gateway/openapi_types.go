package gateway

import (
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"braid/bus"
	"braid/schemas"
)

// goType marks a place in the description where the schema of a Go type is to stand.
const goType = "$go"

// schemaOf is such a place.
func schemaOf[T any]() object { return object{goType: reflect.TypeFor[T]()} }

// types are the schemas that the description refers to, by name. A struct of package schemas has
// the schema that is kept there, which its tests compare with it; the schema of any other struct
// follows from its members' types and tags, and has the words of schemaWords and memberWords.
type types struct {
	kept  map[string]object // all of package schemas
	named object            // those that are referred to
	taken map[string]reflect.Type
}

func newTypes() (*types, error) {
	t := &types{kept: map[string]object{}, named: object{}, taken: map[string]reflect.Type{}}
	files, err := fs.Glob(schemas.JSONSchemas(), "*.json")
	if err != nil {
		return nil, fmt.Errorf("describe the API: %w", err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(schemas.JSONSchemas(), file)
		if err != nil {
			return nil, fmt.Errorf("describe the API: %w", err)
		}
		var schema object
		if err := schemas.DecodeJSON(text, &schema); err != nil {
			return nil, fmt.Errorf("describe the API: %s: %w", file, err)
		}
		delete(schema, "$schema")
		delete(schema, "$id") // references are to the document that the schema is put in
		t.kept[strings.TrimSuffix(file, ".json")] = schema
	}
	return t, nil
}

// resolve returns v with a schema in the place of each type, and each reference to a kept schema
// leading to the components.
func (t *types) resolve(v any) any {
	switch v := v.(type) {
	case object:
		if typ, ok := v[goType].(reflect.Type); ok {
			return t.schema(typ)
		}
		return t.members(v)
	case map[string]any:
		return t.members(v)
	case map[string]object:
		all := make(object, len(v))
		for name, value := range v {
			all[name] = t.resolve(value)
		}
		return all
	case []any:
		all := make([]any, len(v))
		for i, value := range v {
			all[i] = t.resolve(value)
		}
		return all
	}
	return v
}

func (t *types) members(members map[string]any) object {
	all := make(object, len(members))
	for name, value := range members {
		if file, ok := value.(string); ok && name == "$ref" {
			all[name] = t.refer(strings.TrimSuffix(file, ".json"))
			continue
		}
		all[name] = t.resolve(value)
	}
	return all
}

// refer makes sure that a kept schema is among the components, and returns the reference to it.
func (t *types) refer(name string) string {
	if _, ok := t.named[name]; !ok {
		t.named[name] = object{} // it may refer to itself
		t.named[name] = t.resolve(t.kept[name])
	}
	return "#/components/schemas/" + name
}

var rawJSON = reflect.TypeFor[jsontext.Value]()

// schema is the schema of a type.
func (t *types) schema(typ reflect.Type) object {
	if values := valuesOf(typ); values != nil {
		return object{"type": "string", "enum": values}
	}
	switch {
	case typ == rawJSON:
		return object{}
	case typ == reflect.TypeFor[schemas.USD]():
		return object{"type": "number", "minimum": 0}
	}
	switch typ.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.Pointer:
		return t.schema(typ.Elem())
	case reflect.Slice:
		return object{"type": "array", "items": t.schema(typ.Elem())}
	case reflect.Struct:
		return t.structure(typ)
	}
	panic(fmt.Sprintf("the description of the API knows no %s", typ)) // at the start of any gateway
}

// structure refers to the schema of a struct. One without a name stands where it is used.
func (t *types) structure(typ reflect.Type) object {
	name := snake(typ.Name())
	if name == "" {
		return t.inline(typ)
	}
	_, kept := t.kept[name]
	if kept && typ.PkgPath() == reflect.TypeFor[schemas.Error]().PkgPath() {
		return object{"$ref": t.refer(name)}
	}
	if other, taken := t.taken[name]; kept || taken && other != typ {
		panic(fmt.Sprintf("two types are called %s in the description of the API", name)) // at the start of any gateway
	}
	t.taken[name] = typ
	if _, ok := t.named[name]; !ok {
		t.named[name] = object{}
		described := t.inline(typ)
		described["description"] = schemaWords[name]
		t.named[name] = described
	}
	return object{"$ref": "#/components/schemas/" + name}
}

func (t *types) inline(typ reflect.Type) object {
	properties, required := object{}, []string{}
	for field := range typ.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		schema := t.schema(field.Type)
		if says := t.means(snake(typ.Name()), name); says != "" {
			schema["description"] = says
		}
		properties[name] = schema
		if options == "" {
			required = append(required, name)
		}
	}
	return object{"type": "object", "properties": properties, "required": required}
}

// valuesOf are all values of a type, if they are known.
func valuesOf(typ reflect.Type) []string {
	switch typ {
	case reflect.TypeFor[schemas.ApprovalMode]():
		return texts(schemas.ApproveReadOnly, schemas.ApproveAsk, schemas.ApproveAll, schemas.ApproveNone)
	case reflect.TypeFor[schemas.Decision]():
		return texts(schemas.DecisionAllow, schemas.DecisionDeny)
	case reflect.TypeFor[schemas.Taken]():
		return texts(schemas.TakenStarted, schemas.TakenQueued, schemas.TakenSteering)
	case reflect.TypeFor[schemas.StopReason]():
		return texts(schemas.StopReasons()...)
	case reflect.TypeFor[bus.SessionState]():
		return texts(bus.StateIdle, bus.StateRunning, bus.StateWaiting)
	case reflect.TypeFor[bus.FailureKind]():
		return texts(bus.FailureKinds()...)
	}
	return nil
}

func texts[T ~string](values ...T) []string {
	all := make([]string, len(values))
	for i, value := range values {
		all[i] = string(value)
	}
	return all
}

// snake is a Go name as names in JSON are written.
func snake(name string) string {
	var b strings.Builder
	before := ' '
	for _, r := range name {
		if unicode.IsUpper(r) && unicode.IsLower(before) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
		before = r
	}
	return b.String()
}
