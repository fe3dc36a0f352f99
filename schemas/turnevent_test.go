package schemas_test

import (
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"braid/schemas"
	"braid/schemas/schematest"
)

// turnData are generators of what events of each type hold.
var turnData = map[schemas.TurnEventType]func(*rapid.T) any{
	schemas.TurnText:           func(t *rapid.T) any { return rapid.String().Draw(t, "text") },
	schemas.TurnReasoning:      func(t *rapid.T) any { return rapid.String().Draw(t, "reasoning") },
	schemas.TurnToolUse:        drawData[schemas.ToolUseBlock],
	schemas.TurnToolResult:     drawData[schemas.ToolResultBlock],
	schemas.TurnLoopDetected:   drawData[schemas.LoopDetectionInfo],
	schemas.TurnBudgetExceeded: drawData[schemas.BudgetExceededInfo],
	schemas.TurnDone:           drawData[schemas.TaskResult],
	schemas.TurnError:          drawData[schemas.TaskFailure],
}

func drawData[T any](t *rapid.T) any { return new(schematest.Value[T]().Draw(t, "data")) }

// Whatever event Go can hold, its schema accepts it, and it comes back as it was.
func TestTurnEventSchema(t *testing.T) {
	schema := validator(t)("turn_event")
	for kind, draw := range turnData {
		t.Run(string(kind), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				e := schemas.TurnEvent{Type: kind, Data: draw(t)}
				if kind == schemas.TurnError {
					e.ErrorInfo = new(schematest.Value[schemas.TurnErrorInfo]().Draw(t, "error info"))
				}
				b, err := schemas.EncodeJSON(e)
				if err != nil {
					t.Fatal(err)
				}
				if err := validate(schema, b); err != nil {
					t.Fatalf("%s\n%v", b, err)
				}
				var again schemas.TurnEvent
				if err := schemas.DecodeJSON(b, &again); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(e, again); diff != "" {
					t.Fatalf("(-encoded +decoded)\n%s", diff)
				}
			})
		})
	}
}

func TestTurnEventsThatAreNone(t *testing.T) {
	schema := validator(t)("turn_event")
	tests := []struct{ name, event string }{
		{"no type", `{"data":"x"}`},
		{"no data", `{"type":"text"}`},
		{"text is no string", `{"type":"text","data":{}}`},
		{"a call without a name", `{"type":"tool_use","data":{"type":"tool_use","id":"A","input":{}}}`},
		{"a call of another type", `{"type":"tool_use","data":{"type":"tool_result","id":"A","name":"ls","input":{}}}`},
		{"a result without its call", `{"type":"tool_result","data":{"type":"tool_result","content":"","is_error":false}}`},
		{"a loop as a number", `{"type":"loop_detected","data":3}`},
		{"a budget of words", `{"type":"budget_exceeded","data":{"message":"","used":"much","limit":1,"unit":"tokens"}}`},
		{"done with a string", `{"type":"done","data":"x"}`},
		{"an error without a message", `{"type":"error","data":{}}`},
		{"error info without a kind", `{"type":"error","data":{"message":"x"},"errorInfo":{"retryable":true,"message":"x"}}`},
	}
	for _, tt := range tests {
		if validate(schema, []byte(tt.event)) == nil {
			t.Errorf("%s: the schema accepts %s", tt.name, tt.event)
		}
	}
	for _, event := range []string{`{"type":"text","data":{}}`, `{"type":"done","data":7}`, `{"type":7}`, `{"type":"error"}`} {
		if err := schemas.DecodeJSON([]byte(event), new(schemas.TurnEvent)); err == nil {
			t.Errorf("decoded %s", event)
		}
	}
	const newer = `{"type":"brand_new","data":{"a":1}}`
	var e schemas.TurnEvent
	if err := schemas.DecodeJSON([]byte(newer), &e); err != nil || validate(schema, []byte(newer)) != nil {
		t.Fatalf("an event of a newer version: %v", err)
	}
	if diff := cmp.Diff(schemas.TurnEvent{Type: "brand_new", Data: jsontext.Value(`{"a":1}`)}, e); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Every type of event is generated above.
func TestTurnEventTypes(t *testing.T) {
	want := []schemas.TurnEventType{"budget_exceeded", "done", "error", "loop_detected", "reasoning", "text", "tool_result", "tool_use"}
	var got []schemas.TurnEventType
	for kind := range turnData {
		got = append(got, kind)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestToolUseInput(t *testing.T) {
	tests := []struct{ name, arguments, want string }{
		{"an object, without white space", "{ \"a\": [1.0,\n 2] }", `{"a":[1.0,2]}`},
		{"the empty object", `{}`, `{}`},
		{"no JSON", `{"a":`, `"{\"a\":"`},
		{"nothing", ``, `""`},
		{"a list is no input", `[1]`, `"[1]"`},
		{"a member twice", `{"a":1,"a":2}`, `"{\"a\":1,\"a\":2}"`},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", `{"a":"�"}`},
		{"invalid UTF-8 that is no object", "\xff", `"�"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := schemas.EncodeJSON(schemas.NewToolUseBlock(schemas.NewToolCall("A", "ls", tt.arguments)))
			if err != nil {
				t.Fatal(err)
			}
			if want := `{"type":"tool_use","id":"A","name":"ls","input":` + tt.want + `}`; string(b) != want {
				t.Errorf("got %s, want %s", b, want)
			}
		})
	}
}
