package policy

import (
	"github.com/go-json-experiment/json/jsontext"

	"braid/engine/policy/internal/shell"
	"braid/schemas"
)

// Ruling is what the rules make of a call.
type Ruling string

// The rulings.
const (
	// Silent: no rule concerns the call.
	Silent Ruling = ""
	// Forbidden: the call must not run, whoever allows it.
	Forbidden Ruling = "forbidden"
	// Ask: a person must decide, whatever the approval mode says.
	Ask Ruling = "ask"
)

// Verdict is a ruling and where it comes from.
type Verdict struct {
	Ruling Ruling
	// Rule is the name of the rule that decided; empty if the ruling is Silent.
	Rule string
	// Reason is what the rule's author has to say to the model; it may be empty.
	Reason string
}

// Policy is a list of rules. The zero value and nil have none. It never changes, so any number of
// goroutines may use one.
type Policy struct {
	source      string
	rules       []*rule
	undecidable Undecidable
	scripts     map[string]string // by tool, the member that holds a shell script
}

// Source is the name of the file that the policy was read from; empty if there was none.
func (p *Policy) Source() string { return p.source }

// Len is how many rules there are.
func (p *Policy) Len() int { return len(p.rules) }

// Judge says what the rules make of a call: the first that surely matches forbids it. If there is
// none, the first that may match counts as the policy says of undecidable calls. arguments is the
// JSON of the call as the toolrunner gets it.
func (p *Policy) Judge(project, tool, arguments string) Verdict {
	if p == nil {
		return Verdict{}
	}
	var doubtful *rule
	c := p.call(tool, arguments)
	for _, r := range p.rules {
		if !r.concerns(project, tool) {
			continue
		}
		found := r.match(c)
		if found == shell.Yes {
			return Verdict{Ruling: Forbidden, Rule: r.name, Reason: r.reason}
		}
		if found == shell.Maybe && doubtful == nil {
			doubtful = r
		}
	}
	if doubtful == nil || p.undecidable == AllowUndecidable {
		return Verdict{}
	}
	v := Verdict{Ruling: Ask, Rule: doubtful.name, Reason: doubtful.reason}
	if p.undecidable == ForbidUndecidable {
		v.Ruling = Forbidden
	}
	return v
}

// call is one that is judged. What it costs to find out is found out once, and only if a rule asks.
type call struct {
	members    map[string]jsontext.Value
	unreadable bool   // tools may disagree about what the arguments are
	script     string // the member that holds a shell script; empty if none does
	reading    *shell.Reading
}

func (p *Policy) call(tool, arguments string) *call {
	c := &call{script: p.scripts[tool]}
	if isBlank(arguments) {
		return c
	}
	// Duplicate members are an error here: which of them counts differs from parser to parser.
	c.unreadable = schemas.DecodeJSON([]byte(arguments), &c.members) != nil
	return c
}

// runs reports whether the call's script runs a command of the pattern.
func (c *call) runs(p shell.Pattern) shell.Truth {
	if c.script == "" {
		return shell.No
	}
	if c.unreadable {
		return shell.Maybe
	}
	if c.reading == nil {
		c.reading = c.read()
	}
	return c.reading.Runs(p)
}

// read reads the call's script.
func (c *call) read() *shell.Reading {
	value, found := member(c.members, c.script)
	var reading shell.Reading
	switch text, ok := stringOf(value); {
	case found == shell.Maybe:
		reading.Unclear = "which member holds the script differs from parser to parser"
	case found == shell.Yes && ok:
		reading = shell.Read(text)
	}
	return &reading
}
