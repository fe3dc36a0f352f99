package llm_test

import (
	"errors"
	"strings"
	"testing"

	"braid/llm"
	"braid/llm/llmtest"
	"braid/llm/shell"
	"braid/schemas"

	"github.com/google/go-cmp/cmp"
)

// named is a provider whose models panic.
type named string

func (n named) Name() string     { return string(n) }
func (n named) Models() []string { return []string{"b", "a"} }

func (n named) Model(string) (llm.Model, error) {
	return modelFunc(nil), nil
}

func TestCatalog(t *testing.T) {
	c, err := llm.NewCatalog(named("zoo"), &shell.Provider{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"shell/demo", "zoo/a", "zoo/b"}, c.Models()); diff != "" {
		t.Errorf("models (-want +got)\n%s", diff)
	}
	tests := []struct {
		name string
		code schemas.Code
		says string
	}{
		{"demo", schemas.CodeInvalid, "provider/model"},
		{"", schemas.CodeInvalid, "provider/model"},
		{"circus/a", schemas.CodeUnknownModel, "the providers are: shell, zoo"},
		{"shell/other", schemas.CodeUnknownModel, "only demo"},
	}
	for _, tt := range tests {
		if _, err := c.Open(tt.name); !errors.Is(err, &schemas.Error{Code: tt.code}) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("open %q: %v, want %s", tt.name, err, tt.code)
		}
	}
	m, err := c.Open("zoo/any/thing")
	if err != nil {
		t.Fatal(err)
	}
	if r := llmtest.Run(t, t.Context(), m, llm.Request{}); r.Status != schemas.StopFailed {
		t.Errorf("a model that panics is not guarded: %s", r.Status)
	}
	if err := c.Close(t.Context()); err != nil || c.Abandoned() != 0 {
		t.Errorf("close: %v, %d abandoned", err, c.Abandoned())
	}
}

func TestNewCatalogRefuses(t *testing.T) {
	for name, providers := range map[string][]llm.Provider{
		"an invalid name":      {named("a.b")},
		"a name that is taken": {named("a"), named("b"), named("a")},
	} {
		if _, err := llm.NewCatalog(providers...); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	c, err := llm.NewCatalog()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Open("a/b"); err == nil || !strings.Contains(err.Error(), "the providers are: none") {
		t.Errorf("an empty catalog: %v", err)
	}
}

func TestErrorInfo(t *testing.T) {
	cause := errors.New("cause")
	e := &llm.Error{Message: "m", Kind: llm.KindProvider, Provider: "p", Retryable: true, StatusCode: 529, Cause: cause}
	want := schemas.ErrorInfo{Kind: "provider", Provider: "p", Retryable: true, StatusCode: 529, Message: "m"}
	if diff := cmp.Diff(want, e.Info()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if e.Error() != "m" || !errors.Is(e, cause) {
		t.Errorf("as an error: %v", e)
	}
}
