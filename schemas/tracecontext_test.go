package schemas_test

import (
	"strings"
	"testing"

	"braid/schemas"
)

const (
	someParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	someIDs    = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
)

func TestParseTraceContext(t *testing.T) {
	for why, c := range map[string]struct{ parent, state, wantParent, wantState string }{
		"as most send it":                 {someParent, "", someParent, ""},
		"not sampled":                     {"00-" + someIDs + "-00", "", "00-" + someIDs + "-00", ""},
		"random ids":                      {"00-" + someIDs + "-03", "", "00-" + someIDs + "-03", ""},
		"flags nobody knows yet":          {"00-" + someIDs + "-ff", "", "00-" + someIDs + "-03", ""},
		"a later version":                 {"01-" + someIDs + "-01", "", someParent, ""},
		"a later version that says more":  {"cc-" + someIDs + "-01-what.else", "", someParent, ""},
		"spaces around a header":          {" " + someParent + "\t", " a=1 ", someParent, "a=1"},
		"a state":                         {someParent, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7", someParent, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"},
		"as long a state as may be":       {someParent, strings.Repeat("a", schemas.MaxTraceState), someParent, strings.Repeat("a", schemas.MaxTraceState)},
		"a longer one":                    {someParent, strings.Repeat("a", schemas.MaxTraceState+1), someParent, ""},
		"a state with a line feed":        {someParent, "a=1\nb=2", someParent, ""},
		"a state that is not ASCII":       {someParent, "a=ü", someParent, ""},
		"nothing":                         {},
		"a state alone":                   {"", "a=1", "", ""},
		"words":                           {"a secret", "a=1", "", ""},
		"a version that is none":          {"ff-" + someIDs + "-01", "", "", ""},
		"a version in no hex":             {"0x-" + someIDs + "-01", "", "", ""},
		"this version, and more":          {someParent + "-00", "", "", ""},
		"a later version that runs on":    {"01-" + someIDs + "-011", "", "", ""},
		"capitals":                        {strings.ToUpper(someParent), "", "", ""},
		"no trace":                        {"00-00000000000000000000000000000000-b7ad6b7169203331-01", "", "", ""},
		"no span":                         {"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", "", "", ""},
		"a trace in no hex":               {"00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01", "", "", ""},
		"flags in no hex":                 {"00-" + someIDs + "-0g", "", "", ""},
		"too short":                       {"00-" + someIDs + "-1", "", "", ""},
		"other separators":                {strings.ReplaceAll(someParent, "-", "_"), "", "", ""},
		"a separator where a digit is":    {"00-" + strings.Replace(someIDs, "0af", "-af", 1) + "-01", "", "", ""},
		"two of them, as one header's":    {someParent + "," + someParent, "", "", ""},
		"a character of more than a byte": {"00-" + strings.Replace(someIDs, "0a", "ü", 1) + "-01", "", "", ""},
	} {
		got := schemas.ParseTraceContext(c.parent, c.state)
		if want := (schemas.TraceContext{TraceParent: c.wantParent, TraceState: c.wantState}); got != want {
			t.Errorf("%s: %+v, want %+v", why, got, want)
		}
		if again := schemas.ParseTraceContext(got.TraceParent, got.TraceState); again != got {
			t.Errorf("%s: read again it is %+v", why, again)
		}
	}
}
