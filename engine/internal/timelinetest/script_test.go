package timelinetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"braid/schemas"
)

func TestParse(t *testing.T) {
	got, err := Parse("# nothing\n" +
		"create mode=always-ask system=\"Be \\\"terse\\\".\" # a comment\n\n" +
		"  tool A says \"a # b=c\" unheard\n" +
		"allow A -> not_pending\n" +
		"await partial_text delta ... two\n")
	if err != nil {
		t.Fatal(err)
	}
	none := map[string]string{}
	want := []Cue{
		{Line: 2, Verb: "create", Options: map[string]string{"mode": "always-ask", "system": `Be "terse".`}, Rest: `mode=always-ask system="Be \"terse\"." # a comment`},
		{Line: 4, Verb: "tool", Args: []string{"A", "says", "a # b=c", "unheard"}, Options: none, Rest: `A says "a # b=c" unheard`},
		{Line: 5, Verb: "allow", Args: []string{"A"}, Options: none, Code: schemas.CodeNotPending, Rest: "A -> not_pending"},
		{Line: 6, Verb: "await", Args: []string{"partial_text", "delta", "...", "two"}, Options: none, Rest: "partial_text delta ... two"},
	}
	for i := range got {
		got[i].Text = ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, bad := range []string{`prompt "half`, `prompt "\q"`} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		pattern, line string
		want          bool
	}{
		{"event request_end", "event request_end completed", true},
		{"request_end", "event request_end completed", false},
		{"partial_text delta ... two", `partial_text delta "One, two, "`, true},
		{"partial_text delta ... three", `partial_text delta "One, two, "`, false},
	} {
		if got := Matches(tt.pattern, tt.line); got != tt.want {
			t.Errorf("%q in %q: %v", tt.pattern, tt.line, got)
		}
	}
}

func TestUnknownCommand(t *testing.T) {
	var k Commands
	for _, c := range []Cue{{Verb: "nonesuch"}, {Verb: "create", Options: map[string]string{"colour": "red"}}} {
		if _, _, err := k.Command(c, schemas.SessionRef{}, nil); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}
