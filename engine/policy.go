package engine

import (
	"braid/engine/internal/session"
	"braid/engine/policy"
	"braid/schemas"
)

// rules is the engine's policy for the tool calls of one session, as the core takes it; nil if there is none.
func rules(p *policy.Policy, ref schemas.SessionRef) session.Policy {
	if p == nil {
		return nil
	}
	return func(c *schemas.ToolCall) session.Ruling {
		v := p.Judge(ref.Project, c.Name, c.Arguments)
		return session.Ruling{
			Forbid: v.Ruling == policy.Forbidden, Ask: v.Ruling == policy.Ask, Rule: v.Rule, Reason: v.Reason,
		}
	}
}

// tellRuling logs what the policy has done to a call, without its arguments.
func (r *runner) tellRuling(e session.TellRuling) {
	did := "the policy has a person asked about a call"
	if e.Ruling.Forbid {
		did = "the policy has forbidden a call"
	}
	r.log.Info().Str("call", e.ToolCallID).Str("rule", e.Ruling.Rule).Msg(did)
}

// logPolicy says, once, which policy is in force.
func (e *Engine) logPolicy() {
	if e.policy != nil {
		e.log.Info().Str("policy", e.policy.Source()).Int("rules", e.policy.Len()).Msg("a policy judges tool calls")
	}
}
