package schemas_test

import (
	"bytes"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"braid/schemas"
	"braid/schemas/schematest"
)

// documents are the types beside payloads that have a schema, by its name.
var documents = map[string]any{
	"tool_definition": schemas.ToolDefinition{}, "mcp_connect_result": schemas.MCPConnectResult{},
	"token_counts": schemas.TokenCounts{}, "open_segment": schemas.OpenSegment{},
	"open_output": schemas.OpenOutput{}, "error_info": schemas.ErrorInfo{},
	"session_ref": schemas.SessionRef{}, "position": schemas.Position{},
	"command": schemas.Command{}, "limits": schemas.Limits{}, "agent": schemas.Agent{}, "create_body": schemas.CreateBody{}, "import_body": schemas.ImportBody{}, "task_body": schemas.TaskBody{},
	"approve_body": schemas.ApproveBody{}, "abort_body": schemas.AbortBody{},
	"outcome": schemas.Outcome{}, "tool_request": schemas.ToolRequest{}, "tool_result": schemas.ToolResult{},
	"tool_record": schemas.ToolRecord{}, "tool_fragment": schemas.ToolFragment{}, "error": schemas.Error{},
	"tool_use_block": schemas.ToolUseBlock{}, "tool_result_block": schemas.ToolResultBlock{},
	"loop_detection_info": schemas.LoopDetectionInfo{}, "budget_exceeded_info": schemas.BudgetExceededInfo{},
	"task_result": schemas.TaskResult{}, "task_tool_call": schemas.TaskToolCall{}, "task_usage": schemas.TaskUsage{},
	"deadline_body": schemas.DeadlineBody{},
	"input_turn":    schemas.InputTurn{}, "input_part": schemas.InputPart{},
	"set_body": schemas.SetBody{}, "withdraw_body": schemas.WithdrawBody{}, "delete_body": schemas.DeleteBody{},
	"trace_context": schemas.TraceContext{}, "task_failure": schemas.TaskFailure{}, "turn_error_info": schemas.TurnErrorInfo{},
}

// structs are all types with a schema of their own, by its name.
func structs() map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for name, doc := range documents {
		all[name] = reflect.TypeOf(doc)
	}
	for _, p := range schematest.Payloads() {
		all[string(p.Kind())] = reflect.TypeOf(p).Elem()
	}
	return all
}

// validator compiles the embedded schemas.
func validator(t testing.TB) func(name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	ids := map[string]string{}
	err := fs.WalkDir(schemas.JSONSchemas(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		doc := schemaDocument(t, path)
		ids[strings.TrimSuffix(path, ".json")] = doc["$id"].(string)
		return c.AddResource(doc["$id"].(string), doc)
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(name string) *jsonschema.Schema {
		s, err := c.Compile(ids[name])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return s
	}
}

func schemaDocument(t testing.TB, path string) map[string]any {
	t.Helper()
	b, err := fs.ReadFile(schemas.JSONSchemas(), path)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return doc.(map[string]any)
}

func validate(s *jsonschema.Schema, b []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

// Whatever message Go can hold, the schema of the envelope and that of the payload accept it,
// and it comes back from its line as it was.
func TestSchemasAcceptMessages(t *testing.T) {
	schema := validator(t)
	envelope := schema("message")
	rapid.Check(t, func(t *rapid.T) {
		m := schematest.AnyMessage().Draw(t, "message")
		line, err := schemas.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(envelope, line); err != nil {
			t.Fatalf("%s\n%v", line, err)
		}
		var e struct {
			Payload jsontext.Value `json:"payload"`
		}
		if err := schemas.DecodeJSON(line, &e); err != nil {
			t.Fatal(err)
		}
		if err := validate(schema(string(m.Kind())), e.Payload); err != nil {
			t.Fatalf("%s\n%v", e.Payload, err)
		}
		again, err := schemas.Decode(line)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, again); diff != "" {
			t.Fatalf("(-encoded +decoded)\n%s", diff)
		}
	})
}

// The same for everything that is not a message.
func TestSchemasAcceptDocuments(t *testing.T) {
	schema := validator(t)
	for name, doc := range documents {
		t.Run(name, func(t *testing.T) {
			s := schema(name)
			rapid.Check(t, func(t *rapid.T) {
				v := reflect.New(reflect.TypeOf(doc))
				schematest.Fill(t, v.Interface())
				if c, ok := v.Interface().(*schemas.Command); ok {
					complete(t, c)
				}
				b, err := schemas.EncodeJSON(v.Interface())
				if err != nil {
					t.Fatal(err)
				}
				if err := validate(s, b); err != nil {
					t.Fatalf("%s\n%v", b, err)
				}
				again := reflect.New(reflect.TypeOf(doc))
				if err := schemas.DecodeJSON(b, again.Interface()); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(v.Interface(), again.Interface()); diff != "" {
					t.Fatalf("(-encoded +decoded)\n%s", diff)
				}
			})
		})
	}
}

// complete gives the command the body its type needs; such a command is valid.
func complete(t *rapid.T, c *schemas.Command) {
	if c.Create == nil {
		c.Create = new(schematest.Value[schemas.CreateBody]().Draw(t, "create"))
	}
	if c.Create.Model == "" {
		c.Create.Agent = "an-agent"
	}
	if c.Import == nil {
		c.Import = new(schematest.Value[schemas.ImportBody]().Draw(t, "import"))
	}
	if c.Task == nil {
		c.Task = new(schematest.Value[schemas.TaskBody]().Draw(t, "task"))
	}
	if c.Approve == nil {
		c.Approve = new(schematest.Value[schemas.ApproveBody]().Draw(t, "approve"))
	}
	if c.Deadline == nil {
		c.Deadline = new(schematest.Value[schemas.DeadlineBody]().Draw(t, "deadline"))
	}
	if c.Withdraw == nil {
		c.Withdraw = new(schematest.Value[schemas.WithdrawBody]().Draw(t, "withdraw"))
	}
	if c.Set == nil || c.Set.ApprovalMode == "" { // absent members are fine, but one must be there
		c.Set = &schemas.SetBody{ApprovalMode: schemas.ApproveAsk}
	}
	if c.Task.Input != nil {
		c.Task.Prompt = "" // one of both
	} else if c.Task.Prompt == "" {
		c.Task.Prompt = "x"
	}
	c.Approve.Hash = "" // free text in general, a hash in a command
	if err := c.Validate(); err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
}

// Each member that is missing or of a wrong type is refused by the schema; the wrong type also
// by the Go type.
func TestSchemasRefuse(t *testing.T) {
	schema := validator(t)
	for name, typ := range structs() {
		t.Run(name, func(t *testing.T) {
			s := schema(name)
			doc := schemaDocument(t, name+".json")
			full := map[string]jsontext.Value{}
			if err := schemas.DecodeJSON(example(t, name, typ), &full); err != nil {
				t.Fatal(err)
			}
			if err := validate(s, encode(t, full)); err != nil {
				t.Fatalf("the example itself: %v", err)
			}
			for _, member := range required(doc) {
				less := maps.Clone(full)
				delete(less, member)
				if validate(s, encode(t, less)) == nil {
					t.Errorf("accepted without %s", member)
				}
			}
			for _, f := range fields(typ) {
				if f.raw {
					continue
				}
				wrong := maps.Clone(full)
				wrong[f.name] = f.wrong
				b := encode(t, wrong)
				if validate(s, b) == nil {
					t.Errorf("accepted with %s as %s", f.name, f.wrong)
				}
				if err := schemas.DecodeJSON(b, reflect.New(typ).Interface()); err == nil {
					t.Errorf("decoded with %s as %s", f.name, f.wrong)
				}
			}
		})
	}
}

// example is a valid encoded value of the type, with every member.
func example(t *testing.T, name string, typ reflect.Type) []byte {
	t.Helper()
	v := rapid.Custom(func(t *rapid.T) any {
		v := reflect.New(typ)
		schematest.Fill(t, v.Interface())
		if c, ok := v.Interface().(*schemas.Command); ok {
			complete(t, c)
		}
		return v.Interface()
	}).Example(1)
	b, err := schemas.EncodeJSON(v)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := v.(schemas.Payload); !ok || name == "session_meta" {
		return b
	}
	members := map[string]jsontext.Value{}
	if err := schemas.DecodeJSON(b, &members); err != nil {
		t.Fatal(err)
	}
	members["type"] = jsontext.Value(`"` + name + `"`)
	return encode(t, members)
}

func encode(t *testing.T, members map[string]jsontext.Value) []byte {
	t.Helper()
	b, err := json.Marshal(members, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func required(doc map[string]any) []string {
	var names []string
	list, _ := doc["required"].([]any)
	for _, n := range list {
		names = append(names, n.(string))
	}
	return names
}

// field is a member of a Go struct.
type field struct {
	name     string
	optional bool
	raw      bool           // any JSON is fine
	wrong    jsontext.Value // a value of another type
}

func fields(typ reflect.Type) []field {
	var all []field
	for i := range typ.NumField() {
		sf := typ.Field(i)
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "-" || options == "embed" {
			continue
		}
		f := field{name: name, optional: options == "omitzero", raw: sf.Type == reflect.TypeFor[jsontext.Value]()}
		f.wrong = jsontext.Value(`"wrong"`)
		if sf.Type.Kind() == reflect.String {
			f.wrong = jsontext.Value(`7`)
		}
		all = append(all, f)
	}
	return all
}

// The schemas and the Go structs have the same members, and agree on which may be absent.
func TestSchemasMatchStructs(t *testing.T) {
	types := structs()
	files, err := fs.Glob(schemas.JSONSchemas(), "*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".json")
		doc := schemaDocument(t, file)
		if doc["title"] != name || doc["description"] == "" {
			t.Errorf("%s: title %v, description %v", name, doc["title"], doc["description"])
		}
		typ := types[name]
		delete(types, name)
		if name == "message" || name == "turn_event" {
			continue // see TestEnvelopeSchema and TestTurnEventSchema
		}
		if typ == nil {
			t.Errorf("%s: no Go type", name)
			continue
		}
		var members, needed []string
		if _, ok := reflect.New(typ).Interface().(schemas.Payload); ok && name != "session_meta" {
			members, needed = []string{"type"}, []string{"type"}
		}
		for _, f := range fields(typ) {
			members = append(members, f.name)
			if !f.optional {
				needed = append(needed, f.name)
			}
		}
		slices.Sort(members)
		slices.Sort(needed)
		if diff := cmp.Diff(members, slices.Sorted(maps.Keys(doc["properties"].(map[string]any)))); diff != "" {
			t.Errorf("%s: members (-Go +schema)\n%s", name, diff)
		}
		if diff := cmp.Diff(needed, slices.Sorted(slices.Values(required(doc)))); diff != "" {
			t.Errorf("%s: required (-Go +schema)\n%s", name, diff)
		}
		if _, closed := doc["additionalProperties"]; closed {
			t.Errorf("%s: not open to new members", name)
		}
	}
	for name := range types {
		t.Errorf("%s: no schema", name)
	}
}

func TestEnvelopeSchema(t *testing.T) {
	envelope := validator(t)("message")
	tests := []struct {
		name, line string
		ok         bool
	}{
		{"a class of a newer version", `{"timestamp":"","type":"brand_new","payload":{"a":1}}`, true},
		{"a payload of a newer version", `{"timestamp":"","type":"event_msg","payload":{"type":"brand_new"}}`, true},
		{"a payload without a type", `{"timestamp":"","type":"event_msg","payload":{}}`, true},
		{"new members", `{"timestamp":"","type":"model_msg","payload":{"type":"text","role":"user","text":"","x":1},"y":2}`, true},
		{"no timestamp", `{"type":"event_msg","payload":{}}`, false},
		{"no type", `{"timestamp":"","payload":{}}`, false},
		{"no payload", `{"timestamp":"","type":"event_msg"}`, false},
		{"payload is no object", `{"timestamp":"","type":"event_msg","payload":[]}`, false},
		{"origin is no list", `{"timestamp":"","type":"event_msg","payload":{},"origin":"kid"}`, false},
		{"scope is no text", `{"timestamp":"","type":"event_msg","payload":{},"scope":1}`, false},
		{"a payload that breaks its schema", `{"timestamp":"","type":"model_msg","payload":{"type":"text","role":"user"}}`, false},
		{"a session_meta that breaks its schema", `{"timestamp":"","type":"session_meta","payload":{}}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := validate(envelope, []byte(tt.line)); (err == nil) != tt.ok {
				t.Errorf("%s: %v", tt.line, err)
			}
		})
	}
	for _, p := range schematest.Payloads() { // the envelope knows every kind
		class := schemas.New(start, p).Type
		line := `{"timestamp":"","type":"` + string(class) + `","payload":{"type":"` + string(p.Kind()) + `","role":7,"status":7,"attempt":"x","tool_call_id":7,"session":7,"tools":7,"servers":7,"reason":7,"kind":7,"used":"x","from":7,"approval_mode":7,"session_id":7,"command_id":7,"segment":7}}`
		if validate(envelope, []byte(line)) == nil {
			t.Errorf("%s: the envelope does not check its payload", p.Kind())
		}
	}
}
