package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/bus/bustest"
	"braid/schemas"
)

type forecast struct {
	City string   `json:"city" jsonschema:"the city, in English"`
	Days int      `json:"days,omitzero"`
	Tags []string `json:"tags,omitzero"`
	At   struct {
		Hour int `json:"hour"`
	} `json:"at"`
}

func weather(_ context.Context, in forecast, out io.Writer) (string, error) {
	fmt.Fprintf(out, "asking the sky over %s\n", in.City)
	switch in.City {
	case "Atlantis":
		return "so far", errors.New("there is no weather in Atlantis")
	case "Pompeii":
		panic("the mountain is on fire")
	}
	return fmt.Sprintf("sunny at %d", in.At.Hour), nil
}

func TestFuncDescribesItself(t *testing.T) {
	got := Func("weather", "Tells the weather.", weather,
		ReadOnly, RetrySafe, Pool("sky"), Timeout(1500*time.Millisecond), OutputCap(99)).Definition
	want := schemas.ToolDefinition{
		Name: "weather", Description: "Tells the weather.", Permission: schemas.PermissionRead,
		Retry: schemas.RetrySafe, Pool: "sky", TimeoutMS: 1500, OutputCap: 99,
		Parameters: []byte(`{"type":"object","properties":{` +
			`"city":{"type":"string","description":"the city, in English"},` +
			`"days":{"type":"integer"},` +
			`"tags":{"type":["null","array"],"items":{"type":"string"}},` +
			`"at":{"type":"object","properties":{"hour":{"type":"integer"}},"required":["hour"],"additionalProperties":false}},` +
			`"required":["city","at"],"additionalProperties":false}`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	careful := Func("weather", "", weather).Definition.WithDefaults()
	if careful.Permission != schemas.PermissionReadWrite || careful.Retry != schemas.RetryNever {
		t.Errorf("a tool that says nothing of itself is %+v", careful)
	}
}

func TestFuncRuns(t *testing.T) {
	tests := []struct {
		why, arguments string
		reason         schemas.StopReason
		output         string
	}{
		{"what it wrote, then what it returned", `{"city":"Rome","at":{"hour":9}}`, schemas.StopCompleted, "asking the sky over Rome\nsunny at 9"},
		{"an error keeps what there was", `{"city":"Atlantis","at":{"hour":9}}`, schemas.StopFailed,
			"asking the sky over Atlantis\nso far\n[failed: there is no weather in Atlantis]"},
		{"a panic is a failed call", `{"city":"Pompeii","at":{"hour":9}}`, schemas.StopFailed,
			"asking the sky over Pompeii\n[failed: the tool crashed: the mountain is on fire]"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			got := Execute(t.Context(), Func("weather", "", weather), Call{Arguments: tt.arguments}, Limits{}, Outlet{})
			wantResult(t, got, tt.reason, tt.output)
		})
	}
}

// What does not fit is never run, and the model is told where it does not fit.
func TestFuncChecksArguments(t *testing.T) {
	ran := false
	tool := Func("weather", "", func(_ context.Context, _ forecast, _ io.Writer) (string, error) {
		ran = true
		return "", nil
	})
	tests := []struct{ why, arguments, want string }{
		{"none", ``, `required: missing properties: ["city" "at"]`},
		{"another type", `{"city":5,"at":{"hour":9}}`, `member /city: type: 5 has type "integer", want "string"`},
		{"deep inside", `{"city":"Rome","at":{"hour":"x"}}`, `member /at/hour: type: x has type "string", want "integer"`},
		{"a fraction", `{"city":"Rome","at":{"hour":1.5}}`, `member /at/hour: type: 1.5 has type "number"`},
		{"misspelt", `{"city":"Rome","at":{"hour":9},"day":1}`, `unexpected additional properties ["day"]`},
		{"more than an int holds", `{"city":"Rome","at":{"hour":99999999999999999999}}`, `member /at/hour is not valid: value out of range`},
		{"no object", `["Rome"]`, `they must be one JSON object`},
		{"cut short", `{"city":"Rome"`, `unexpected EOF`},
		{"twice", `{"city":"Rome","city":"Oslo","at":{"hour":9}}`, `duplicate`},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			got := Execute(t.Context(), tool, Call{Arguments: tt.arguments}, Limits{}, Outlet{})
			if got.StopReason != schemas.StopFailed || !strings.Contains(got.Output, tt.want) || !strings.Contains(got.Output, "they were: ") {
				t.Errorf("%s: %s\nwant %s", got.StopReason, got.Output, tt.want)
			}
			if strings.Contains(got.Output, "forecast") || strings.Contains(got.Output, "validating") {
				t.Errorf("the model is told of our insides: %s", got.Output)
			}
			if ran {
				t.Error("it ran")
			}
		})
	}
}

func TestFuncWithParametersOfItsOwn(t *testing.T) {
	tool := Func("weather", "", weather, Parameters(`{
		"type": "object",
		"properties": {"city": {"enum": ["Rome", "Oslo"]}, "at": {"type": "object"}},
		"required": ["city"]
	}`))
	if want := `{"type":"object","properties":{"city":{"enum":["Rome","Oslo"]},"at":{"type":"object"}},"required":["city"]}`; string(tool.Definition.Parameters) != want {
		t.Errorf("parameters %s", tool.Definition.Parameters)
	}
	for arguments, want := range map[string]string{
		`{"city":"Rome"}`:           "sunny at 0",
		`{"city":"Bern"}`:           "member /city: enum: Bern does not equal any of: [Rome Oslo]",
		`{"city":"Rome","hour":1}`:  "member /hour is not known",
		`{"city":"Rome","at":"9h"}`: `member /at: type: 9h has type "string", want "object"`,
	} {
		if got := Execute(t.Context(), tool, Call{Arguments: arguments}, Limits{}, Outlet{}); !strings.Contains(got.Output, want) {
			t.Errorf("%s: %s", arguments, got.Output)
		}
	}
}

func TestFuncKnowsItsCall(t *testing.T) {
	tool := Func("who", "", func(ctx context.Context, _ struct{}, _ io.Writer) (string, error) {
		call, ok := CallOf(ctx)
		return fmt.Sprintf("%v %s %s", ok, call.ToolCallID, call.Workspace), nil
	})
	call := Call{ToolCallID: "c1", Workspace: "/w"}
	wantResult(t, Execute(t.Context(), tool, call, Limits{}, Outlet{}), schemas.StopCompleted, "true c1 /w")
	if _, ok := CallOf(t.Context()); ok {
		t.Error("a call out of nowhere")
	}
}

// A function that can't be a tool is found when the program starts, not when a model calls it.
func TestFuncThatIsNoTool(t *testing.T) {
	do := func(tool Tool) error {
		_, err := NewRunner(RunnerOptions{Tools: []Tool{tool}})
		return err
	}
	tests := []struct {
		why  string
		tool Tool
		want string
	}{
		{"arguments that are no object", funcOf[string](), "they need a struct"},
		{"a duration is no JSON number in our codec", funcOf[struct{ D time.Duration }](), "a field has a type"},
		{"bytes are a string in JSON, an array in the schema", funcOf[struct{ B []byte }](), "a field has a type"},
		{"a channel", funcOf[struct{ C chan int }](), "unsupported"},
		{"parameters that are no JSON", funcOf[struct{}](Parameters(`{`)), "unexpected EOF"},
		{"parameters of something else", funcOf[struct{}](Parameters(`{"type":"string"}`)), "schema of type object"},
		{"a reference to nowhere", funcOf[struct{}](Parameters(`{"type":"object","$ref":"#/$defs/x"}`)), "parameters"},
		{"no function", Func[struct{}]("bad", "", nil), "no function"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			if err := do(tt.tool); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "make the tool bad") {
				t.Errorf("error %v", err)
			}
		})
	}
	if err := do(Func("good", "", weather)); err != nil {
		t.Error(err)
	}
}

func funcOf[In any](options ...Option) Tool {
	return Func("bad", "", func(context.Context, In, io.Writer) (string, error) { return "", nil }, options...)
}

func TestServeRunsFuncs(t *testing.T) {
	t.Parallel()
	conn := bustest.Single(t).Conn(t)
	o := newOwner(t, conn)
	serve(t, conn, ServeOptions{Instance: "a", Tools: []Tool{Func("weather", "Tells the weather.", weather, ReadOnly)}})
	o.call("c1", "weather", `{"city":"Rome","at":{"hour":9}}`)
	o.done("c1", schemas.StopCompleted, "asking the sky over Rome\nsunny at 9")
	o.call("c2", "weather", `{"city":"Pompeii","at":{"hour":9}}`)
	o.done("c2", schemas.StopFailed, "asking the sky over Pompeii\n[failed: the tool crashed: the mountain is on fire]")
	o.call("c3", "weather", `{"city":"Oslo","at":{"hour":7}}`)
	o.done("c3", schemas.StopCompleted, "asking the sky over Oslo\nsunny at 7")
}
