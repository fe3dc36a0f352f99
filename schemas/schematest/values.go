package schematest

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"braid/schemas"
)

// enums are the values of the types that have few.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[schemas.Role]():         {"user", "assistant"},
	reflect.TypeFor[schemas.Sender]():       {"user", "parent_agent", "harness", "server"},
	reflect.TypeFor[schemas.StopReason]():   {"completed", "failed", "aborted", "timeout", "malformed", "auth"},
	reflect.TypeFor[schemas.Phase]():        {"start", "delta", "stop"},
	reflect.TypeFor[schemas.Decision]():     {"allow", "deny", "forbidden"},
	reflect.TypeFor[schemas.Permission]():   {"r", "rw"},
	reflect.TypeFor[schemas.RetryPolicy]():  {"never", "safe"},
	reflect.TypeFor[schemas.ApprovalMode](): {"allow-all", "deny-all", "read-only", "always-ask"},
	reflect.TypeFor[schemas.LoopAction]():   {"warn", "continue", "terminate"},
	reflect.TypeFor[schemas.RecordState]():  {"queued", "started", "done", "withdrawn"},
	reflect.TypeFor[schemas.CommandType]():  {"create", "import", "task", "wake", "approve", "abort", "set", "retry_now", "deadline", "steer", "withdraw", "delete"},
	reflect.TypeFor[schemas.WhenBusy]():     {"reject", "queue", "steer"},
	reflect.TypeFor[schemas.Taken]():        {"started", "queued", "steering"},
	reflect.TypeFor[schemas.DequeueCause](): {"started", "steering", "withdrawn"},
	reflect.TypeFor[schemas.Kind]():         {"text", "thinking", "tool_call"},
	reflect.TypeFor[schemas.Code]():         {"applied", "invalid", "not_found", "brand_new"},
}

// special are the fields whose values are bound by more than their type.
var special = map[string]func(*rapid.T) any{
	"SessionMeta.ModelContextWindow": raw(`200000`, `"unknown"`),
	"ToolDefinition.Parameters":      raw(`{"type":"object"}`, `true`),
	"SessionRef.Project":             name,
	"SessionRef.ID":                  name,
	"Command.ID":                     name,
	"CreateBody.Model":               text("shell/demo", "openai/a/b"),
	"CreateBody.Agent":               name,
	"CreateBody.Limits":              limits,
	"CreateBody.FallbackModels":      func(*rapid.T) any { return []string{"backup/a", "backup/b"} },
	"Agent.Name":                     name,
	"Agent.Model":                    text("shell/demo", "openai/a/b"),
	"Agent.FallbackModels":           func(*rapid.T) any { return []string{"backup/a", "backup/b"} },
	"Agent.Tools":                    func(*rapid.T) any { return []string{"read_*", "bash"} },
	"Agent.Limits":                   limits,
	"CreateBody.Tools":               func(*rapid.T) any { return []string{"read_*", "bash"} },
	"ImportBody.Trace":               text("default/s/trace.0"),
	"ImportBody.Model":               text("shell/demo", "openai/a/b"),
	"ImportBody.Agent":               name,
	"ImportBody.Limits":              limits,
	"ImportBody.FallbackModels":      func(*rapid.T) any { return []string{"backup/a", "backup/b"} },
	"ImportBody.Tools":               func(*rapid.T) any { return []string{"read_*", "bash"} },
	"ImportBody.SystemPrompt":        text("", "Be <kind>.\n"),
	"ImportBody.Workspace":           text("", "projects/<ä>"),
	"CreateBody.SystemPrompt":        text("", "Be <kind>.\n"),
	"CreateBody.Workspace":           text("", "projects/<ä>"),
	"TaskBody.Prompt":                text("x", "list <files> & more"),
	"TaskBody.Input":                 func(t *rapid.T) any { return Input().Draw(t, "input") },
	"InputPart.Type":                 func(*rapid.T) any { return schemas.KindText },
	"ApproveBody.ToolCallID":         name,
	"DeadlineBody.ToolCallID":        name,
	"WithdrawBody.TaskID":            name,
	"ApproveBody.Decision":           func(*rapid.T) any { return schemas.DecisionDeny },
	"ToolUseBlock.Type":              text("tool_use"),
	"ToolUseBlock.Input":             inputs,
	"ToolResultBlock.Type":           text("tool_result"),
	"TaskToolCall.Input":             inputs,
}

func name(t *rapid.T) any { return rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "name") }

func text(choices ...string) func(*rapid.T) any {
	return func(t *rapid.T) any { return rapid.SampledFrom(choices).Draw(t, "text") }
}

func limits(t *rapid.T) any {
	return rapid.SampledFrom([]schemas.Limits{
		{}, {MaxTurns: -1, MaxTokensTask: 1 << 40, MaxTokensSession: 1 << 50},
		{MaxCostTask: schemas.Dollar / 4, MaxCostSession: 1},
		{MaxTurns: 3, LoopLimit: 2, LoopWindow: 5, OnLoop: schemas.LoopTerminate, RequestTimeoutMS: 1, IdleTimeoutMS: 1},
	}).Draw(t, "limits")
}

func raw(choices ...string) func(*rapid.T) any {
	return func(t *rapid.T) any { return jsontext.Value(rapid.SampledFrom(choices).Draw(t, "raw")) }
}

// objects are raw values of members that hold any object.
var objects = raw(`{}`, `{"s":"\u003c\/","n":1.0e+2,"a":[1,2]}`, `{"signature":"AbC=","deep":{"x":null}}`)

// inputs are raw values of what a model wrote for a tool.
var inputs = raw(`{}`, `{"path":"\u003c\/"}`, `"no {object"`)

// members are raw objects of members that no version knows yet.
var members = raw(`{"x_new":{"a":[1.50,"\u0041"]}}`, `{"x_one":1,"x_two":"\/"}`)

// Value generates values of T, a struct of package schemas: every member is valid, members that
// may be absent sometimes are, texts hold what people and tools write.
func Value[T any]() *rapid.Generator[T] {
	return rapid.Custom(func(t *rapid.T) T {
		var v T
		fill(t, reflect.ValueOf(&v).Elem())
		return v
	})
}

// Fill sets the struct that p points to, as [Value] does.
func Fill(t *rapid.T, p any) { fill(t, reflect.ValueOf(p).Elem()) }

func fill(t *rapid.T, v reflect.Value) {
	if m, ok := v.Addr().Interface().(*schemas.Message); ok {
		*m = AnyMessage().Draw(t, "message")
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillField(t, v, v.Type().Field(i), v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		n := rapid.IntRange(1, 3).Draw(t, "length")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(t, v.Index(i))
		}
	case reflect.String:
		if values, ok := enums[v.Type()]; ok {
			v.SetString(rapid.SampledFrom(values).Draw(t, v.Type().Name()))
			return
		}
		v.SetString(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "<a>&b\u2028\n", "é😀", "\x00\x1b[0m"})).Draw(t, "string"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64Range(0, 1<<31-1).Draw(t, "int"))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64Max(1<<53).Draw(t, "uint"))
	case reflect.Float64:
		v.SetFloat(float64(rapid.IntRange(0, 1<<20).Draw(t, "float")) / 8)
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	default:
		panic(fmt.Sprintf("schematest: no values of %s", v.Type()))
	}
}

func fillField(t *rapid.T, parent reflect.Value, f reflect.StructField, v reflect.Value) {
	tag := f.Tag.Get("json")
	if tag == "-" || strings.Contains(tag, "omitzero") && !rapid.Bool().Draw(t, f.Name+" present") {
		return
	}
	if make := special[parent.Type().Name()+"."+f.Name]; make != nil {
		v.Set(reflect.ValueOf(make(t)))
		return
	}
	switch {
	case f.Name == "Extra":
		if rapid.Bool().Draw(t, "unknown members") {
			v.Set(reflect.ValueOf(members(t)))
		}
	case v.Type() == reflect.TypeFor[jsontext.Value]():
		v.Set(reflect.ValueOf(objects(t)))
	default:
		fill(t, v)
	}
}

// Payloads returns an empty payload of every kind this version knows.
func Payloads() []schemas.Payload {
	return []schemas.Payload{
		&schemas.SessionMeta{}, &schemas.Text{}, &schemas.Thinking{}, &schemas.InlineThinking{},
		&schemas.ToolCall{}, &schemas.ToolCallOutput{}, &schemas.ImageURL{}, &schemas.InlineData{},
		&schemas.PartialText{}, &schemas.PartialThinking{}, &schemas.PartialToolCall{},
		&schemas.PartialToolCallOutput{}, &schemas.ToolListReady{}, &schemas.MCPConnectBegin{},
		&schemas.MCPConnectEnd{}, &schemas.RequestBegin{}, &schemas.RequestEnd{},
		&schemas.ApprovalRequest{}, &schemas.ApprovalDecision{}, &schemas.TokenUsage{},
		&schemas.CompactionBegin{}, &schemas.CompactionEnd{}, &schemas.Abort{}, &schemas.Subagent{},
		&schemas.LoopDetected{}, &schemas.BudgetExceeded{}, &schemas.OwnerChanged{}, &schemas.WorkspaceBound{},
		&schemas.SessionChanged{}, &schemas.SessionImported{}, &schemas.CommandOutcome{}, &schemas.Checkpoint{},
		&schemas.SessionDeleted{}, &schemas.TaskQueued{}, &schemas.TaskDequeued{}, &schemas.TaskEnd{},
	}
}

// AnyPayload generates payloads of every known kind.
func AnyPayload() *rapid.Generator[schemas.Payload] {
	return rapid.Custom(func(t *rapid.T) schemas.Payload {
		p := rapid.SampledFrom(Payloads()).Draw(t, "kind")
		fresh := reflect.New(reflect.TypeOf(p).Elem())
		fill(t, fresh.Elem())
		return fresh.Interface().(schemas.Payload)
	})
}

// AnyMessage generates messages of every known kind, with or without origin, scope and unknown
// members.
func AnyMessage() *rapid.Generator[schemas.Message] {
	return rapid.Custom(func(t *rapid.T) schemas.Message {
		m := schemas.New(start, AnyPayload().Draw(t, "payload"))
		m.Origin = rapid.SampledFrom([][]string{nil, {"kid"}, {"kid", "grand"}}).Draw(t, "origin")
		m.Scope = rapid.SampledFrom([]schemas.Scope{schemas.ScopeAll, schemas.ScopeTrace}).Draw(t, "scope")
		if rapid.Bool().Draw(t, "unknown members") {
			m.Extra = members(t).(jsontext.Value)
		}
		return m
	})
}
