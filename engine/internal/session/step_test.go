package session

import (
	"slices"
	"strings"
	"testing"
	"time"

	"braid/schemas"
)

// A tool that runs again says so in its output, once there is some.
func TestNewAttempt(t *testing.T) {
	running := func(t *testing.T) *play {
		return begun(t, schemas.ApproveAll).call("look", "{}").ended(schemas.StopCompleted)
	}
	again := ToolOutput{schemas.ToolFragment{ToolCallID: "c7-1", Attempt: 2, Text: "two"}}
	p := running(t).do(ToolOutput{schemas.ToolFragment{ToolCallID: "c7-1", Attempt: 1, Text: "one"}})
	p.do(again).expect(`delta "\n[the toolrunner was lost; attempt 2 follows]\n"`, `delta "two"`)
	if attempt, offset := p.s.Merged("c7-1"); attempt != 2 || offset != 3 {
		t.Errorf("merged %d.%d", attempt, offset)
	}
	p.do(ToolOutput{schemas.ToolFragment{ToolCallID: "c7-1", Attempt: 1, Offset: 3, Text: "late"}}).expect()
	p.do(ToolOutput{schemas.ToolFragment{ToolCallID: "c7-1", Attempt: 2, Offset: 9, Text: "hole"}}).expect("-> resend c7-1 from 2.3")
	p.do(ToolEnded{ToolCallID: "c7-1", Attempt: 2, Result: schemas.ToolResult{Output: "two!", StopReason: schemas.StopCompleted}}).expect(
		`delta "!"`, "stop", `output "one\n[the toolrunner was lost; attempt 2 follows]\ntwo!"`, "begin 1", "-> model 1")

	running(t).do(again).expect("start", `delta "two"`)
	running(t).do(ToolOutput{schemas.ToolFragment{ToolCallID: "nobody", Attempt: 1, Text: "x"}}).expect()
	if attempt, _ := p.s.Merged("nobody"); attempt != 0 {
		t.Error("an unknown call has an attempt")
	}
}

// Images travel in a delta of their own before the stop, and with the complete output.
func TestImages(t *testing.T) {
	p := begun(t, schemas.ApproveAll).call("look", "{}").ended(schemas.StopCompleted)
	p.do(ToolEnded{ToolCallID: "c7-1", Attempt: 1, Result: schemas.ToolResult{
		Output: "see", Images: []string{"data:image/png;base64,AA=="}, StopReason: schemas.StopCompleted,
	}}).expect("start", `delta "see"`, "delta image", "stop", `output "see" image`, "begin 1", "-> model 1")
}

// What an owner writes about a call stands on a line of its own.
func TestOwnersResult(t *testing.T) {
	lost := ToolEnded{ToolCallID: "c7-1", Attempt: 1, Result: schemas.ToolResult{Output: "[lost]", Appends: true, StopReason: schemas.StopFailed}}
	running := func(t *testing.T) *play { return begun(t, schemas.ApproveAll).call("look", "{}") }
	running(t).do(lost).expect("start", `delta "[lost]"`, "stop failed", `output "[lost]" failed`)
	p := running(t).do(ToolOutput{schemas.ToolFragment{ToolCallID: "c7-1", Attempt: 1, Text: "half"}})
	p.do(lost).expect(`delta "\n[lost]"`, "stop failed", `output "half\n[lost]" failed`)
	p.do(lost).expect() // only the first counts
}

// A task that is given up leaves nothing unpaired, and no call that could still start.
func TestGaveUp(t *testing.T) {
	gaveUp := GaveUp{Message: "no more"}
	newPlay(t).create("").do(gaveUp).expect()
	newPlay(t).create("").task().do(gaveUp).expect("abort no more", "task failed engine")
	begun(t, schemas.ApproveAll).say(schemas.TextFragment(schemas.PhaseStart, ""), schemas.TextFragment(schemas.PhaseDelta, "hel")).do(gaveUp).expect(
		"stop failed", `text "hel" failed`, "end failed 1 0", "abort no more", "task failed engine", "-> stop model")
	begun(t, schemas.ApproveAsk).call("write", "{}").ended(schemas.StopCompleted).do(gaveUp).expect("abort no more", "task failed engine")
	p := begun(t, schemas.ApproveAll).call("look", "{}").ended(schemas.StopCompleted).lost(0).do(gaveUp)
	p.expect(
		"start", `delta "[no more; the outcome of the call is unknown]"`, "stop failed",
		`output "[no more; the outcome of the call is unknown]" failed`, "abort no more", "task failed engine",
		"-> tool c7-1 from 1.0", "-> cancel c7-1")
	p.output("c7-1", "late").expect() // nobody listens any more
}

// Somebody has aborted the task before the engine gives it up: that is how it ends.
func TestGaveUpWhileAborting(t *testing.T) {
	gaveUp := GaveUp{Message: "no more", Lost: schemas.TokenCounts{Output: 3, Total: 3}}
	hel := []schemas.Payload{schemas.TextFragment(schemas.PhaseStart, ""), schemas.TextFragment(schemas.PhaseDelta, "hel")}
	begun(t, schemas.ApproveAll).say(hel...).abort().do(gaveUp).expect(
		"token_usage", "end aborted 1 0", "abort enough", "task aborted user", "-> stop model")
	begun(t, schemas.ApproveAll).say(hel...).abort().lost(0).do(gaveUp).expect(
		"token_usage", "end aborted 1 0", "abort enough", "task aborted user", "-> stop model")
	begun(t, schemas.ApproveAll).call("look", "{}").ended(schemas.StopCompleted).abort().lost(0).do(gaveUp).expect(
		"start", `delta "[no more; the outcome of the call is unknown]"`, "stop failed",
		`output "[no more; the outcome of the call is unknown]" failed`, "abort enough", "task aborted user",
		"-> tool c7-1 from 1.0", "-> cancel c7-1")
	p := begun(t, schemas.ApproveAll).say(hel...)
	p.command(schemas.Command{Type: schemas.CommandDelete, Delete: &schemas.DeleteBody{Force: true}})
	p.do(gaveUp).expect("token_usage", "end aborted 1 0", "abort "+deletedReason, "task aborted user", "session_deleted", "-> stop model")
}

func TestRetryDelay(t *testing.T) {
	for _, tt := range []struct {
		attempt     int
		asked, want time.Duration
		why         string
	}{
		{1, 0, 2 * time.Second, "the first step"},
		{2, 0, 4 * time.Second, "doubled"},
		{4, 0, 16 * time.Second, "doubled again"},
		{5, 0, 30 * time.Second, "the ceiling, not 32 s"},
		{1, time.Second, 2 * time.Second, "a shorter wait than ours is no hurry"},
		{1, time.Minute, time.Minute, "the provider's own wait, over the ceiling"},
		{1, time.Hour, 5 * time.Minute, "nobody waits for an hour"},
		{1, -time.Hour, 2 * time.Second, "nonsense"},
	} {
		if got := retryDelay(tt.attempt, tt.asked, 0); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.why, got, tt.want)
		}
	}
}

// The whole ladder: six attempts, then the task ends with what went wrong.
func TestRetryLadder(t *testing.T) {
	p := begun(t, schemas.ApproveAll)
	for _, wait := range []string{"2s", "4s", "8s", "16s", "30s"} {
		p.ended(schemas.StopFailed)
		if got := p.out[len(p.out)-1]; got != "-> wait "+wait {
			t.Errorf("%s, want %s", got, wait)
		}
		p.do(RetryDue{Request: p.request + 1}).expect() // another request's
		p.do(RetryDue{Request: p.request})
	}
	p.ended(schemas.StopFailed).expect("end failed 6 0", "task failed provider")
}

func TestHopelessFailures(t *testing.T) {
	begun(t, schemas.ApproveAll).ended(schemas.StopAuth).expect("end auth 1 0", "task auth provider")
	p := begun(t, schemas.ApproveAll)
	p.do(ModelEnded{Request: p.request, Status: schemas.StopFailed, Failure: &schemas.ErrorInfo{Kind: "input", Message: "too long"}}).
		expect("end failed 1 0", "task failed input")
}

// An aborted task's timer says nothing to the next task.
func TestTimerOfAnotherTask(t *testing.T) {
	p := begun(t, schemas.ApproveAll).ended(schemas.StopFailed)
	old := p.request
	p.abort().expect("outcome applied", "abort enough", "task aborted user", "-> answer")
	p.task().ended(schemas.StopFailed)
	p.do(RetryDue{Request: old}).expect()
	p.do(RetryDue{Request: p.request}).expect("begin 2", "-> model 2")
}

// What the model says that is not its to say, or that comes late, is dropped.
func TestModelIsNotTrusted(t *testing.T) {
	p := begun(t, schemas.ApproveAll)
	p.say(&schemas.TaskEnd{Status: schemas.StopCompleted}).expect()
	p.abort()
	p.say(schemas.AssistantText("late")).expect()
	p.ended(schemas.StopCompleted).expect("end aborted 1 0", "abort enough", "task aborted user")
	p.say(schemas.AssistantText("later")).expect()
	p.ended(schemas.StopCompleted).expect()
}

// Why commands are refused, by the code a client decides on.
func TestRefusals(t *testing.T) {
	asks := func(t *testing.T) *play {
		return begun(t, schemas.ApproveAsk).call("write", "{}").ended(schemas.StopCompleted)
	}
	tests := map[string]struct {
		play func(*testing.T) *play
		want schemas.Code
	}{
		"task of no session":    {func(t *testing.T) *play { return newPlay(t).task() }, schemas.CodeUnknownSession},
		"a second create":       {func(t *testing.T) *play { return newPlay(t).create("").create("") }, schemas.CodeSessionExists},
		"a task while one runs": {func(t *testing.T) *play { return newPlay(t).create("").task().task() }, schemas.CodeTaskInProgress},
		"abort of nothing":      {func(t *testing.T) *play { return newPlay(t).create("").abort() }, schemas.CodeNotRunning},
		"approval of nothing": {
			func(t *testing.T) *play { return newPlay(t).create("").approve("c7-1", schemas.DecisionAllow) }, schemas.CodeNotPending,
		},
		"a second decision": {
			func(t *testing.T) *play {
				return asks(t).approve("c7-1", schemas.DecisionAllow).approve("c7-1", schemas.DecisionDeny)
			}, schemas.CodeNotPending,
		},
		"a decision on an aborted task": {
			func(t *testing.T) *play {
				return begun(t, schemas.ApproveReadOnly).call("look", "{}").call("write", "{}").ended(schemas.StopCompleted).abort().approve("c7-2", schemas.DecisionAllow)
			}, schemas.CodeNotPending,
		},
		"a decision on another call": {
			func(t *testing.T) *play {
				return asks(t).command(schemas.Command{Type: schemas.CommandApprove, Approve: &schemas.ApproveBody{ToolCallID: "c7-1", Decision: schemas.DecisionAllow, Hash: "0"}})
			}, schemas.CodeHashMismatch,
		},
		"what no version knows": {
			func(t *testing.T) *play { return newPlay(t).create("").command(schemas.Command{Type: "dance"}) }, schemas.CodeInvalid,
		},
		"what the world outside refuses": {
			func(t *testing.T) *play {
				return newPlay(t).do(CommandReceived{Sequence: 1, Refused: schemas.Errorf(schemas.CodeUnknownModel, "no such model")})
			}, schemas.CodeUnknownModel,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { tt.play(t).expect("outcome "+string(tt.want), "-> answer") })
	}
}

// A command that was answered is not taken again, and a second abort changes nothing.
func TestRepeatedCommands(t *testing.T) {
	p := begun(t, schemas.ApproveAll).call("look", "{}").ended(schemas.StopCompleted).abort()
	p.abort().expect("outcome applied", "-> answer")
	p.do(CommandReceived{Sequence: p.sequence, Command: schemas.Command{Type: schemas.CommandAbort}}).expect()
	q := begun(t, schemas.ApproveAll).command(schemas.Command{Type: schemas.CommandAbort})
	q.expect("outcome applied", "-> answer", "-> stop model")
	q.do(ModelEnded{Request: q.request, Status: schemas.StopAborted}).expect("end aborted 1 0", "abort ", "task aborted user")
}

func TestDecisions(t *testing.T) {
	asks := func(t *testing.T) *play {
		return begun(t, schemas.ApproveAsk).call("write", "{}").ended(schemas.StopCompleted)
	}
	asks(t).approve("c7-1", schemas.DecisionDeny).expect("outcome applied", "deny c7-1",
		`output "Tool call denied by user." aborted`, "begin 1", "-> answer", "-> model 1")
	asks(t).approve("c7-1", schemas.DecisionForbidden).expect("outcome applied", "forbidden c7-1",
		`output "Tool call denied by policy." aborted`, "begin 1", "-> answer", "-> model 1")
	begun(t, schemas.ApproveNone).call("look", "{}").expect(`call "look{}"`, "deny c7-1", `output "Tool call denied by user." aborted`)
	begun(t, schemas.ApproveReadOnly).call("look", "").expect(`call "look"`, "allow c7-1", "-> tool c7-1 from 1.0")
}

// Calls that can't be run whoever allows them, and what the model reads.
func TestUnusableCalls(t *testing.T) {
	cut := schemas.NewToolCall("x", "look", "{}")
	cut.StopReason = schemas.StopMalformed
	for name, tt := range map[string]struct {
		call *schemas.ToolCall
		want string
	}{
		"cut off":      {cut, "cut off"},
		"unknown tool": {schemas.NewToolCall("x", "Look", "{}"), "Available tools: look, write"},
		"no JSON":      {schemas.NewToolCall("x", "look", "{"), "not valid JSON"},
		"two values":   {schemas.NewToolCall("x", "look", "{}{}"), "not valid JSON"},
		"no object":    {schemas.NewToolCall("x", "look", "[]"), "must be a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			p := begun(t, schemas.ApproveAsk).say(tt.call)
			if len(p.out) != 3 || p.out[1] != "forbidden c7-1" || !strings.Contains(p.out[2], tt.want) || !strings.HasSuffix(p.out[2], "failed") {
				t.Errorf("%q", p.out)
			}
		})
	}
}

// A model that has no tools is not told of a list of them.
func TestNoToolsAtAll(t *testing.T) {
	p := newPlay(t).create("").task().do(ToolsListed{}).say(schemas.NewToolCall("x", "look", "{}"))
	if said := strings.Join(p.out, "\n"); !strings.Contains(said, `No tools are available." failed`) {
		t.Errorf("%s", said)
	}
}

// A provider may give one id to two calls, also before the first one is complete.
func TestTwoCallsOfOneProviderID(t *testing.T) {
	p := begun(t, schemas.ApproveAll)
	for range 2 {
		p.say(schemas.ToolCallFragment(schemas.PhaseStart, "x", "look", ""), schemas.ToolCallFragment(schemas.PhaseDelta, "x", "", "{}"))
	}
	p.say(schemas.NewToolCall("x", "look", "{}"), schemas.NewToolCall("x", "look", "{}"))
	var ids []string
	for _, m := range p.log {
		switch call := m.Payload.(type) {
		case *schemas.PartialToolCall:
			ids = append(ids, call.ToolCallID)
		case *schemas.ToolCall:
			ids = append(ids, call.ToolCallID)
		}
	}
	if want := []string{"c7-1", "c7-1", "c7-2", "c7-2", "c7-2", "c7-3"}; !slices.Equal(ids, want) {
		t.Errorf("got %q, want %q", ids, want)
	}
}

// Tools are listed once; what comes later, of another asking, changes nothing.
func TestToolsAreASnapshot(t *testing.T) {
	p := newPlay(t).create("").task().do(ToolsListed{})
	p.expect("tool_list_ready", "begin 1", "-> model 1")
	p.do(ToolsListed{Tools: []schemas.ToolDefinition{{Name: "late"}}}).expect()
}

// Messages of children are none of the session's own.
func TestMessagesOfChildrenAreSkipped(t *testing.T) {
	p := newPlay(t).create("").task()
	m := schemas.New(time.Unix(1e9, 0), &schemas.TaskEnd{Status: schemas.StopCompleted})
	m.Origin = []string{"child"}
	p.s.Apply(m)
	if p.s.AtRest() {
		t.Error("a child's end ended the task")
	}
	p.s.Gap() // before any request there is nothing to lose
	New(p.s.Session).Gap()
}
