package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// A layer is a row of the import table: what the packages of a directory may import of ours.
// An entry that ends in "/..." stands for a directory and all below it.
type layer struct {
	dir     string
	imports []string
	// tests is what its tests may import besides.
	tests []string
	// why says what the rule protects and what to do instead of breaking it.
	why string
}

// layers is the import table. The longest dir that fits is the one that counts.
var layers = []layer{
	{dir: "schemas",
		why: "schemas is the vocabulary that everything shares, so it stands on nothing; move what needs more to the package that has it"},
	{dir: "schemas/schematest", imports: []string{"schemas"},
		why: "it builds messages for everyone's tests, the vocabulary is all it needs"},
	{dir: "bus", imports: []string{"schemas", "bus/..."},
		why: "bus knows the broker and nothing of what is said over it; pass in what it needs, or let the caller combine both"},
	{dir: "llm", imports: []string{"schemas"},
		why: "the model interface knows messages only; how requests are stored, retried or priced is the engine's business"},
	{dir: "llm/", imports: []string{"schemas", "llm", "llm/internal/..."},
		why: "a provider is a leaf: it must be possible to delete one without touching another; what several share goes to llm/internal"},
	{dir: "trace", imports: []string{"schemas", "trace/internal/..."},
		why: "the store is filled by whoever reads the stream; it must work without a broker, in a test as in a tool"},
	{dir: "engine/internal/session", imports: []string{"schemas"},
		why: "the core decides what happens next and does none of it: return an effect and let package engine carry it out"},
	{dir: "engine/internal/schedule", tests: []string{"schemas", "bus", "llm", "engine", "engine/internal/session", "engine/internal/timelinetest", "engine/policy/..."},
		why: "it holds tests of the core, which need what batches its messages and nothing that waits"},
	{dir: "engine/internal/timelinetest", imports: []string{"schemas", "llm"},
		why: "it is notation, for whoever plays timelines and by whatever means"},
	{dir: "engine/policy", imports: []string{"schemas", "engine/policy/..."},
		why: "rules judge a call by what it says: a judgement that depends on anything else can't be repeated by the next owner"},
	{dir: "engine", imports: []string{"schemas", "bus", "llm", "trace", "engine/..."}, tests: []string{"toolrunner", "llm/openai"},
		why: "an engine reaches toolrunners and gateways over the bus, never by a call: they may be on other machines"},
	{dir: "toolrunner", imports: []string{"schemas", "bus", "toolrunner/..."},
		why: "a toolrunner runs where the tools are, without an engine; what it must know travels in the tool call"},
	{dir: "gateway", imports: []string{"schemas", "bus", "gateway/..."}, tests: []string{"engine", "toolrunner", "trace", "llm/..."},
		why: "a gateway holds no state and asks engines over the bus: a trace directory belongs to one process, and it is not this one"},
	{dir: "gateway/web",
		why: "the page knows the HTTP API, as any client does, and nothing of the server that hands it out"},
	{dir: "metrics", imports: []string{"schemas", "bus", "engine", "toolrunner", "gateway"}, tests: []string{"trace", "llm/..."},
		why: "it counts what others tell by their events; who does the work must not know who counts"},
	{dir: "spans", imports: []string{"schemas", "engine", "toolrunner"}, tests: []string{"bus", "trace", "llm/..."},
		why: "it draws what others tell by their events; who does the work must not know who draws"},
	{dir: "client", imports: []string{"schemas", "bus", "client/..."}, tests: []string{"engine", "gateway", "toolrunner", "trace", "llm/..."},
		why: "a client must be usable without linking the server"},
	{dir: "cmd", imports: []string{"..."},
		why: "commands wire everything"},
	{dir: "bench", imports: []string{"..."},
		why: "benchmarks run everything"},
	{dir: "deploy", tests: []string{"bus", "schemas", "deploy/deploytest"},
		why: "deploy holds configuration and its tests"},
	{dir: "deploy/deploytest", imports: []string{"bus"},
		why: "it starts brokers with the deployed configuration, for whatever a test lets its users do"},
	{dir: "internal/cli", imports: []string{"..."},
		why: "it is what the commands share"},
	{dir: "internal/archtest",
		why: "the rules look at the repository from outside"},
	{dir: "internal", imports: []string{"..."},
		why: "test support may use everything"},
}

// layerOf finds the row that fits best. A dir that ends in a slash fits only what lies below it.
func layerOf(dir string) (layer, bool) {
	var best layer
	for _, l := range layers {
		fits := within(dir, l.dir)
		if strings.HasSuffix(l.dir, "/") {
			fits = strings.HasPrefix(dir, l.dir)
		}
		if fits && len(l.dir) > len(best.dir) {
			best = l
		}
	}
	return best, best.dir != ""
}

// support may be imported by any test: packages made for that.
var support = []string{"schemas/schematest", "bus/bustest", "llm/llmtest", "llm/scripted", "llm/shell", "internal/..."}

// Layers checks what packages import of ours.
func Layers(t *Tree) []Problem {
	const rule = "layers"
	var found []Problem
	for _, f := range t.Files {
		row, ok := layerOf(f.Dir)
		if !ok {
			found = append(found, Problem{rule, f.Path, fmt.Sprintf("package %s has no row in the import table of internal/archtest/layers.go: say there what it may import, and why", f.Dir)})
			continue
		}
		for _, spec := range f.AST.Imports {
			target, ok := t.own(strings.Trim(spec.Path.Value, `"`))
			if !ok || allowed(f, row, target) {
				continue
			}
			text := fmt.Sprintf("%s must not import %s: %s (it may import %s)", f.Dir, target, row.why, list(row.imports))
			if within(target, "internal/cli") {
				text = fmt.Sprintf("%s imports internal/cli, which is what the commands share: a package takes an options struct", f.Dir)
			} else if within(target, "cmd") {
				text = fmt.Sprintf("%s imports the command %s: commands wire packages and are imported by nobody; move what you need into a package", f.Dir, target)
			} else if forTests(target) && !f.Test {
				text = fmt.Sprintf("%s imports %s, which exists for tests: it would be linked into the product; use it in _test.go files only", f.Dir, target)
			}
			found = append(found, Problem{rule, f.At(spec), text})
		}
	}
	return found
}

func allowed(f *Source, row layer, target string) bool {
	testing := f.Test || forTests(f.Dir)
	switch {
	case target == f.Dir: // a package's external test imports it
		return true
	case within(target, "internal/cli"):
		return within(f.Dir, "cmd")
	case within(target, "cmd"):
		return within(f.Dir, "cmd") && strings.Contains(target, "/internal")
	case forTests(target) && !testing:
		return false
	}
	permitted := slices.Clone(row.imports)
	if testing {
		permitted = append(append(permitted, row.tests...), support...)
	}
	return slices.ContainsFunc(permitted, func(p string) bool {
		if p == "..." {
			return true
		}
		if base, ok := strings.CutSuffix(p, "/..."); ok {
			return within(target, base)
		}
		return target == p
	})
}

func list(names []string) string {
	switch len(names) {
	case 0:
		return "nothing of ours"
	case 1:
		if names[0] == "..." {
			return "everything but commands"
		}
	}
	return strings.Join(names, ", ")
}

// A confinement says which packages may use a library.
type confinement struct {
	library string // an import path; all below it are meant too when it ends in "/"
	dirs    []string
	// tests lists directories whose tests may use it besides.
	tests []string
	why   string
}

var confinements = []confinement{
	{"github.com/nats-io/", []string{"bus", "deploy/deploytest"}, []string{"deploy", "internal/interop"},
		"only bus talks to NATS, so that fences, retries and error codes are read in one place; add what you need to bus"},
	{"github.com/cockroachdb/pebble/", []string{"trace"}, nil,
		"only trace knows Pebble, so that keys and crash safety live in one place; add a query to trace.Store"},
	{"github.com/spf13/", []string{"cmd", "internal/cli"}, nil,
		"flags belong to commands; a package takes an options struct"},
	{"github.com/prometheus/", []string{"metrics"}, nil,
		"only metrics knows Prometheus; a package tells what happens by its Events"},
	{"go.opentelemetry.io/", []string{"spans"}, nil,
		"only spans knows OpenTelemetry; a package tells what happens by its Events"},
	{"encoding/json", nil, []string{"schemas"}, // its tests show that other programs can read what we write

		"it escapes HTML, takes duplicate members and loses unknown ones; use schemas.EncodeJSON and schemas.DecodeJSON, or schemas.Encode and schemas.Decode for messages"},
	{"os/exec", []string{"toolrunner"}, []string{"."},
		"only a toolrunner starts processes: engines and gateways hold credentials and must not run what a model asks for"},
	{"net/http/pprof", []string{"cmd"}, nil,
		"it registers itself on the default mux; a command serves it on a port of its own"},
	{"log", nil, nil,
		"log lines have levels and fields; take a zerolog.Logger in the options"},
	{"math/rand", nil, nil,
		"it is superseded by math/rand/v2; secrets, nonces and ids come from crypto/rand"},
	{"unsafe", nil, nil,
		"nothing here needs it"},
}

// Libraries checks which packages use which libraries.
func Libraries(t *Tree) []Problem {
	const rule = "libraries"
	var found []Problem
	for _, f := range t.Files {
		for _, spec := range f.AST.Imports {
			target := strings.Trim(spec.Path.Value, `"`)
			for _, c := range confinements {
				fits := target == c.library || strings.HasSuffix(c.library, "/") && strings.HasPrefix(target+"/", c.library)
				if fits && !c.permits(f) {
					found = append(found, Problem{rule, f.At(spec), fmt.Sprintf("%s imports %s: %s", f.Dir, target, c.why)})
				}
			}
			if target == "testing" && !f.Test && !forTests(f.Dir) {
				found = append(found, Problem{rule, f.At(spec), "product code imports testing: put test support in a package whose name ends in test"})
			}
		}
	}
	return found
}

func (c confinement) permits(f *Source) bool {
	in := func(base string) bool { return base == "." || within(f.Dir, base) }
	return slices.ContainsFunc(c.dirs, in) || f.Test && slices.ContainsFunc(c.tests, in)
}
