package cli

import (
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"
)

// A document that is printed is that document.
func TestPrintedDocuments(t *testing.T) {
	odd := []string{
		"yes", "null", "~", "1", "1.0", "0x1", "1_000", "1e3", "-.inf", ".NaN", "- a", "a: b", "2026-01-02", "<<", "=", "|", "", " ",
		"a\n", "a\n\n", " a\n b", "a\n b\n\n\nc", "\na", "a\r\nb", "a \nb", "a\tb\nc", "a\u2028b\nc", "\x00\x1b\u0085\U000e0001", "#a\n- b: c\n", "---\n...\n",
	}
	text := rapid.OneOf(rapid.SampledFrom(odd), rapid.StringMatching("[ a-c:#'\"\n\t|>%@&*!?,\\[\\]{}-]{0,12}"), rapid.String())
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		plain := rapid.OneOf(text.AsAny(), rapid.SampledFrom([]any{uint64(7), int64(-7), 0.5, 1e-7, true, nil}))
		if depth == 0 {
			return plain
		}
		return rapid.OneOf(plain, rapid.SliceOfN(value(depth-1), 0, 3).AsAny(), members(value(depth-1)).AsAny())
	}
	rapid.Check(t, func(t *rapid.T) {
		content := members(value(3)).Draw(t, "content")
		d := Document{inline: []byte(mappingText(byName, content, 0) + "\n")}
		got, err := readMembers(d.inline)
		if len(content) == 0 {
			content = nil
		}
		if len(got) == 0 {
			got = nil
		}
		if err != nil || !reflect.DeepEqual(content, got) {
			t.Fatalf("%#v is printed as\n%s\nwhich is %#v, %v", content, d.inline, got, err)
		}
	})
}

// members are mappings whose names say nothing of secrets.
func members(value *rapid.Generator[any]) *rapid.Generator[yaml.MapSlice] {
	return rapid.Custom(func(t *rapid.T) (all yaml.MapSlice) {
		all = yaml.MapSlice{}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b c", "d: #", "1", "true", "*", ""}), 0, 3, rapid.ID).Draw(t, "names") {
			all = append(all, yaml.MapItem{Key: name, Value: value.Draw(t, "value")})
		}
		return all
	})
}

func TestDocumentsWithoutTheirSecrets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ why, content, want string }{
		{"a key that stands where its variable's name should", "{api_key_env: sk-hush}", `api_key_env: "***"`},
		{"the name of a variable is none", "{api_key_env: LAN_KEY}", "api_key_env: LAN_KEY"},
		{"any header may be one", "{headers: {X-Odd: hush}}", "X-Odd: \"***\""},
		{"further members of requests", "{body: {x: {apiKey: hush, PASSWORD: 1234, tokens: 5}}}", "apiKey: \"***\"\n      PASSWORD: \"***\"\n      tokens: 5"},
		{"names in one word, of many, with more behind", "{body: {secretKey: hush, accessKeys: [hush], tokens: [hush], auth_header: hush, pwd: hush}}", "secretKey: \"***\""},
		{"members of a secret, in what is sent as it is", "{body: {credentials: {user: u, values: [{a: hush, b: 7}]}}}", "user: \"***\"\n      values:\n        - a: \"***\"\n          b: \"***\"\n"},
		{"headers of others, and in another shape", "{Headers: ['X-A: hush'], body: {extra_headers: {x: {y: hush}}}}", "\"y\": \"***\""},
		{"what only looks like one", "{api_key_header: X-Key, body: {max_tokens: 5, stop_token_ids: [7], tokenizer: bpe}}", "api_key_header: X-Key\n  body:\n    max_tokens: 5\n    stop_token_ids: [7]\n    tokenizer: bpe"},
		{"a list of them", "{secret: [hush, hush]}", `secret: ["***", "***"]`},
		{"a user of a URL", "{base_url: 'http://u:hush@h/v1'}", `base_url: "http://***@h/v1"`},
		{"an agent may have such a name", "{auth: {model: a/b, limits: {max_tokens_task: 5}}}", "auth:\n    model: a/b\n    limits:\n      max_tokens_task: 5"},
		{"text in lines", "{system_prompt: \"You review.\\n\\n  Ask.\\n\"}", "system_prompt: |\n    You review.\n\n      Ask.\n"},
		{"rules", "{rules: [{name: a, commands: [rm, 'git push -f']}, {name: b}]}", "rules:\n    - name: a\n      commands: [rm, \"git push -f\"]\n    - name: b\n"},
		{"nothing", "{}", "policy: {}  # c.yaml:3\n"},
		{"what names something elsewhere in the file", "{a: *elsewhere}", "# policy:  # c.yaml:3, which can't be read\n"},
	} {
		d := Document{inline: []byte("\n\n" + c.content)}
		got := d.shown("policy", "c.yaml:3")
		if !strings.Contains(got, c.want) || strings.Contains(got, "hush") {
			t.Errorf("%s:\n%s", c.why, got)
		}
	}
}
