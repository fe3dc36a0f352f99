package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// The rules in this file hold documents and code against one another: what exists is named, and what is
// named exists.

const (
	readme       = "README.md"
	makefile     = "Makefile"
	ciScript     = ".ci/run"
	architecture = "docs/architecture.md"
	dependencies = "docs/dependencies.md"
	protocol     = "docs/protocol.md"
	httpAPI      = "docs/http.md"
)

// documents lists the texts that people read: Markdown anywhere, the Makefile, scripts and
// configuration.
func (t *Tree) documents() []string {
	names := []string{makefile, ciScript, ".golangci.yml"}
	for _, dir := range []string{"docs", "deploy"} {
		// A directory that does not exist has no documents.
		_ = fs.WalkDir(t.root, dir, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && !strings.HasSuffix(name, ".go") {
				names = append(names, name)
			}
			return nil
		})
	}
	top, _ := fs.Glob(t.root, "*.md")
	return append(names, top...)
}

// mapRow is a row of the package map: a table cell that holds a path in backquotes, or several.
var (
	mapRow  = regexp.MustCompile("^\\| *(`[^|]*`) *\\|")
	mapPath = regexp.MustCompile("`([^`]+)`")
)

// PackageMap checks that docs/architecture.md names every package, and none that is gone.
func PackageMap(t *Tree) []Problem {
	const rule = "package-map"
	_, section, _ := strings.Cut(t.Document(architecture), "\n## Package map\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var named []string
	for line := range strings.Lines(section) {
		if row := mapRow.FindStringSubmatch(line); row != nil {
			for _, m := range mapPath.FindAllStringSubmatch(row[1], -1) {
				named = append(named, strings.TrimSuffix(m[1], "/"))
			}
		}
	}
	var found []Problem
	packages := t.Packages()
	for _, dir := range packages {
		if !slices.Contains(named, dir) {
			found = append(found, Problem{rule, architecture, fmt.Sprintf("the package map does not name %s: add a row that says what it owns", dir)})
		}
	}
	for _, name := range named {
		if !slices.Contains(packages, name) {
			found = append(found, Problem{rule, architecture, fmt.Sprintf("the package map names %s, which is no package: remove the row", name)})
		}
	}
	return found
}

// Dependencies checks that docs/dependencies.md gives a reason for each direct dependency, at
// the version in use.
func Dependencies(t *Tree) []Problem {
	const rule = "dependencies"
	text := t.Document(dependencies)
	var found []Problem
	for line := range strings.Lines(t.Document("go.mod")) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		fields := strings.Fields(line)
		if len(fields) != 2 || !strings.Contains(fields[0], ".") || !strings.HasPrefix(fields[1], "v") {
			continue // no requirement, or an indirect one
		}
		row := "| `" + fields[0] + "` | " + fields[1] + " |"
		if !strings.Contains(text, row) {
			found = append(found, Problem{rule, dependencies, fmt.Sprintf("no row begins with %q: say why we depend on it and what spoke against the alternatives", row)})
		}
	}
	return found
}

// Protocol checks that docs/protocol.md or docs/http.md names every kind, command and code of the
// vocabulary, and every header of our own that crosses a process.
func Protocol(t *Tree) []Problem {
	text := t.Document(protocol) + t.Document(httpAPI)
	var found []Problem
	for _, f := range t.Files {
		if f.Test || f.Dir != "schemas" && f.Dir != "bus" {
			continue
		}
		for _, decl := range f.AST.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.CONST {
				continue
			}
			for _, spec := range d.Specs {
				for _, word := range wireWords(spec.(*ast.ValueSpec)) {
					if !strings.Contains(text, word) {
						found = append(found, Problem{"protocol", f.At(spec), fmt.Sprintf("neither %s nor %s names %q: people write programs by them", protocol, httpAPI, word)})
					}
				}
			}
		}
	}
	return found
}

// wireWords are the values of constants that others see.
func wireWords(spec *ast.ValueSpec) []string {
	var words []string
	typ, _ := spec.Type.(*ast.Ident)
	for _, value := range spec.Values {
		literal, ok := value.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			continue
		}
		word := strings.Trim(literal.Value, "\"`")
		named := typ != nil && slices.Contains([]string{"Kind", "Code", "CommandType", "ApprovalMode", "RecordState", "ClaimState", "QueryOp", "ControlOp"}, typ.Name)
		if named || strings.HasPrefix(word, "Braid-") {
			words = append(words, word)
		}
	}
	return words
}

var (
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	makeUse    = regexp.MustCompile("`make ([a-z][a-z-]*)")
	goCommand  = regexp.MustCompile(`(?m)^(go (?:run|test) [^\n]*)$`)
	fenced     = regexp.MustCompile("(?s)```(?:sh|console)?\n(.*?)```")
)

// ReadmeCommands lists the first two commands of the README, which must work on a fresh machine
// that has Go and nothing else: the first runs an agent, the second runs the tests. A command
// whose quote is still open goes on over the following lines.
func ReadmeCommands(t *Tree) []string {
	var commands []string
	for _, block := range fenced.FindAllStringSubmatch(t.Document(readme), -1) {
		for _, at := range goCommand.FindAllStringIndex(block[1], -1) {
			command, rest := block[1][at[0]:at[1]], block[1][at[1]:]
			if strings.Count(command, "'")%2 == 1 {
				tail, _, _ := strings.Cut(rest, "'")
				command += tail + "'"
			}
			commands = append(commands, command)
		}
	}
	return commands[:min(len(commands), 2)]
}

// Commands checks that continuous integration runs the very commands the README shows, and that
// documents name only make targets that exist.
func Commands(t *Tree) []Problem {
	const rule = "commands"
	var found []Problem
	commands := ReadmeCommands(t)
	if len(commands) != 2 || !strings.HasPrefix(commands[0], "go run ./cmd/braid run ") || !strings.HasPrefix(commands[1], "go test ") {
		found = append(found, Problem{rule, readme, fmt.Sprintf("its first two commands should be `go run ./cmd/braid run ...` and `go test ...`, found %q", commands)})
	}
	for _, command := range commands {
		if !strings.Contains(t.Document(ciScript), command) {
			found = append(found, Problem{rule, ciScript, fmt.Sprintf("does not run what %s tells people to run: %s", readme, command)})
		}
	}
	var targets []string
	for _, m := range makeTarget.FindAllStringSubmatch(t.Document(makefile), -1) {
		targets = append(targets, m[1])
	}
	for _, name := range t.documents() {
		for _, m := range makeUse.FindAllStringSubmatch(t.Document(name), -1) {
			if !slices.Contains(targets, m[1]) {
				found = append(found, Problem{rule, name, fmt.Sprintf("speaks of `make %s`, which the Makefile does not have", m[1])})
			}
		}
	}
	return found
}

var (
	link     = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	unlinked = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Links checks that links between documents lead somewhere: to a file that there is and, after "#", to
// one of its headings.
func Links(t *Tree) []Problem {
	var found []Problem
	for _, name := range t.documents() {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(t.Document(name), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := name
			if m[1] != "" {
				target = path.Join(path.Dir(name), m[1])
			}
			if _, err := fs.Stat(t.root, target); err != nil {
				found = append(found, Problem{"links", name, "leads nowhere: " + m[1]})
			} else if m[2] != "" && !slices.Contains(anchors(t.Document(target)), m[2]) {
				found = append(found, Problem{"links", name, fmt.Sprintf("no heading of %s is #%s", target, m[2])})
			}
		}
	}
	return found
}

// anchors are the headings of a Markdown text as links name them.
func anchors(text string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.ReplaceAll(unlinked.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}
