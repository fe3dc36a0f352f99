package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// configured runs a command named after a section with everything that can say what its flags are.
func configured(t *testing.T, section, yaml string, args, environ []string) (o struct {
	EngineFlags
	shown, failed string
}) {
	t.Helper()
	cmd := &cobra.Command{Use: section, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		var out bytes.Buffer
		defer func() { o.shown = out.String() }()
		if o.MaxSessions == 13 {
			return Usage("--max-sessions brings no luck, whatever --drain is")
		}
		return InForce(cmd, &out)
	}}
	o.Register(cmd.Flags())
	Configure(cmd, section)
	if yaml != "" {
		name := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(name, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		environ = append(environ, "BRAID_CONFIG="+name)
		defer func() { o.failed = strings.ReplaceAll(o.failed, name, "c.yaml") }()
		defer func() { o.shown = strings.ReplaceAll(o.shown, name, "c.yaml") }()
	}
	var stdout, stderr bytes.Buffer
	code := Execute(t.Context(), cmd, args, environ, &stdout, &stderr)
	if (code == ExitUsage) != (stderr.Len() > 0) {
		t.Errorf("exit code %d: %s", code, &stderr)
	}
	o.failed, _, _ = strings.Cut(stderr.String(), "\n")
	return o
}

func TestPrecedence(t *testing.T) {
	const yaml = "drain: 3s\nengine:\n  drain: 4s\ntoolrunner: {}\n"
	block := strings.Replace(yaml, "toolrunner: {}\n", "toolrunner:\n  drain: 9s\n", 1)
	for why, c := range map[string]struct {
		yaml          string
		args, environ []string
		want, from    string
	}{
		"the default":                          {"", nil, nil, "10s", "default"},
		"the file's top":                       {"drain: 3s", nil, nil, "3s", "c.yaml:1"},
		"the command's section beats the top":  {block, nil, nil, "4s", "c.yaml:3"},
		"the environment beats the file":       {block, nil, []string{"BRAID_DRAIN=5s"}, "5s", "BRAID_DRAIN"},
		"an empty variable says nothing":       {block, nil, []string{"BRAID_DRAIN="}, "4s", "c.yaml:3"},
		"the command line beats all":           {block, []string{"--drain=6s"}, []string{"BRAID_DRAIN=5s"}, "6s", "the command line"},
		"also where it repeats the default":    {block, []string{"--drain=10s"}, []string{"BRAID_DRAIN=5s"}, "10s", "the command line"},
		"also where the variable has no sense": {block, []string{"--drain=6s"}, []string{"BRAID_DRAIN=soon"}, "6s", "the command line"},
		"an empty file":                        {"# nothing\n", nil, nil, "10s", "default"},
		"an empty section":                     {"engine:\ndrain: 3s\n", nil, nil, "3s", "c.yaml:2"},
	} {
		o := configured(t, SectionEngine, c.yaml, c.args, c.environ)
		if o.failed != "" || o.Drain.String() != c.want || !strings.Contains(o.shown, "drain: "+c.want+" ") || !strings.Contains(o.shown, "# "+c.from+"\n") {
			t.Errorf("%s: %s, %s\n%s", why, o.Drain, o.failed, o.shown)
		}
	}
}

func TestLists(t *testing.T) {
	for why, c := range map[string]struct {
		yaml    string
		environ []string
		want    string
	}{
		"a list in the file":            {"openai: [a=http://a, b=http://b]", nil, "a=http://a|b=http://b"},
		"a list in lines":               {"openai:\n  - a=http://a\n  - b=http://b", nil, "a=http://a|b=http://b"},
		"one value is a list of it":     {"openai: a=http://a,b", nil, "a=http://a,b"},
		"none":                          {"openai: []", nil, ""},
		"commas in the environment":     {"openai: [c=x]", []string{"BRAID_OPENAI=a=http://a,b=http://b"}, "a=http://a|b=http://b"},
		"quotes around those of values": {"", []string{`BRAID_OPENAI="a=http://a?x,y",b=http://b`}, "a=http://a?x,y|b=http://b"},
	} {
		if o := configured(t, SectionEngine, c.yaml, nil, c.environ); strings.Join(o.Models.OpenAI, "|") != c.want || o.failed != "" {
			t.Errorf("%s: %q, %s", why, o.Models.OpenAI, o.failed)
		}
	}
}

func TestConfigRefuses(t *testing.T) {
	for why, c := range map[string]struct {
		yaml    string
		environ []string
		says    string
	}{
		"an unknown key":                  {"data: d\nmax_sesions: 3\n", nil, `c.yaml:2: unknown key "max_sesions"; did you mean "max-sessions"?`},
		"a section misspelt":              {"engin:\n  drain: 1s\n", nil, `c.yaml:1: unknown key "engin"; did you mean "engine"?`},
		"a key nothing like any":          {"colour: red\n", nil, `c.yaml:1: unknown key "colour"`},
		"an unknown key of a section":     {"engine:\n  data: x\n  dir: y\n", nil, `c.yaml:3: unknown key "dir"`},
		"one of another's section":        {"toolrunner:\n  slot: 3\n", nil, `c.yaml:2: unknown key "slot"; did you mean "slots"?`},
		"the flag that names the file":    {"config: x\n", nil, `c.yaml:1: unknown key "config"`},
		"a key twice":                     {"data: a\ndata: b\n", nil, `c.yaml:2: mapping key "data" already defined`},
		"no YAML":                         {"data: [\n", nil, "c.yaml:1: "},
		"no mapping":                      {"- data\n", nil, "c.yaml:1: the file must be a mapping"},
		"all in one line":                 {"{data: x}\n", nil, "c.yaml:1: the file must be a mapping"},
		"a section in one line":           {"engine: {data: x}\n", nil, "c.yaml:1: engine must be a mapping, with a line for each key"},
		"a section that is none":          {"\nengine: 7\n", nil, "c.yaml:2: engine must be a mapping"},
		"two documents":                   {"data: x\n---\ndata: y\n", nil, "one YAML document, not 2"},
		"nothing":                         {"data:\n", nil, "c.yaml:1: data has no value"},
		"an alias":                        {"data: &d x\npolicy: *d\n", nil, "c.yaml:1: data has no value that can be read"},
		"a mapping for a value":           {"data:\n  x: y\n", nil, "c.yaml:1: data: it must be a value"},
		"a list for a value":              {"data: [x]\n", nil, "c.yaml:1: data: it takes one value"},
		"a value of no sense":             {"data: x\ndrain: soon\n", nil, "c.yaml:2: drain: time: invalid duration"},
		"a variable of no sense":          {"", []string{"BRAID_DRAIN=soon"}, "BRAID_DRAIN: time: invalid duration"},
		"a variable that is no list":      {"", []string{`BRAID_OPENAI="a`}, "BRAID_OPENAI: must be values with commas"},
		"a file that is not there":        {"", []string{"BRAID_CONFIG=/nowhere/c.yaml"}, "read the configuration: open /nowhere/c.yaml"},
		"what its own code finds, file":   {"\nmax-sessions: 13\n", nil, "no luck, whatever --drain is (--max-sessions is from c.yaml:2)"},
		"what its own code finds, others": {"drain: 1s", []string{"BRAID_MAX_SESSIONS=13"}, "(--max-sessions is from BRAID_MAX_SESSIONS, --drain is from c.yaml:1)"},
	} {
		if o := configured(t, SectionEngine, c.yaml, nil, c.environ); !strings.Contains(o.failed, c.says) {
			t.Errorf("%s: %q, want %q", why, o.failed, c.says)
		}
	}
}

// What is for others is no error: all processes may read one file.
func TestOneFileForAll(t *testing.T) {
	o := configured(t, SectionEngine, "nats: nats://n\nslots: 3\ntoolrunner:\n  dir: /work\nrun:\n  model: a/b\n  whatever: [1]\n", nil, []string{"BRAID_SLOTS=x"})
	if o.failed != "" || o.Broker.URL != "nats://n" {
		t.Errorf("%q, %s", o.failed, o.Broker.URL)
	}
}

// The content of a file stands in the place of its name, and keeps its lines.
func TestDocuments(t *testing.T) {
	const yaml = `
# all there is
prices:
  shell/demo: {input: 1, output: 2}
engine:
  models:
    providers:
      - {name: lan, type: openai, base_url: "http://127.0.0.1:1"}
  # rules
  policy: {rules: [
      {name: r, commands: [rm]}]}
data: d
`
	o := configured(t, SectionEngine, yaml, nil, nil)
	if o.failed != "" {
		t.Fatal(o.failed)
	}
	prices, err := o.Models.PriceList()
	if err != nil || len(prices) != 1 {
		t.Errorf("%v, %v", prices, err)
	}
	providers, err := o.Models.providers()
	if err != nil || len(providers) != 1 || providers[0].Name != "lan" {
		t.Errorf("%v, %v", providers, err)
	}
	rules, err := o.Policy.Load()
	if err != nil || rules.Len() != 1 {
		t.Errorf("%v, %v", rules, err)
	}
	if o.Data != "d" || !strings.Contains(o.shown, "policy:  # c.yaml:10\n  rules:\n    - name: r\n      commands: [rm]\nprices:  # c.yaml:3\n") {
		t.Errorf("%s\n%s", o.Data, o.shown)
	}
	again := configured(t, SectionEngine, o.shown, nil, nil)
	if rules, err := again.Policy.Load(); err != nil || rules.Len() != 1 || again.failed != "" {
		t.Errorf("what is shown: %v, %v, %s", rules, err, again.failed)
	}
	for why, c := range map[string]struct{ good, bad, says string }{
		"a price":    {"{input: 1", "{inputs: 1", "[4:"},
		"a provider": {"type: openai", "kind: openai", "c.yaml:8: "},
		"a rule":     {"commands: [rm]", "command: [rm]", "c.yaml:11: "},
	} {
		o := configured(t, SectionEngine, strings.Replace(yaml, c.good, c.bad, 1), nil, nil)
		_, prices := o.Models.PriceList()
		_, models := o.Models.providers()
		_, policy := o.Policy.Load()
		if err := errors.Join(prices, models, policy); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s", why, err, c.says)
		}
	}
}

func TestMasked(t *testing.T) {
	o := configured(t, SectionEngine, "openai: ['a=http://h/v1?key=sk-hush']\nmodels:\n  x: {Api-Key: hush}", []string{"--nats-token=hush"}, []string{"BRAID_NATS=nats://u:hush@a:1,nats://hush@b:1"})
	if strings.Contains(o.shown, "hush") || !strings.Contains(o.shown, `nats-token: "***"`) || !strings.Contains(o.shown, "nats://***@a:1,nats://***@b:1") || o.failed != "" {
		t.Errorf("%s%s", o.failed, o.shown)
	}
}

func TestMaskedURLs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ why, name, value, want string }{
		{"a broker's URL needs no scheme", "nats", "hush@a:1,u:hush@b:1,c:1", "***@a:1,***@b:1,c:1"},
		{"with and without one", "nats", "tls://u:hush@a:1,nats://b:1,hush@c", "tls://***@a:1,nats://b:1,***@c"},
		{"a password with what should be escaped", "nats", "nats://u:hu/s@h@a:1", "nats://***@a:1"},
		{"names of keys as servers have them", "openai", "a=https://h/v1?api-version=1&Subscription-Key=hush", "a=https://h/v1?api-version=1&Subscription-Key=***"},
		{"in upper case", "server", "http://h/?TOKEN=hush", "http://h/?TOKEN=***"},
		{"behind a hash", "server", "http://h/#token=hush", "http://h/#token=***"},
		{"a path is no user", "data", "/srv/a@b", "/srv/a@b"},
	} {
		if got := masked(c.name, c.value); got != c.want {
			t.Errorf("%s: %s, want %s", c.why, got, c.want)
		}
	}
}

// What is printed can be given as a file, and says the same.
func TestInForceIsAConfiguration(t *testing.T) {
	first := configured(t, SectionEngine, "", nil, []string{"BRAID_DATA=a b: #c\\\"\n\té", "BRAID_OPENAI=x=y,z", "BRAID_MAX_SESSIONS=7", "BRAID_PRICES=-", "BRAID_NATS_CREDS=:"})
	second := configured(t, SectionEngine, first.shown, nil, nil)
	if second.failed != "" || second.Data != first.Data || len(second.Models.OpenAI) != 2 || second.MaxSessions != 7 || second.Models.Prices.Path != "-" || second.Broker.CredsFile != ":" {
		t.Errorf("%s\n%s\n%s", first.shown, second.failed, second.shown)
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add("nats: x\nengine:\n  policy: {rules: []}\n")
	f.Add("a:\n  b\n :c")
	f.Add("\"data\"  :\n   x: y")
	f.Fuzz(func(_ *testing.T, in string) {
		_, _ = parseConfig("f", []byte(in), SectionRun, nil)
	})
}
