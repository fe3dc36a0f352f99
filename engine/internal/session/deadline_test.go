package session

import (
	"testing"

	"braid/schemas"
)

// urgent is a session whose first request is open, and that denies what nobody decides in 60 s.
func urgent(t *testing.T, mode schemas.ApprovalMode) *play {
	return newPlay(t).command(schemas.Command{Type: schemas.CommandCreate, Create: &schemas.CreateBody{
		Model: "pro/model", ApprovalMode: mode, ApprovalTimeoutMS: 60_000,
	}}).task().do(ToolsListed{Tools: []schemas.ToolDefinition{{Name: "look", Permission: schemas.PermissionRead}, {Name: "write"}}})
}

const denied = `output "Tool call denied: nobody decided in time." aborted`

func TestDeadline(t *testing.T) {
	first, second := schemas.NewToolCall("one", "write", "{}"), schemas.NewToolCall("two", "write", "{}")
	asks := func(t *testing.T) *play { return urgent(t, schemas.ApproveReadOnly).say(first) }
	waits := func(t *testing.T) *play { return asks(t).ended(schemas.StopCompleted) }
	refused := []string{"outcome not_pending", "-> answer"}
	for name, tt := range map[string]struct {
		play *play
		want []string
	}{
		"is set with the question": {asks(t),
			[]string{`call "write{}"`, "ask c7-1", "-> deadline of c7-1 at 60"}},
		"is set for whoever waits, one at a time": {asks(t).say(second),
			[]string{`call "write{}"`}},
		"of a session without end": {begun(t, schemas.ApproveAsk).say(first),
			[]string{`call "write{}"`, "ask c7-1"}},
		"of what asks nobody": {urgent(t, schemas.ApproveAll).say(first),
			[]string{`call "write{}"`, "allow c7-1", "-> tool c7-1 from 1.0"}},
		"denies, and the model goes on": {waits(t).deadline("c7-1", 60),
			[]string{"outcome applied", "deny c7-1", denied, "begin 1", "-> answer", "-> model 1"}},
		"denies while the model streams": {asks(t).deadline("c7-1", 61),
			[]string{"outcome applied", "deny c7-1", denied, "-> answer"}},
		"of the next call begins when that is asked about": {asks(t).say(second).deadline("c7-1", 61),
			[]string{"outcome applied", "deny c7-1", denied, "ask c7-2", "-> answer", "-> deadline of c7-2 at 60"}},
		"that comes early is set again": {waits(t).deadline("c7-1", 59),
			[]string{"outcome not_pending", "-> answer", "-> deadline of c7-1 at 60"}},
		"of another call changes nothing": {waits(t).deadline("c7-9", 61), refused},
		"nobody set":                      {begun(t, schemas.ApproveAsk).say(first).deadline("c7-1", 61), refused},
		"is cleared by a decision": {asks(t).approve("c7-1", schemas.DecisionAllow),
			[]string{"outcome applied", "allow c7-1", "-> answer", "-> tool c7-1 from 1.0", "-> no deadline of c7-1"}},
		"that comes after it does no harm":  {asks(t).approve("c7-1", schemas.DecisionAllow).deadline("c7-1", 61), refused},
		"comes too late for a decision too": {waits(t).deadline("c7-1", 61).approve("c7-1", schemas.DecisionAllow), refused},
		"moves on with the decision": {asks(t).say(second).approve("c7-1", schemas.DecisionDeny),
			[]string{"outcome applied", "deny c7-1", `output "Tool call denied by user." aborted`, "ask c7-2",
				"-> answer", "-> no deadline of c7-1", "-> deadline of c7-2 at 60"}},
		"is cleared by a new mode": {asks(t).set(schemas.ApproveAll),
			[]string{"outcome applied", "mode allow-all", "allow c7-1", "-> answer", "-> tool c7-1 from 1.0", "-> no deadline of c7-1"}},
		"is cleared by an abort": {waits(t).abort(),
			[]string{"outcome applied", "abort enough", "task aborted user", "-> answer", "-> no deadline of c7-1"}},
		"is cleared when the question is withdrawn": {asks(t).ended(schemas.StopFailed),
			[]string{"end failed 1 2000", "-> wait 2s", "-> no deadline of c7-1"}},
		"is set again by who takes over": {waits(t).lost(0).takeOver(),
			[]string{"owner e1>e2 lost", "-> deadline of c7-1 at 60"}},
		"holds for who takes over": {waits(t).lost(0).takeOver().deadline("c7-1", 60),
			[]string{"outcome applied", "deny c7-1", denied, "begin 1", "-> answer", "-> model 1"}},
		"has passed when somebody allows the call": {waits(t).commandAt(60, allows("c7-1")),
			[]string{"outcome not_pending", "deny c7-1", denied, "begin 1", "-> answer", "-> model 1", "-> no deadline of c7-1"}},
		"has not passed when somebody allows the call": {waits(t).commandAt(59, allows("c7-1")),
			[]string{"outcome applied", "allow c7-1", "-> answer", "-> tool c7-1 from 1.0", "-> no deadline of c7-1"}},
		"has passed when somebody decides on another call": {waits(t).commandAt(60, allows("c7-9")),
			[]string{"outcome not_pending", "deny c7-1", denied, "begin 1", "-> answer", "-> model 1", "-> no deadline of c7-1"}},
		"has passed when the mode changes": {asks(t).say(second).commandAt(60, sets(schemas.ApproveAll)),
			[]string{"outcome applied", "deny c7-1", denied, "mode allow-all", "allow c7-2",
				"-> answer", "-> tool c7-2 from 1.0", "-> no deadline of c7-1"}},
		"has passed when the mode changes to what it is": {waits(t).commandAt(60, sets(schemas.ApproveReadOnly)),
			[]string{"outcome applied", "deny c7-1", denied, "begin 1", "-> answer", "-> model 1", "-> no deadline of c7-1"}},
		"has passed when an owner takes over that would not ask": {wouldAsk(t).lost(0).at(60).takeOver(),
			[]string{"owner e1>e2 lost", "-> deadline of c7-1 at 60"}},
		"has passed, but not when somebody allowed the call": {wouldAsk(t).lost(0).at(60).takeOver().commandAt(59, allows("c7-1")),
			[]string{"outcome applied", "allow c7-1", "-> answer", "-> tool c7-1 from 1.0", "-> no deadline of c7-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.play.t = t
			tt.play.expect(tt.want...)
		})
	}
}

func allows(call string) schemas.Command {
	return schemas.Command{Type: schemas.CommandApprove, Approve: &schemas.ApproveBody{ToolCallID: call, Decision: schemas.DecisionAllow}}
}

func sets(mode schemas.ApprovalMode) schemas.Command {
	return schemas.Command{Type: schemas.CommandSet, Set: &schemas.SetBody{ApprovalMode: mode}}
}

// wouldAsk is a session whose call waits because a rule has a person asked, and nothing else does.
func wouldAsk(t *testing.T) *play {
	p := urgent(t, schemas.ApproveAll)
	p.s.Policy = wary(new(int))
	return p.call("write", `{"x":"odd"}`).ended(schemas.StopCompleted)
}

// One that came too early has its outcome: the same id would be answered with that.
func TestDeadlineIDs(t *testing.T) {
	p := urgent(t, schemas.ApproveAsk).call("write", "{}").ended(schemas.StopCompleted)
	seen := map[string]bool{}
	note := func(out Output) {
		for _, effect := range out.Effects {
			if e, ok := effect.(SetDeadline); ok {
				if seen[e.Command.ID] || e.Command.Validate() != nil {
					t.Errorf("%+v: %v", e.Command, e.Command.Validate())
				}
				seen[e.Command.ID] = true
			}
		}
	}
	for i := range uint64(3) {
		note(p.s.Step(p.now(), CommandReceived{Sequence: 100 + i, Time: p.now(), Command: schemas.Command{
			ID: "early", Type: schemas.CommandDeadline, Deadline: &schemas.DeadlineBody{ToolCallID: "c7-1"},
		}}))
	}
	next := p.lost(0)
	note(next.s.Step(p.now(), TakenOver{From: "e1", To: "e2", Cause: "lost"}))
	if len(seen) != 4 {
		t.Errorf("deadlines %v", seen)
	}
}
