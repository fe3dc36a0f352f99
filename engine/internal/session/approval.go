package session

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"braid/schemas"
)

// What the model reads when a call is not run.
const (
	deniedByUser   = "Tool call denied by user."
	deniedByPolicy = "Tool call denied by policy."
	deniedTooLate  = "Tool call denied: nobody decided in time."
)

// decideNext works through the approval queue: calls in call order, one at a time, up to the first one
// that waits for a person.
//
// The approval mode may have changed since that person was asked. If the new mode decides such a call, it
// does, unless the call's deadline has passed: then the call is denied by the command of the deadline,
// which the broker has stored although this owner may not have read it yet.
func (st *step) decideNext() {
	r := st.Task.Request
	if !r.live() || st.loopNear() {
		return
	}
	for _, c := range r.Calls {
		if c.Decision != "" {
			continue
		}
		if c.Asked && st.overdue(c) {
			return
		}
		if st.decideUnasked(c) {
			continue
		}
		if !c.Asked {
			st.emit(&schemas.ApprovalRequest{
				ToolCallID: c.ToolCallID, Name: c.Name, Arguments: c.Arguments,
				Hash: schemas.CallHash(c.Name, c.Arguments), Deadline: st.deadline(), Rule: c.ruling.Rule,
			})
		}
		return
	}
}

// decideUnasked decides a call that no person is needed for; false if one must be asked.
func (st *step) decideUnasked(c *Call) bool {
	if st.loopEnds() {
		st.decide(c, schemas.DecisionForbidden)
		return true
	}
	if problem := st.unusable(c); problem != "" {
		st.emit(&schemas.ApprovalDecision{Decision: schemas.DecisionForbidden, ToolCallID: c.ToolCallID})
		st.emit(schemas.NewToolCallOutput(c.ToolCallID, problem, schemas.StopFailed))
		return true
	}
	ruling := st.rule(c)
	if ruling.Forbid {
		st.forbid(c, ruling)
		return true
	}
	switch {
	case st.Mode == schemas.ApproveNone: // the user's standing answer
		st.decide(c, schemas.DecisionDeny)
	case ruling.Ask:
		return false
	case st.Mode == schemas.ApproveAll:
		st.decide(c, schemas.DecisionAllow)
	case st.Mode == schemas.ApproveReadOnly:
		if st.Tools[c.Name].Permission != schemas.PermissionRead {
			return false
		}
		st.decide(c, schemas.DecisionAllow)
	default: // always-ask, and whatever a newer version may have written
		return false
	}
	return true
}

// decide records the decision. An allowed call starts once that is stored; any other gets its
// output right behind.
func (st *step) decide(c *Call, d schemas.Decision) {
	switch d {
	case schemas.DecisionAllow:
		st.emit(&schemas.ApprovalDecision{Decision: d, ToolCallID: c.ToolCallID})
		st.startTool(c, false)
	case schemas.DecisionDeny:
		st.reject(c, d, deniedByUser)
	default:
		st.reject(c, d, deniedByPolicy)
	}
}

// reject records a decision against the call and what the model reads instead of its output.
func (st *step) reject(c *Call, d schemas.Decision, text string) {
	st.emit(&schemas.ApprovalDecision{Decision: d, ToolCallID: c.ToolCallID})
	st.emit(schemas.NewToolCallOutput(c.ToolCallID, text, schemas.StopAborted))
}

// refuseDecision says why a decision on the call can't be taken, whoever made it; nil if it can.
func (st *step) refuseDecision(b *schemas.ApproveBody) *schemas.Error {
	c := st.call(b.ToolCallID)
	if c == nil || st.Task.Aborting || !st.Task.Request.awaitsPerson(c) {
		text := "tool call %s does not wait for a decision"
		if c != nil && c.Decision != "" {
			return schemas.Errorf(schemas.CodeNotPending, text+"; it was decided: %s", b.ToolCallID, c.Decision)
		}
		return schemas.Errorf(schemas.CodeNotPending, text, b.ToolCallID)
	}
	if b.Hash != "" && b.Hash != schemas.CallHash(c.Name, c.Arguments) {
		return schemas.Errorf(schemas.CodeHashMismatch, "the decision is about another call than the one that waits")
	}
	return nil
}

// unusable says, to the model, why a call can't be run whoever allows it; empty if it can.
func (st *step) unusable(c *Call) string {
	if c.StopReason != "" && c.StopReason != schemas.StopCompleted {
		return "The call was cut off before it was complete, and was not run."
	}
	if _, ok := st.Tools[c.Name]; !ok {
		available := "No tools are available."
		if len(st.Tools) > 0 {
			available = "Available tools: " + strings.Join(slices.Sorted(maps.Keys(st.Tools)), ", ") + "."
		}
		return fmt.Sprintf("There is no tool named %.80q. %s", c.Name, available)
	}
	args := jsontext.Value(c.Arguments)
	if len(strings.TrimSpace(c.Arguments)) == 0 {
		return "" // no arguments are an empty object
	}
	if err := args.Compact(); err != nil {
		return fmt.Sprintf("The arguments are not valid JSON, and the call was not run: %v. They were: %.800s", err, c.Arguments)
	}
	if args.Kind() != jsontext.KindBeginObject {
		return fmt.Sprintf("The arguments must be a JSON object, and the call was not run. They were: %.800s", c.Arguments)
	}
	return ""
}
