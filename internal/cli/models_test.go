package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
)

const providersFile = `
providers:
  - name: openai
    type: openai
    base_url: https://api.openai.com/v1
    models:
      - name: gpt-x
        window: 400000
        max_output: 128000
        vision: true
        body: {reasoning_effort: low, temperature: 0.2, stop: [a, b]}
  - name: lan
    type: openai
    base_url: http://10.0.0.7:8000/v1
    api_key_env: LAN_SECRET
    headers: {X-Team: braid}
    reasoning: always
    stream_usage: false
    idle_timeout: 15m
`

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "models.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestModelFlags(t *testing.T) {
	env := map[string]string{"OPENAI_API_KEY": "sk-one", "LAN_SECRET": "two"}
	getenv := func(name string) string { return env[name] }
	f := ModelFlags{File: Document{Path: file(t, providersFile)}, OpenAI: []string{"local=http://127.0.0.1:1/v1"}}
	var log bytes.Buffer
	c, err := f.Catalog(getenv, zerolog.New(&log))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Models(); !slices.Contains(got, "openai/gpt-x") {
		t.Errorf("models %q", got)
	}
	for model, there := range map[string]bool{"openai/gpt-x": true, "openai/gpt-y": false, "lan/any/thing": true, "local/llama": true, "shell/demo": true} {
		if _, err := c.Open(model); (err == nil) != there {
			t.Errorf("open %s: %v", model, err)
		}
	}
	if got := log.String(); strings.Count(got, "in the clear") != 1 || !strings.Contains(got, `"provider":"lan"`) {
		t.Errorf("log: %s", got)
	}
	for missing, says := range map[string]string{
		"OPENAI_API_KEY": "provider openai: its key is missing: the environment variable OPENAI_API_KEY is not set",
		"LAN_SECRET":     "provider lan: its key is missing: the environment variable LAN_SECRET is not set",
	} {
		_, err := f.Catalog(func(name string) string {
			if name == missing {
				return ""
			}
			return env[name]
		}, zerolog.Nop())
		if err == nil || err.Error() != says {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

func TestProviderKey(t *testing.T) {
	env := map[string]string{"MY_LAN_API_KEY": " k\n", "OPENAI_API_KEY": "o", "X": "x"}
	for why, c := range map[string]struct {
		config ProviderConfig
		want   string
	}{
		"by the provider's name, trimmed": {ProviderConfig{Name: "my-lan", BaseURL: "http://h"}, "k"},
		"none is needed":                  {ProviderConfig{Name: "other", BaseURL: "http://h"}, ""},
		"OpenAI under another name":       {ProviderConfig{Name: "other", BaseURL: "https://api.openai.com/v1"}, "o"},
		"OpenAI's key goes nowhere else":  {ProviderConfig{Name: "other", BaseURL: "https://api.openai.com.example/v1"}, ""},
		"what is configured comes before": {ProviderConfig{Name: "my-lan", APIKeyEnv: "X"}, "x"},
	} {
		if got, err := c.config.key(func(name string) string { return env[name] }); got != c.want || err != nil {
			t.Errorf("%s: %q, %v", why, got, err)
		}
	}
}

func TestParseProvidersRefuses(t *testing.T) {
	with := func(line string) string {
		return "providers:\n  - name: a\n    type: openai\n    base_url: http://h\n" + line
	}
	for why, c := range map[string]struct{ in, says string }{
		"no YAML":               {"providers: [", "f:1:"},
		"an unknown section":    {"provider: []", "f:1: unknown field"},
		"a key in the file":     {with("    api_key: sk-secret-in-file\n"), "f:5: unknown field \"api_key\""},
		"a field twice":         {with("    name: b\n"), "f:5:"},
		"a wrong type":          {with("    models: 7\n"), "f:5:"},
		"no name":               {"providers:\n  - type: openai\n    base_url: http://h\n", "providers[0].name:"},
		"a protocol unknown":    {"providers:\n  - name: a\n    type: telnet\n    base_url: http://h\n", "providers[0].type: it must be openai"},
		"no URL":                {"providers:\n  - name: a\n    type: openai\n", "providers[0].base_url:"},
		"a password":            {"providers:\n  - name: a\n    type: openai\n    base_url: http://u:pw-secret@h\n", "providers[0].base_url: base_url must not hold a user or password"},
		"a name twice":          {with("  - name: a\n    type: openai\n    base_url: http://h\n"), "providers[1].name: there are two"},
		"a model twice":         {with("    models: [{name: m}, {name: m}]\n"), "models[1].name: there are two"},
		"a model without name":  {with("    models: [{window: 1}]\n"), "models[0].name"},
		"a window of nothing":   {with("    models: [{name: m, window: -1}]\n"), "providers[0].models.m:"},
		"a body that is ours":   {with("    models: [{name: m, body: {stream: false}}]\n"), "must not set stream"},
		"reasoning unknown":     {with("    reasoning: maybe\n"), "providers[0].reasoning:"},
		"a header that is none": {with("    headers: {\"a b\": c}\n"), "providers[0].headers:"},
		"silence below nothing": {with("    idle_timeout: -1s\n"), "providers[0].idle_timeout:"},
		"silence of no unit":    {with("    idle_timeout: 5x\n"), "providers[0].idle_timeout:"},
	} {
		_, err := ParseProviders("f", []byte(c.in))
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", why, err, c.says)
		}
	}
}

func TestParseProviders(t *testing.T) {
	for _, empty := range []string{"", "providers:", "providers: []", "# nothing\n"} {
		if got, err := ParseProviders("f", []byte(empty)); err != nil || len(got) != 0 {
			t.Errorf("%q: %v, %v", empty, got, err)
		}
	}
	got, err := ParseProviders("f", []byte(providersFile))
	if err != nil {
		t.Fatal(err)
	}
	body := got[0].openAI("").Models["gpt-x"].Body
	if diff := cmp.Diff(`{"reasoning_effort":"low","stop":["a","b"],"temperature":0.2}`, string(body)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if c := got[1].openAI("k"); !c.NoStreamUsage || c.Reasoning != "always" || c.Idle.Minutes() != 15 || c.Header["X-Team"] != "braid" || c.APIKey != "k" {
		t.Errorf("%+v", c)
	}
}

func FuzzParseProviders(f *testing.F) {
	f.Add([]byte(providersFile))
	f.Fuzz(func(t *testing.T, in []byte) {
		if got, err := ParseProviders("f", in); err != nil && got != nil {
			t.Errorf("%v and %v", got, err)
		}
	})
}
