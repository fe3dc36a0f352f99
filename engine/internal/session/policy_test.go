package session

import (
	"strings"
	"testing"

	"braid/schemas"
)

// wary is a policy that forbids calls whose arguments hold "bad", and has "odd" ones asked about. It
// counts what it is asked.
func wary(asked *int) Policy {
	return func(c *schemas.ToolCall) Ruling {
		*asked++
		switch {
		case strings.Contains(c.Arguments, "bad"):
			return Ruling{Forbid: true, Rule: "no-bad", Reason: "Be good."}
		case strings.Contains(c.Arguments, "odd"):
			return Ruling{Ask: true, Rule: "no-bad"}
		}
		return Ruling{}
	}
}

const forbiddenText = `output "Tool call denied by policy. Be good." aborted`

func TestPolicyBeforeModes(t *testing.T) {
	rows := []struct {
		mode      schemas.ApprovalMode
		arguments string
		want      []string
		why       string
	}{
		{schemas.ApproveAll, `"bad"`, []string{"forbidden c7-1 no-bad", forbiddenText, "-> tell c7-1 of no-bad"}, "no mode allows it"},
		{schemas.ApproveAsk, `"bad"`, []string{"forbidden c7-1 no-bad", forbiddenText, "-> tell c7-1 of no-bad"}, "nobody is asked"},
		{schemas.ApproveReadOnly, `"bad"`, []string{"forbidden c7-1 no-bad", forbiddenText, "-> tell c7-1 of no-bad"}, "reading is no excuse"},
		{schemas.ApproveNone, `"bad"`, []string{"forbidden c7-1 no-bad", forbiddenText, "-> tell c7-1 of no-bad"}, "the rule says more than the mode"},
		{schemas.ApproveAll, `"odd"`, []string{"ask c7-1 no-bad", "-> tell c7-1 of no-bad"}, "a person is asked all the same"},
		{schemas.ApproveReadOnly, `"odd"`, []string{"ask c7-1 no-bad", "-> tell c7-1 of no-bad"}, "the same"},
		{schemas.ApproveNone, `"odd"`, []string{"deny c7-1", `output "Tool call denied by user." aborted`, "-> tell c7-1 of no-bad"}, "the user has answered"},
		{schemas.ApproveAll, `"fine"`, []string{"allow c7-1", "-> tool c7-1 from 1.0"}, "no rule, so the mode counts"},
	}
	for _, row := range rows {
		asked := 0
		p := begun(t, row.mode)
		p.s.Policy = wary(&asked)
		arguments := `{"x":` + row.arguments + `}`
		p.call("look", arguments)
		call := schemas.NewToolCall("", "look", arguments)
		p.expect(append([]string{renderMessage(schemas.New(p.now(), call))}, row.want...)...)
		if t.Failed() {
			t.Fatalf("%s under %s: %s", row.arguments, row.mode, row.why)
		}
	}
}

// A call is judged once, however often the session comes round while a person is asked about it.
func TestPolicyIsAskedOnce(t *testing.T) {
	asked := 0
	p := begun(t, schemas.ApproveAll)
	p.s.Policy = wary(&asked)
	p.call("look", `{"x":"odd"}`).ended(schemas.StopCompleted).set(schemas.ApproveAsk).set(schemas.ApproveAll)
	p.expect("outcome applied", "mode allow-all", "-> answer")
	p.approve("c7-1", schemas.DecisionAllow)
	p.expect("outcome applied", "allow c7-1", "-> answer", "-> tool c7-1 from 1.0")
	if asked != 1 {
		t.Errorf("the policy was asked %d times", asked)
	}
}

// The next owner judges what is undecided by its own policy, and leaves alone what was decided.
func TestPolicyOfTheNextOwner(t *testing.T) {
	asked := 0
	p := begun(t, schemas.ApproveReadOnly).call("look", `{"x":"bad"}`).
		say(schemas.NewToolCall("another", "write", `{"x":"bad"}`)).ended(schemas.StopCompleted)
	next := p.lost(0)
	next.s.Policy = wary(&asked)
	next.takeOver()
	next.expect("owner e1>e2 lost", "forbidden c7-2 no-bad", forbiddenText, "-> tool c7-1 from 1.0", "-> tell c7-2 of no-bad")
	if asked != 1 {
		t.Errorf("the policy was asked about %d calls", asked)
	}
}
