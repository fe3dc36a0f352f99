package session

import (
	"slices"
	"testing"

	"braid/schemas"
)

func (p *play) prompts(t schemas.CommandType, prompt string, busy schemas.WhenBusy) *play {
	return p.command(schemas.Command{Type: t, Task: &schemas.TaskBody{Prompt: prompt, WhenBusy: busy}})
}

func (p *play) queue(prompt string) *play {
	return p.prompts(schemas.CommandTask, prompt, schemas.BusyQueue)
}

func (p *play) steer(prompt string) *play { return p.prompts(schemas.CommandSteer, prompt, "") }

// What was to steer a task that ends without another request waits on, as a task of its own and in its
// place.
func TestSteeringOutlivesItsTask(t *testing.T) {
	for _, row := range []struct {
		why  string
		ends func(*play)
		end  []string
	}{
		{"a person aborts it", func(p *play) { p.abort().ended(schemas.StopAborted) },
			[]string{"end aborted 1 0", "abort enough", "task aborted user"}},
		{"its request fails for good", func(p *play) { p.ended(schemas.StopAuth) },
			[]string{"end auth 1 0", "task auth provider"}},
		{"the engine gives it up", func(p *play) { p.do(GaveUp{Message: "no"}) },
			[]string{"end failed 1 0", "abort no", "task failed engine"}},
	} {
		t.Run(row.why, func(t *testing.T) {
			p := begun(t, schemas.ApproveAll)
			p.steer("first").queue("second")
			row.ends(p)
			var got []string
			for _, line := range p.out {
				if line[0] != '-' {
					got = append(got, line)
				}
			}
			p.out = got
			p.expect(append(row.end, "dequeued started k3", `text "first"`, "begin 1")...)
			if len(p.s.Queue) != 1 || p.s.Task.ID != "k3" {
				t.Errorf("queue %v, task %+v", p.s.Queue, p.s.Task)
			}
			p.say(schemas.AssistantText("ok")).ended(schemas.StopCompleted)
			p.expect("token_usage", "end completed 1 0", "task completed done",
				"dequeued started k4", `text "second"`, "begin 1", "-> model 1")
		})
	}
}

// A request that is tried again takes what steers its task along.
func TestSteeringJoinsARetry(t *testing.T) {
	p := begun(t, schemas.ApproveAll)
	p.ended(schemas.StopFailed).steer("hint").do(RetryDue{Request: p.request})
	p.expect("dequeued steering k3", `text "hint"`, "begin 2", "-> model 2")
}

// Steering gives a task neither turns nor tokens. One whose last turn has answered is done all the same.
func TestSteeringNeedsATurn(t *testing.T) {
	for _, row := range []struct {
		why    string
		limits schemas.Limits
		marks  []string
	}{
		{"no turn is left", schemas.Limits{MaxTurns: 1}, nil},
		{"the budget is used up", schemas.Limits{MaxTokensTask: 5}, []string{"budget_exceeded"}},
	} {
		t.Run(row.why, func(t *testing.T) {
			p := newPlay(t)
			p.command(schemas.Command{Type: schemas.CommandCreate, Create: &schemas.CreateBody{Model: "pro/model", Limits: row.limits}})
			p.task().do(ToolsListed{}).steer("more").say(schemas.AssistantText("ok")).used(6)
			p.expect(slices.Concat([]string{"token_usage", "end completed 1 0"}, row.marks, []string{
				"task completed done", "dequeued started k3", `text "more"`, "begin 1", "-> model 1"})...)
		})
	}
}

// A task is aborted for the reason that was given first, whoever asks again and for what.
func TestAbortedForTheFirstReason(t *testing.T) {
	p := begun(t, schemas.ApproveAll).call("write", "{}").ended(schemas.StopCompleted).abort()
	p.command(schemas.Command{Type: schemas.CommandAbort, Abort: &schemas.AbortBody{Reason: "too slow", DropQueue: true}})
	p.command(schemas.Command{Type: schemas.CommandDelete, Delete: &schemas.DeleteBody{Force: true}})
	p.output("c7-1", "x")
	p.expect("start", `delta "x"`, "stop", `output "x"`, "abort enough", "task aborted user", "session_deleted")
}

// What a session that is being aborted can still take: nothing that steers, but tasks that wait. What
// would steer if it could waits as well.
func TestPromptsWhileAborting(t *testing.T) {
	p := begun(t, schemas.ApproveAll).call("write", "{}").ended(schemas.StopCompleted).abort()
	p.steer("no")
	p.expect("outcome not_running", "-> answer")
	p.prompts(schemas.CommandTask, "later", schemas.BusySteer)
	p.expect("outcome applied", "queued k5", "-> answer")
	p.output("c7-1", "x")
	p.expect("start", `delta "x"`, "stop", `output "x"`, "abort enough", "task aborted user", "dequeued started k5", `text "later"`, "begin 1", "-> model 1")
}
