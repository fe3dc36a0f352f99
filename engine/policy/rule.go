package policy

import (
	"braid/engine/policy/internal/shell"
)

// rule forbids the calls that match all it names.
type rule struct {
	name      string
	reason    string
	projects  []shell.Glob // any of these; all, if there is none
	tools     []shell.Glob // the same
	commands  []shell.Pattern
	arguments []argument
}

// concerns reports that the rule is about this project and this tool.
func (r *rule) concerns(project, tool string) bool {
	return anyOf(r.projects, project) && anyOf(r.tools, tool)
}

func anyOf(globs []shell.Glob, text string) bool {
	for _, g := range globs {
		if g.MatchText(text) {
			return true
		}
	}
	return len(globs) == 0
}

// match reports whether a call that the rule is about matches it.
func (r *rule) match(c *call) shell.Truth {
	found := shell.Yes
	for _, a := range r.arguments {
		if found = min(found, a.match(c)); found == shell.No {
			return shell.No
		}
	}
	if len(r.commands) == 0 {
		return found
	}
	runs := shell.No
	for _, p := range r.commands {
		if runs = max(runs, c.runs(p)); runs == shell.Yes {
			break
		}
	}
	return min(found, runs)
}
