package toolrunner

import (
	"errors"
	"strings"
	"testing"

	"braid/schemas"
)

// Arguments that are not one proper object are refused with the reason and their beginning; they
// are never run as {} or as what they might have meant.
func TestCase_D22_F12_D21_UnusableArguments(t *testing.T) {
	tests := []struct{ why, in, want string }{
		{"trailing comma", `{"a":1,}`, "invalid character"},
		{"cut short, as by a length limit", `{"path":"x`, "unexpected EOF"},
		{"null", `null`, "one JSON object"},
		{"an array", `[1]`, "one JSON object"},
		{"two objects", `{"a":1}{"b":2}`, "something follows"},
		{"fenced", "```json\n{}\n```", "invalid character"},
		{"duplicate member", `{"a":1,"a":2}`, "duplicate"},
		{"unknown member", `{"b":1}`, "member /b is not known"},
		{"wrong type", `{"a":"one"}`, "member /a must not be of JSON type string"},
		{"lone surrogate", `{"s":"a\ud83d"}`, "surrogate"},
		{"invalid UTF-8", "{\"s\":\"a\xff\"}", "invalid UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			var v struct {
				A int    `json:"a"`
				S string `json:"s"`
			}
			err := DecodeArguments(tt.in, &v)
			var e *schemas.Error
			if !errors.As(err, &e) || e.Code != schemas.CodeInvalid || !strings.Contains(e.Message, tt.want) {
				t.Fatalf("error %v, want one that says %q", err, tt.want)
			}
			if strings.Contains(e.Message, "Go ") || strings.Contains(e.Message, "toolrunner") {
				t.Errorf("the model is told about Go: %s", e.Message)
			}
		})
	}
}

func TestEmptyArgumentsAreAnEmptyObject(t *testing.T) {
	var v struct{}
	if err := DecodeArguments(" ", &v); err != nil {
		t.Error(err)
	}
}

func TestLongArgumentsAreShownInPart(t *testing.T) {
	err := DecodeArguments(strings.Repeat("é", 5000), &struct{}{})
	if n := len(err.Error()); n > maxShownArguments+300 {
		t.Errorf("an error of %d bytes", n)
	}
}
