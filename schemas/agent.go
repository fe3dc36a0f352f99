package schemas

import (
	"cmp"
	"fmt"
	"path"
	"slices"
)

// Agent is a named definition of what sessions run on. A session takes a copy when it is created, so
// what becomes of the definition later does not concern it.
type Agent struct {
	Name string `json:"name"`
	// Model is "provider/model"; FallbackModels go on with a task that it can't.
	Model          string   `json:"model"`
	FallbackModels []string `json:"fallback_models,omitzero"`
	SystemPrompt   string   `json:"system_prompt,omitzero"`
	// Tools are the tools its sessions may use, see [ToolAllowed].
	Tools        []string     `json:"tools,omitzero"`
	ApprovalMode ApprovalMode `json:"approval_mode,omitzero"`
	// ApprovalTimeoutMS is that of a [CreateBody].
	ApprovalTimeoutMS int64  `json:"approval_timeout_ms,omitzero"`
	Limits            Limits `json:"limits,omitzero"`
}

// Validate says what makes the definition unusable. The error is an *[Error] whose Field is the
// member.
func (a Agent) Validate() error {
	if err := ValidateName("name", a.Name); err != nil {
		return err
	}
	body := new(CreateBody).With(a)
	body.FallbackModels = a.FallbackModels // as they stand
	return body.validate()
}

// With is the body with what it leaves open taken from an agent's definition. Members of a body's
// limits are left open one by one.
func (b *CreateBody) With(a Agent) CreateBody {
	all := *b
	all.Model = cmp.Or(all.Model, a.Model)
	if all.FallbackModels == nil {
		all.FallbackModels = usableFallbacks(all.Model, a.FallbackModels)
	}
	if all.Tools == nil {
		all.Tools = slices.Clone(a.Tools)
	}
	all.SystemPrompt = cmp.Or(all.SystemPrompt, a.SystemPrompt)
	all.ApprovalMode = cmp.Or(all.ApprovalMode, a.ApprovalMode)
	all.ApprovalTimeoutMS = cmp.Or(all.ApprovalTimeoutMS, a.ApprovalTimeoutMS)
	all.Limits = all.Limits.or(a.Limits)
	return all
}

// or is the limits with what they leave open taken from others.
func (l Limits) or(others Limits) Limits {
	return Limits{
		MaxTurns:         cmp.Or(l.MaxTurns, others.MaxTurns),
		MaxTokensTask:    cmp.Or(l.MaxTokensTask, others.MaxTokensTask),
		MaxTokensSession: cmp.Or(l.MaxTokensSession, others.MaxTokensSession),
		MaxCostTask:      cmp.Or(l.MaxCostTask, others.MaxCostTask),
		MaxCostSession:   cmp.Or(l.MaxCostSession, others.MaxCostSession),
		LoopLimit:        cmp.Or(l.LoopLimit, others.LoopLimit),
		LoopWindow:       cmp.Or(l.LoopWindow, others.LoopWindow),
		OnLoop:           cmp.Or(l.OnLoop, others.OnLoop),
		RequestTimeoutMS: cmp.Or(l.RequestTimeoutMS, others.RequestTimeoutMS),
		IdleTimeoutMS:    cmp.Or(l.IdleTimeoutMS, others.IdleTimeoutMS),
	}
}

// MaxToolGlobs bounds how many patterns say which tools a session may use.
const MaxToolGlobs = 100

// ToolAllowed reports that a tool is among those that patterns name: names in which * stands for any
// characters and ? for one. Nil allows every tool, an empty list none.
func ToolAllowed(globs []string, tool string) bool {
	return globs == nil || slices.ContainsFunc(globs, func(glob string) bool {
		matched, err := path.Match(glob, tool)
		return matched && err == nil
	})
}

// validateTools checks the patterns of [ToolAllowed].
func validateTools(globs []string) error {
	if n := len(globs); n > MaxToolGlobs {
		return invalid("tools", "there are %d tools, the limit is %d", n, MaxToolGlobs)
	}
	for i, glob := range globs {
		if !validGlob(glob) {
			return invalid(fmt.Sprintf("tools[%d]", i), "%.80q names no tools: 1 to %d of the characters A-Z a-z 0-9 _ - * ?", glob, MaxNameLength)
		}
	}
	return nil
}

func validGlob(glob string) bool {
	letters := []byte(glob)
	for i, c := range letters {
		if c == '*' || c == '?' {
			letters[i] = '_'
		}
	}
	return ValidName(string(letters))
}
