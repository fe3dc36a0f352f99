package policy

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"braid/engine/policy/internal/shell"
)

// The bounds of a policy.
const (
	maxFile     = 256 << 10 // bytes
	maxRules    = 1000
	maxPatterns = 1000 // of one kind in one rule
	maxText     = 1024 // bytes of a reason, a glob or a regular expression
	maxName     = 64   // bytes of a rule's name
)

// Undecidable is what happens to calls of which nobody can tell whether a rule matches.
type Undecidable string

// The ways.
const (
	AskUndecidable    Undecidable = "ask"
	ForbidUndecidable Undecidable = "forbid"
	AllowUndecidable  Undecidable = "allow"
)

// The tool whose argument is known to be a shell script, and that argument.
const (
	scriptTool   = "exec_command"
	scriptMember = "command"
)

// Error is something wrong with a policy.
type Error struct {
	// File is the policy's name, Line where in it, from 1.
	File string
	Line int
	// Field is the path of what is wrong, such as rules[0].commands[2]; empty if it is no field.
	Field   string
	Message string
}

// Error renders the error as "file:line: field: message".
func (e *Error) Error() string {
	field := e.Field
	if field != "" {
		field += ": "
	}
	return fmt.Sprintf("%s:%d: %s%s", e.File, e.Line, field, e.Message)
}

// file is a policy as it is written.
type file struct {
	Undecidable string            `yaml:"undecidable"`
	Scripts     map[string]string `yaml:"scripts"`
	Rules       []fileRule        `yaml:"rules"`
}

type fileRule struct {
	Name      string                  `yaml:"name"`
	Reason    string                  `yaml:"reason"`
	Projects  []string                `yaml:"projects"`
	Tools     []string                `yaml:"tools"`
	Commands  []string                `yaml:"commands"`
	Arguments map[string]fileArgument `yaml:"arguments"`
}

// fileArgument is a glob, or a mapping with a regular expression.
type fileArgument struct{ glob, regexp string }

// UnmarshalYAML reads either of both.
func (a *fileArgument) UnmarshalYAML(read func(any) error) error {
	if read(&a.glob) == nil {
		return nil
	}
	var long struct {
		Regexp string `yaml:"regexp"`
	}
	err := read(&long)
	a.glob, a.regexp = "", long.Regexp
	if err == nil && a.regexp == "" {
		return errors.New("it must be a glob, or {regexp: ...}")
	}
	return err
}

// Load reads a policy file. What is wrong with it is an [Error], or several joined.
func Load(path string) (*Policy, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	defer f.Close() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	return Parse(path, data)
}

// Parse reads a policy; name is its name in errors and logs.
func Parse(name string, data []byte) (p *Policy, err error) {
	if len(data) > maxFile {
		return nil, &Error{File: name, Line: 1, Message: fmt.Sprintf("the policy is larger than %d bytes", maxFile)}
	}
	defer func() {
		// The YAML parser is not ours: should a file make it panic, the file is at fault.
		if r := recover(); r != nil {
			p, err = nil, &Error{File: name, Line: 1, Message: fmt.Sprintf("this can't be read as YAML: %v", r)}
		}
	}()
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, yamlError(name, err)
	}
	if len(tree.Docs) != 1 || tree.Docs[0].Body == nil {
		return nil, &Error{File: name, Line: 1, Message: "a policy is one YAML document with rules"}
	}
	var f file
	if err := yaml.UnmarshalWithOptions(data, &f, yaml.Strict()); err != nil {
		return nil, yamlError(name, err)
	}
	c := &compiler{name: name, root: tree.Docs[0].Body}
	p = c.policy(&f)
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	return p, nil
}

// yamlError is what the YAML parser has to say, in one line.
func yamlError(name string, err error) error {
	out := &Error{File: name, Line: 1, Message: err.Error()}
	if at, ok := errors.AsType[yaml.Error](err); ok {
		out.Message = at.GetMessage()
		if token := at.GetToken(); token != nil {
			out.Line = token.Position.Line
		}
	}
	return out
}

// compiler makes a policy of a file. It goes on after an error, so that one run tells all that is
// wrong.
type compiler struct {
	name string
	root ast.Node
	errs []error
}

// errorf notes what is wrong with a field.
func (c *compiler) errorf(field, format string, args ...any) {
	c.errs = append(c.errs, &Error{File: c.name, Line: c.line(field), Field: field, Message: fmt.Sprintf(format, args...)})
}

// line is where a field stands, or the nearest around it that stands somewhere.
func (c *compiler) line(field string) int {
	for field != "" {
		if path, err := yaml.PathString("$." + field); err == nil {
			if node, err := path.FilterNode(c.root); err == nil && node != nil && node.GetToken() != nil {
				return node.GetToken().Position.Line
			}
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return 1
}

func (c *compiler) policy(f *file) *Policy {
	p := &Policy{source: c.name, undecidable: Undecidable(f.Undecidable), scripts: map[string]string{scriptTool: scriptMember}}
	switch p.undecidable {
	case "":
		p.undecidable = AskUndecidable
	case AskUndecidable, ForbidUndecidable, AllowUndecidable:
	default:
		c.errorf("undecidable", "it must be ask, forbid or allow, not %.80q", f.Undecidable)
	}
	for tool, member := range f.Scripts {
		if tool == "" || member == "" {
			c.errorf("scripts", "it names, for each tool, the argument that holds a shell script")
		}
		p.scripts[tool] = member
	}
	if len(f.Rules) > maxRules {
		c.errorf("rules", "there are %d, the limit is %d", len(f.Rules), maxRules)
		return p
	}
	names := map[string]bool{}
	for i := range f.Rules {
		r := c.rule(fmt.Sprintf("rules[%d]", i), &f.Rules[i])
		if names[r.name] {
			c.errorf(fmt.Sprintf("rules[%d].name", i), "another rule is named %.80q", r.name)
		}
		names[r.name] = true
		p.rules = append(p.rules, r)
	}
	return p
}

func (c *compiler) rule(field string, f *fileRule) *rule {
	r := &rule{name: f.Name, reason: strings.TrimSpace(f.Reason)}
	switch {
	case isBlank(f.Name):
		c.errorf(field+".name", "a rule needs a name")
	case len(f.Name) > maxName:
		c.errorf(field+".name", "it has %d bytes, the limit is %d", len(f.Name), maxName)
	}
	if len(f.Reason) > maxText {
		c.errorf(field+".reason", "it has %d bytes, the limit is %d", len(f.Reason), maxText)
	}
	if len(f.Tools)+len(f.Commands)+len(f.Arguments) == 0 {
		c.errorf(field, "a rule needs tools, commands or arguments")
	}
	if n := max(len(f.Projects), len(f.Tools), len(f.Commands), len(f.Arguments)); n > maxPatterns {
		c.errorf(field, "it has %d patterns, the limit is %d", n, maxPatterns)
		return r
	}
	r.projects = c.globs(field+".projects", f.Projects)
	r.tools = c.globs(field+".tools", f.Tools)
	for i, text := range f.Commands {
		p, err := shell.ParsePattern(text)
		if err != nil {
			c.errorf(fmt.Sprintf("%s.commands[%d]", field, i), "%v", err)
		}
		r.commands = append(r.commands, p)
	}
	for _, pointer := range slices.Sorted(maps.Keys(f.Arguments)) {
		r.arguments = append(r.arguments, c.argument(field+".arguments", pointer, f.Arguments[pointer]))
	}
	return r
}

func (c *compiler) globs(field string, texts []string) (globs []shell.Glob) {
	for i, text := range texts {
		globs = append(globs, c.glob(fmt.Sprintf("%s[%d]", field, i), text))
	}
	return globs
}

func (c *compiler) glob(field, text string) shell.Glob {
	g, err := shell.ParseGlob(text)
	switch {
	case err != nil:
		c.errorf(field, "%.80q: %v", text, err)
	case text == "":
		c.errorf(field, "a pattern is empty")
	case len(text) > maxText:
		c.errorf(field, "it has %d bytes, the limit is %d", len(text), maxText)
	}
	return g
}

// argument compiles what a place in the arguments must hold.
func (c *compiler) argument(field, pointer string, f fileArgument) (a argument) {
	tokens := strings.Split(pointer, "/")
	if tokens[0] != "" || len(tokens) < 2 {
		c.errorf(field, "%.80q is no JSON pointer: it begins with a slash, as /path does", pointer)
		return argument{path: []string{""}}
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for _, token := range tokens[1:] {
		a.path = append(a.path, unescape.Replace(token))
	}
	if f.regexp == "" {
		a.glob = c.glob(field, f.glob)
		return a
	}
	var err error
	if a.regexp, err = regexp.Compile(f.regexp); err != nil {
		c.errorf(field, "%s: %v", pointer, err)
	}
	if len(f.regexp) > maxText {
		c.errorf(field, "%s has %d bytes, the limit is %d", pointer, len(f.regexp), maxText)
	}
	return a
}
