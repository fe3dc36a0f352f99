package policy

import "testing"

func TestArguments(t *testing.T) {
	t.Parallel()
	p := mustParse(t, `
rules:
  - name: etc
    tools: [write_file]
    arguments: {/path: "/etc/*"}
  - name: nested
    arguments: {/edits/*/file: "*.pem", /force: "true"}
  - name: sql
    projects: ["prod-*"]
    arguments: {/query: {regexp: "(?i)\\bdrop\\s+table\\b"}}
  - name: first
    arguments: {/list/0: "x", /a~1b: "?"}
  - name: tool
    tools: ["danger*"]
`)
	for _, row := range []struct {
		project, tool, arguments string
		want                     Ruling
		why                      string
	}{
		{"p", "write_file", `{"path":"/etc/passwd"}`, Forbidden, "the glob matches"},
		{"p", "write_file", `{"path":"\u002fetc/\u0070asswd"}`, Forbidden, "escapes are no disguise"},
		{"p", "write_file", `{"\u0070ath":"/etc/passwd"}`, Forbidden, "nor in a name"},
		{"p", "write_file", `{"path":"/tmp/../etc/passwd"}`, Forbidden, "nor are detours"},
		{"p", "write_file", `{"path":"//etc/passwd"}`, Forbidden, "nor slashes"},
		{"p", "write_file", `{"path":"/etc/a b/c"}`, Forbidden, "a star takes blanks and slashes"},
		{"p", "write_file", `{"path":"/etcetera"}`, Silent, "another path"},
		{"p", "write_file", `{"path":["/etc/passwd"]}`, Silent, "a list is no text"},
		{"p", "write_file", `{"other":"/etc/passwd"}`, Silent, "another member"},
		{"p", "write_file", ``, Silent, "no arguments"},
		{"p", "read_file", `{"path":"/etc/passwd"}`, Silent, "another tool"},
		{"p", "write_file", `{"path":"/tmp/x","path":"/etc/passwd"}`, Ask, "a member twice: which one counts?"},
		{"p", "write_file", `{"path":"/tmp/x","Path":"/etc/passwd"}`, Ask, "names that differ in case"},
		{"p", "write_file", `{"PATH":"/etc/passwd"}`, Ask, "the same, alone"},
		{"p", "edit", `{"edits":[{"file":"a"},{"file":"b.pem"}],"force":true}`, Forbidden, "any element, and a value that is no text"},
		{"p", "edit", `{"edits":[{"file":"b.pem"}],"force":false}`, Silent, "all must match"},
		{"p", "edit", `{"edits":{"x":{"file":"b.pem"}},"force":true}`, Forbidden, "any member"},
		{"p", "edit", `{"edits":[{"file":"b.pem","file":"a"}],"force":true}`, Ask, "a member twice, deep inside"},
		{"prod-1", "db", `{"query":"DROP  table x"}`, Forbidden, "the regular expression matches, in this project"},
		{"dev", "db", `{"query":"DROP  table x"}`, Silent, "another project"},
		{"p", "x", `{"list":["x"],"a/b":"é"}`, Forbidden, "an index, and an escaped pointer"},
		{"p", "x", `{"list":[],"a/b":"é"}`, Silent, "there is no such element"},
		{"p", "dangerous", `{}`, Forbidden, "a tool"},
		{"p", "a danger", `{}`, Silent, "another tool"},
		{"p", "exec_command", `{"command":"` + "\\u0072m -r /" + `"}`, Silent, "no rule about commands"},
	} {
		if got := p.Judge(row.project, row.tool, row.arguments); got.Ruling != row.want {
			t.Errorf("%s: %s %s is %+v, want %q", row.why, row.tool, row.arguments, got, row.want)
		}
	}
}

// What happens to calls that nobody can tell about is the policy's choice, and a rule that surely
// matches counts before one that may.
func TestUndecidable(t *testing.T) {
	t.Parallel()
	const rules = `
rules:
  - name: may
    commands: [rm -r]
    reason: Not so.
  - name: surely
    commands: ["*"]
    arguments: {/sure: "yes"}
scripts: {run: script}
undecidable: `
	const doubtful = `{"script":"$X -r /"}`
	for way, want := range map[string]Verdict{
		"ask":    {Ruling: Ask, Rule: "may", Reason: "Not so."},
		"forbid": {Ruling: Forbidden, Rule: "may", Reason: "Not so."},
		"allow":  {},
	} {
		p := mustParse(t, rules+way)
		if got := p.Judge("p", "run", doubtful); got != want {
			t.Errorf("%s: %+v, want %+v", way, got, want)
		}
		if got := p.Judge("p", "run", `{"script":"ls; $X","sure":"yes"}`); got.Rule != "surely" || got.Ruling != Forbidden {
			t.Errorf("%s: %+v", way, got)
		}
		if got := p.Judge("p", "other", doubtful); got.Ruling != Silent {
			t.Errorf("%s: a tool without a script: %+v", way, got)
		}
	}
	var none *Policy
	if got := none.Judge("p", "run", doubtful); got != (Verdict{}) {
		t.Errorf("no policy: %+v", got)
	}
}
