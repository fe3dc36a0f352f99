package session

import (
	"strings"
	"testing"

	"braid/schemas"
	"braid/schemas/schematest"
)

// contextLines is the context, a message a line.
func contextLines(s *State) string {
	var lines []string
	for _, m := range s.Context {
		m.Scope = schemas.ScopeAll
		lines = append(lines, schematest.FormatMessage(m))
	}
	return strings.Join(lines, "\n")
}

// A prompt that is a picture alone is a prompt: it opens a task, and an owner who comes later knows.
func TestPromptOfAPicture(t *testing.T) {
	p := newPlay(t).create(schemas.ApproveAll)
	p.command(schemas.Command{Type: schemas.CommandTask, Task: &schemas.TaskBody{Input: []schemas.InputTurn{{
		Role: schemas.RoleUser, Content: []schemas.InputPart{{Type: schemas.KindImageURL, ImageURL: schematest.Image("image/png", 99)}},
	}}}})
	if p.s.Task == nil || p.s.Task.ID != "k2" {
		t.Fatalf("the task is %+v", p.s.Task)
	}
	again := New(p.s.Session)
	for _, m := range p.log {
		again.Apply(m)
	}
	if again.Task == nil || again.Task.ID != "k2" || contextLines(again) != `image "image/png, 99 B"` {
		t.Errorf("folded: task %+v, context %s", again.Task, contextLines(again))
	}
}

// What tools showed in a turn that was cut off goes over to the next prompt with what they said.
func TestPicturesOfACutOffTurnAreKept(t *testing.T) {
	shot := schematest.Image("image/gif", 99)
	for name, end := range map[string]struct {
		how  func(*play)
		want string
	}{
		"aborted": {func(p *play) {
			p.abort()
			p.do(ModelEnded{Request: p.request, Status: schemas.StopAborted}).task()
		}, "turn_aborted"},
		"retried": {func(p *play) {
			p.do(ModelEnded{Request: p.request, Status: schemas.StopTimeout, Failure: &schemas.ErrorInfo{Kind: "provider"}})
			p.do(RetryDue{Request: p.request})
		}, "turn_retried"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t).create(schemas.ApproveAll).task()
			p.do(ToolsListed{Tools: []schemas.ToolDefinition{{Name: "look"}}})
			p.do(ModelMessage{Request: p.request, Message: schemas.New(p.now(), schemas.ToolCallFragment(schemas.PhaseStart, "x", "look", ""))})
			p.do(ModelMessage{Request: p.request, Message: schemas.New(p.now(), schemas.ToolCallFragment(schemas.PhaseStop, "x", "", ""))})
			p.do(ModelMessage{Request: p.request, Message: schemas.New(p.now(), schemas.NewToolCall("x", "look", ""))})
			call := p.s.Task.Request.Calls[0].ToolCallID
			p.do(ToolEnded{ToolCallID: call, Attempt: 1, Result: schemas.ToolResult{Output: "a shot", Images: []string{shot}}})
			end.how(p)
			context := contextLines(p.s)
			if !strings.Contains(context, end.want) || !strings.Contains(context, "a shot") {
				t.Fatalf("the context does not tell of the turn:\n%s", context)
			}
			if n := strings.Count(context, `image "image/gif, 99 B"`); n != 1 {
				t.Errorf("the context has the picture %d times:\n%s", n, context)
			}
		})
	}
}
