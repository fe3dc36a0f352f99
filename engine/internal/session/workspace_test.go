package session

import (
	"fmt"
	"strings"
	"testing"

	"braid/schemas"
)

// filing is a session whose model has called look, which needs no files, and write three times, which
// does.
func filing(t *testing.T) *play {
	p := newPlay(t).create(schemas.ApproveAll).task().do(ToolsListed{Tools: []schemas.ToolDefinition{
		{Name: "look", Permission: schemas.PermissionRead}, {Name: "write", Workspace: true},
	}})
	calls := []struct{ name, started string }{
		{"write", "-> tool c7-1 from 1.0"}, {"look", "-> tool c7-2 from 1.0"}, {"write", ""}, {"write", ""},
	}
	for i, c := range calls {
		p.say(schemas.NewToolCall(fmt.Sprint("theirs", i), c.name, "{}"))
		if got := strings.Join(p.effects("-> tool"), ", "); got != c.started {
			t.Errorf("call %d: %q", i+1, got)
		}
	}
	return p
}

// effects are those of the last step that begin so.
func (p *play) effects(prefix string) (all []string) {
	for _, line := range p.out {
		if strings.HasPrefix(line, prefix) {
			all = append(all, line)
		}
	}
	return all
}

func TestTheFirstCallOnFilesBindsTheSession(t *testing.T) {
	p := filing(t)
	p.do(ToolStarted{ToolCallID: "c7-2", Toolrunner: "r2"}).expect()
	p.do(ToolStarted{ToolCallID: "c7-1", Toolrunner: "r1", Volume: "v"}).expect(
		"workspace_bound r1 v", "-> tool c7-3 from 1.0 in v-v", "-> tool c7-4 from 1.0 in v-v")
	p.do(ToolStarted{ToolCallID: "c7-3", Toolrunner: "r2"}).expect()
	if b := p.s.Bound; b == nil || b.Toolrunner != "r1" || b.Pool() != schemas.VolumePool("v") {
		t.Errorf("bound to %+v", b)
	}
}

// One that never started says nothing, so the next one does.
func TestACallThatNeverStartedBindsNothing(t *testing.T) {
	p := filing(t)
	p.do(ToolEnded{ToolCallID: "c7-1", Attempt: 1, Result: schemas.ToolResult{Output: "[no]", Appends: true, StopReason: schemas.StopFailed}})
	if got := strings.Join(p.effects("-> tool"), ", "); got != "-> tool c7-3 from 1.0" {
		t.Errorf("then %v", p.out)
	}
	p.do(ToolStarted{ToolCallID: "c7-3", Toolrunner: "r1"}).expect("workspace_bound r1", "-> tool c7-4 from 1.0 in r-r1")
}

// The next owner holds back what this one did, and goes on where the log says the files are.
func TestTheBindingOutlivesItsOwner(t *testing.T) {
	p := filing(t).lost(0).takeOver()
	if got := strings.Join(p.effects("-> tool"), ", "); got != "-> tool c7-1 from 1.0, -> tool c7-2 from 1.0" {
		t.Errorf("the next owner does %v", p.out)
	}
	p = filing(t).do(ToolStarted{ToolCallID: "c7-1", Toolrunner: "r1"}).lost(0).takeOver()
	if got := strings.Join(p.effects("-> tool"), ", "); got != "-> tool c7-1 from 1.0 in r-r1, -> tool c7-2 from 1.0, "+
		"-> tool c7-3 from 1.0 in r-r1, -> tool c7-4 from 1.0 in r-r1" {
		t.Errorf("the next owner does %v", p.out)
	}
}

// What was held back is settled by an abort like everything else.
func TestAbortSettlesCallsThatWereHeldBack(t *testing.T) {
	p := filing(t).abort()
	if got := strings.Join(p.effects("-> tool"), ", "); got != "-> tool c7-3 from 1.0, -> tool c7-4 from 1.0" {
		t.Errorf("started: %v", got)
	}
	if got := len(p.effects("-> cancel")); got != 4 {
		t.Errorf("%d calls are cancelled", got)
	}
	p.ended(schemas.StopAborted).expect("end aborted 1 0")
	for n, id := range []string{"c7-4", "c7-1", "c7-3", "c7-2"} {
		p.do(ToolEnded{ToolCallID: id, Attempt: 1, Result: schemas.ToolResult{Output: "[no]", Appends: true, StopReason: schemas.StopAborted}})
		want := []string{"start", `delta "[no]"`, "stop aborted", `output "[no]" aborted`}
		if n == 3 {
			want = append(want, "abort enough", "task aborted user")
		}
		p.expect(want...)
	}
	p.task()
	input := p.s.Context
	if block, _ := input[0].Payload.(*schemas.Text); len(input) != 2 || block == nil || strings.Count(block.Text, "[tool_call_output ") != 4 {
		t.Errorf("the next input %+v", input)
	}
}
