package archtest

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const ticks = "```"

// healthy is a small repository that keeps every rule.
var healthy = map[string]string{
	"go.mod":         "module braid\n\nrequire (\n\texample.com/dep v1.2.3\n\texample.com/far v0.1.0 // indirect\n)\n",
	"schemas/doc.go": "// Package schemas is the vocabulary.\npackage schemas\n",
	"schemas/rules.go": `package schemas

import "errors"

var ErrBad = errors.New("bad")

var table = map[string]int{"a": 1}

func Lookup(k string) int { table := table; return table[k] }
`,
	"bus/bus.go": `// Package bus speaks to the broker.
package bus

import (
	"sync"

	"braid/schemas"

	"github.com/nats-io/nats.go"
)

func Run(wg *sync.WaitGroup, c *nats.Conn) { wg.Go(func() { schemas.Lookup(c.Name) }) }
`,
	"bus/bus_test.go": `package bus

import (
	"testing"

	"go.uber.org/goleak"

	"braid/bus/bustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) { bustest.Start(t) }
`,
	"bus/bustest/bustest.go": `// Package bustest starts brokers.
package bustest

import (
	"testing"

	"braid/bus"
)

func Start(t *testing.T) { _ = bus.Run }
`,
	"engine/engine.go": `// Package engine drives sessions.
package engine

import (
	"time"

	"braid/bus"
	"braid/engine/internal/session"
	"braid/trace"
)

var _ = []any{bus.Run, session.Step, trace.Open, time.Now}
`,
	"engine/internal/session/session.go": `// Package session is pure.
package session

import (
	"time"

	"braid/schemas"
)

func Step(now time.Time) time.Duration { _ = schemas.Lookup; return time.Second }
`,
	"trace/trace.go": `// Package trace keeps messages.
package trace

import "github.com/cockroachdb/pebble/v2"

func Open() { _ = pebble.Open }
`,
	"cmd/braid/main.go": `// Command braid is everything in one process.
package main

import (
	"fmt"
	"os"

	"braid/engine"
)

func main() { fmt.Println(engine.Run, os.Getenv("HOME")); os.Exit(1) }
`,
	"README.md": "# Braid\n\n" + ticks + "sh\ngo run ./cmd/braid run --model a/b 'one\ntwo'\ngo test ./...\n" + ticks + "\nSee [map](docs/architecture.md#package-map), `make test`.\n",
	"Makefile":  "test: ## run the tests\n\tgo test ./...\n",
	".ci/run":   "go run ./cmd/braid run --model a/b 'one\ntwo'\ngo test ./...\n",
	"docs/architecture.md": "# Architecture\n\n## Package map\n\n| package | owns |\n| --- | --- |\n" +
		"| `schemas` | words |\n| `bus`, `bus/bustest` | NATS |\n| `engine` | sessions |\n| `engine/internal/session` | core |\n| `trace` | Pebble |\n| `cmd/braid/` | all |\n",
	"docs/dependencies.md": "| module | version | why |\n| --- | --- | --- |\n| `example.com/dep` | v1.2.3 | needed |\n",
}

func load(t *testing.T, change map[string]string) *Tree {
	t.Helper()
	files := maps.Clone(healthy)
	maps.Copy(files, change)
	root := fstest.MapFS{}
	for name, text := range files {
		if text != "" { // an empty text removes the file
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	tree, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestHealthyRepositoryHasNoProblems(t *testing.T) {
	tree := load(t, nil)
	for name, rule := range allRules {
		for _, problem := range rule(tree) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// TestRulesFire breaks the healthy repository in one way at a time. Each case must be found by
// its own rule, at its place, and by no other rule.
func TestRulesFire(t *testing.T) {
	cases := []struct {
		name   string
		rule   string
		change map[string]string
		want   []string // a part of each problem, in order
	}{
		{"a lower package imports a higher one", "layers",
			map[string]string{"trace/up.go": "package trace\n\nimport _ \"braid/bus\"\n"},
			[]string{"trace/up.go:3: [layers] trace must not import bus: the store is filled by whoever"}},
		{"the core imports the broker package", "layers",
			map[string]string{"engine/internal/session/up.go": "package session\n\nimport _ \"braid/bus\"\n"},
			[]string{"return an effect"}},
		{"test support in product code", "layers",
			map[string]string{"engine/bad.go": "package engine\n\nimport _ \"braid/bus/bustest\"\n"},
			[]string{"would be linked into the product"}},
		{"a command is imported", "layers",
			map[string]string{"engine/bad.go": "package engine\n\nimport _ \"braid/cmd/braid\"\n"},
			[]string{"imported by nobody"}},
		{"a package takes flags", "layers",
			map[string]string{
				"internal/cli/cli.go": "// Package cli is.\npackage cli\n", "engine/bad.go": "package engine\n\nimport _ \"braid/internal/cli\"\n",
				"docs/architecture.md": healthy["docs/architecture.md"] + "| `internal/cli` | flags |\n",
			},
			[]string{"which is what the commands share"}},
		{"one provider imports another", "layers",
			map[string]string{
				"llm/a/a.go": "// Package a is.\npackage a\n\nimport _ \"braid/llm/b\"\n", "llm/b/b.go": "// Package b is.\npackage b\n",
				"docs/architecture.md": healthy["docs/architecture.md"] + "| `llm/a` | a |\n| `llm/b` | b |\n",
			},
			[]string{"a provider is a leaf"}},
		{"a package nobody thought of", "layers",
			map[string]string{
				"util/util.go":         "// Package util is.\npackage util\n",
				"docs/architecture.md": healthy["docs/architecture.md"] + "| `util` | things |\n",
			},
			[]string{"package util has no row"}},
		{"NATS outside bus", "libraries",
			map[string]string{"engine/bad.go": "package engine\n\nimport _ \"github.com/nats-io/nats.go/jetstream\"\n"},
			[]string{"only bus talks to NATS"}},
		{"NATS in a test outside bus", "libraries",
			map[string]string{"trace/bad_test.go": "package trace\n\nimport _ \"github.com/nats-io/nats-server/v2/server\"\n"},
			[]string{"only bus talks to NATS"}},
		{"Pebble outside trace", "libraries",
			map[string]string{"bus/bad.go": "package bus\n\nimport _ \"github.com/cockroachdb/pebble/v2\"\n"},
			[]string{"only trace knows Pebble"}},
		{"encoding/json", "libraries",
			map[string]string{"trace/bad.go": "package trace\n\nimport _ \"encoding/json\"\n"},
			[]string{"use schemas.EncodeJSON"}},
		{"testing in the product", "libraries",
			map[string]string{"trace/bad.go": "package trace\n\nimport _ \"testing\"\n"},
			[]string{"product code imports testing"}},
		{"a process started by an engine", "libraries",
			map[string]string{"engine/bad.go": "package engine\n\nimport _ \"os/exec\"\n"},
			[]string{"only a toolrunner starts processes"}},
		{"sleeping in the product", "calls",
			map[string]string{"trace/bad.go": "package trace\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n"},
			[]string{"trace/bad.go:5: [calls] time.Sleep is not used here"}},
		{"sleeping in a test", "calls",
			map[string]string{"trace/bad_test.go": "package trace\n\nimport zeit \"time\"\n\nfunc f() { zeit.Sleep(1) }\n"},
			[]string{"wait for a condition"}},
		{"the environment", "calls",
			map[string]string{"engine/bad.go": "package engine\n\nimport \"os\"\n\nvar _ = os.Getenv(\"X\")\n"},
			[]string{"read by commands only"}},
		{"ending the process", "calls",
			map[string]string{"engine/bad.go": "package engine\n\nimport \"os\"\n\nfunc f() { os.Exit(1) }\n"},
			[]string{"main decides"}},
		{"printing", "calls",
			map[string]string{"engine/bad.go": "package engine\n\nimport \"fmt\"\n\nfunc f() { fmt.Println() }\n"},
			[]string{"standard output"}},
		{"JSON past the helpers", "calls",
			map[string]string{"trace/bad.go": "package trace\n\nimport \"github.com/go-json-experiment/json\"\n\nvar _, _ = json.Marshal(1)\n"},
			[]string{"use schemas.EncodeJSON"}},
		{"a clock in the core", "purity",
			map[string]string{"engine/internal/session/bad.go": "package session\n\nimport \"time\"\n\nfunc f() time.Time { return time.Now() }\n"},
			[]string{"session/bad.go:5: [purity] engine/internal/session uses time.Now"}},
		{"randomness, locks and contexts in the core", "purity",
			map[string]string{"engine/internal/session/bad.go": "package session\n\nimport (\n\t_ \"context\"\n\t_ \"math/rand/v2\"\n\t_ \"sync\"\n)\n"},
			[]string{"imports context", "imports math/rand/v2", "imports sync"}},
		{"channels in the core", "purity",
			map[string]string{"engine/internal/session/bad.go": "package session\n\ntype t chan int\n"},
			[]string{"nothing here waits"}},
		{"a goroutine in the vocabulary", "purity",
			map[string]string{"schemas/bad.go": "package schemas\n\nfunc f() {\n\tgo f() // ends with the world\n}\n"},
			[]string{"schemas starts a goroutine"}},
		{"a file too long", "sizes",
			map[string]string{"trace/bad.go": "package trace\n" + strings.Repeat("\n", 601)},
			[]string{"602 lines, the limit is 600"}},
		{"a function too long", "sizes",
			map[string]string{"trace/bad.go": "package trace\n\nfunc f() {\n" + strings.Repeat("\n", 79) + "}\n"},
			[]string{"f has 81 lines, the limit is 80"}},
		{"a package nobody introduced", "package-comments",
			map[string]string{"trace/trace.go": "package trace\n"},
			[]string{"the package has no comment"}},
		{"a package introduced twice", "package-comments",
			map[string]string{"trace/bad.go": "// Package trace is.\npackage trace\n"},
			[]string{"introduced in trace/bad.go and trace/trace.go"}},
		{"a long introduction in the wrong file", "package-comments",
			map[string]string{"trace/trace.go": "// Package trace is.\n" + strings.Repeat("//\n", 20) + "package trace\n"},
			[]string{"belongs in doc.go"}},
		{"a list of files with a gap", "file-lists",
			map[string]string{
				"trace/trace.go": "// Package trace is.\n// Read a.go, then b.go; for bus/c.go see there.\npackage trace\n",
				"trace/a.go":     "package trace\n", "trace/b.go": "package trace\n", "trace/c.go": "package trace\n",
			},
			[]string{"trace/trace.go: [file-lists] the package comment tells its files, but not c.go:"}},
		{"init", "inits",
			map[string]string{"trace/bad.go": "package trace\n\nfunc init() {}\n"},
			[]string{"make a constructor"}},
		{"a naked go", "goroutines",
			map[string]string{"trace/bad.go": "package trace\n\nfunc f() {\n\tgo f()\n}\n"},
			[]string{"trace/bad.go:4: [goroutines] a naked go"}},
		{"a package variable that changes", "package-variables",
			map[string]string{"schemas/bad.go": "package schemas\n\nfunc f() { table[\"b\"] = 2; delete(table, \"a\") }\n\nfunc g(table map[string]int) { table[\"b\"] = 2 }\n"},
			[]string{"package variable table is changed", "package variable table is changed"}},
		{"a counter for the whole process", "package-variables",
			map[string]string{"trace/bad.go": "package trace\n\nvar n int\n\nfunc f() { n++ }\n"},
			[]string{"trace/bad.go:5: [package-variables] package variable n is changed"}},
		{"a lock for the whole process", "package-variables",
			map[string]string{"trace/bad.go": "package trace\n\nimport \"sync\"\n\nvar mu sync.Mutex\n"},
			[]string{"of type sync.Mutex"}},
		{"goroutines without a leak check", "leak-checks",
			map[string]string{"bus/bus_test.go": "package bus\n"},
			[]string{"goleak.VerifyTestMain"}},
		{"a path of one machine in a string", "paths",
			map[string]string{"trace/bad.go": "package trace\n\nconst dir = \"/" + "home/me/data\"\n"},
			[]string{"trace/bad.go:3: [paths]"}},
		{"a path of one machine in a document", "paths",
			map[string]string{"docs/operations.md": "Look at\n/" + "root/data.\n"},
			[]string{"docs/operations.md:2: [paths]"}},
		{"a package the map does not name", "package-map",
			map[string]string{"bus/wire/wire.go": "// Package wire is.\npackage wire\n"},
			[]string{"does not name bus/wire"}},
		{"a package the map still names", "package-map",
			map[string]string{"docs/architecture.md": healthy["docs/architecture.md"] + "| `gone` | nothing |\n"},
			[]string{"names gone, which is no package"}},
		{"a dependency without a reason", "dependencies",
			map[string]string{"go.mod": "module braid\n\nrequire example.com/new v1.0.0\n"},
			[]string{"example.com/new"}},
		{"a dependency whose version moved on", "dependencies",
			map[string]string{"go.mod": "module braid\n\nrequire example.com/dep v1.3.0\n"},
			[]string{"v1.3.0"}},
		{"a kind of message that the protocol does not know", "protocol",
			map[string]string{"schemas/kind.go": "package schemas\n\ntype Kind string\n\nconst (\n\tKindText Kind = \"text\"\n\tKindNew Kind = \"new_kind\"\n)\n", "docs/protocol.md": "`text`\n"},
			[]string{`schemas/kind.go:7: [protocol] neither docs/protocol.md nor docs/http.md names "new_kind"`}},
		{"a header that the protocol does not know", "protocol",
			map[string]string{"bus/header.go": "package bus\n\nconst header = \"Braid-New\"\n"},
			[]string{"Braid-New"}},
		{"continuous integration runs something else", "commands",
			map[string]string{".ci/run": "go run ./cmd/braid run --model a/b 'one\ntwo'\ngo vet ./...\n"},
			[]string{"does not run what README.md tells people to run: go test ./..."}},
		{"a README without commands", "commands",
			map[string]string{"README.md": "# Braid\n"},
			[]string{"its first two commands should be"}},
		{"a make target that is gone", "commands",
			map[string]string{"docs/operations.md": "Run `make everything`.\n"},
			[]string{"`make everything`"}},
		{"a dead link", "links",
			map[string]string{"docs/operations.md": "[there](nowhere.md)\n"},
			[]string{"leads nowhere: nowhere.md"}},
		{"a link to a heading that is gone", "links",
			map[string]string{"docs/operations.md": "# Operations\n\n## Backup of `data`\n\n[there](#backup-of-data), [here](operations.md#restore)\n"},
			[]string{"no heading of docs/operations.md is #restore"}},
	}
	covered := map[string]bool{}
	for _, c := range cases {
		covered[c.rule] = true
		t.Run(c.name, func(t *testing.T) {
			tree := load(t, c.change)
			for name, rule := range allRules {
				found := rule(tree)
				if name != c.rule {
					for _, p := range found {
						t.Errorf("another rule found something: %s", p)
					}
					continue
				}
				if len(found) != len(c.want) {
					t.Fatalf("found %v, want %d problems", found, len(c.want))
				}
				for i, want := range c.want {
					if !strings.Contains(found[i].String(), want) {
						t.Errorf("found %q, want it to contain %q", found[i], want)
					}
				}
			}
		})
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(allRules)), slices.Sorted(maps.Keys(covered))); diff != "" {
		t.Errorf("rules without a case that breaks them (-rules +cases):\n%s", diff)
	}
}

// TestNestedModulesAndTestdataAreNotOurs: tools have a module of their own, and test data may
// hold Go files that don't even parse.
func TestNestedModulesAndTestdataAreNotOurs(t *testing.T) {
	tree := load(t, map[string]string{
		"tools/go.mod": "module braid/tools\n", "tools/tools.go": "package tools\n\nfunc init() {}\n",
		"trace/testdata/broken.go": "not Go\n",
	})
	if got := tree.Packages(); slices.Contains(got, "tools") {
		t.Errorf("packages %v include the nested module", got)
	}
}

// TestReadmeCommandsMayTakeSeveralLines: a prompt in quotes goes on until the quote ends.
func TestReadmeCommandsMayTakeSeveralLines(t *testing.T) {
	want := []string{"go run ./cmd/braid run --model a/b 'one\ntwo'", "go test ./..."}
	if diff := cmp.Diff(want, ReadmeCommands(load(t, nil))); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

// TestFakeClocksMaySleep: in a synctest bubble a sleep takes no time.
func TestFakeClocksMaySleep(t *testing.T) {
	tree := load(t, map[string]string{
		"trace/ok_test.go": "package trace\n\nimport (\n\t_ \"testing/synctest\"\n\t\"time\"\n)\n\nfunc f() { time.Sleep(1) }\n",
	})
	if found := Calls(tree); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

// TestEveryLayerHasAReason: a refusal without one teaches nothing.
func TestEveryLayerHasAReason(t *testing.T) {
	for _, l := range layers {
		if l.why == "" {
			t.Errorf("layer %s has no reason", l.dir)
		}
	}
	for _, c := range confinements {
		if c.why == "" {
			t.Errorf("library %s has no reason", c.library)
		}
	}
}
