package session

import (
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"braid/schemas"
)

// routed is a session with two fallback models whose first request is open.
func routed(t *testing.T) *play {
	return newPlay(t).command(schemas.Command{Type: schemas.CommandCreate, Create: &schemas.CreateBody{
		Model: "pro/model", FallbackModels: []string{"pro/small", "other/model"}, ApprovalMode: schemas.ApproveAll,
	}}).task().do(ToolsListed{Tools: []schemas.ToolDefinition{{Name: "look", Permission: schemas.PermissionRead}}})
}

// climb fails the request and those that follow it, up to the end of its ladder.
func (p *play) climb() *play {
	for range maxAttempts - 1 {
		p.ended(schemas.StopFailed).do(RetryDue{p.request})
	}
	return p.ended(schemas.StopFailed)
}

// refuse ends the request with a failure of a kind.
func (p *play) refuse(kind string) *play {
	return p.do(ModelEnded{Request: p.request, Status: schemas.StopFailed, Failure: &schemas.ErrorInfo{Kind: kind, Message: "no"}})
}

// overBudget is a session with a fallback model whose first request fails, after it has used up the
// task's budget.
func overBudget(t *testing.T, status schemas.StopReason) *play {
	p := newPlay(t).command(schemas.Command{Type: schemas.CommandCreate, Create: &schemas.CreateBody{
		Model: "pro/model", FallbackModels: []string{"pro/small"}, Limits: schemas.Limits{MaxTokensTask: 5},
	}}).task().do(ToolsListed{})
	return p.do(ModelEnded{
		Request: p.request, Status: status, Usage: schemas.TokenCounts{Total: 6}, Failure: &schemas.ErrorInfo{Kind: "provider"},
	})
}

func (p *play) handedOver() *play {
	return p.do(TakenOver{From: "e1", To: "e2", Cause: schemas.OwnerLetGo})
}

// What follows a request, by how it ended and where.
func TestRoutes(t *testing.T) {
	for name, tt := range map[string]struct {
		play *play
		want []string
	}{
		"a ladder that is climbed leads to the next": {
			routed(t).climb(), []string{"end failed 6 0 pro/small", "begin 7 pro/small", "-> model 7 pro/small"},
		},
		"where the ladder is a fresh one": {
			routed(t).climb().ended(schemas.StopFailed), []string{"end failed 7 2000", "-> wait 2s"},
		},
		"and its attempts go on counting there": {
			routed(t).climb().ended(schemas.StopFailed).do(RetryDue{7}), []string{"begin 8 pro/small", "-> model 8 pro/small"},
		},
		"a refused key leads there at once": {
			routed(t).ended(schemas.StopAuth), []string{"end auth 1 0 pro/small", "begin 2 pro/small", "-> model 2 pro/small"},
		},
		"so does input that its adapter can't send": {
			routed(t).refuse("input"), []string{"end failed 1 0 pro/small", "begin 2 pro/small", "-> model 2 pro/small"},
		},
		"and a context that its window does not hold": {
			routed(t).refuse("context"), []string{"end failed 1 0 pro/small", "begin 2 pro/small", "-> model 2 pro/small"},
		},
		"which says nothing of the first": {
			routed(t).refuse("context").ended(schemas.StopCompleted).task(),
			[]string{"outcome applied", `text "go"`, "begin 1", "-> answer", "-> model 1"},
		},
		"other failures do not": {
			routed(t).refuse("engine"), []string{"end failed 1 2000", "-> wait 2s"},
		},
		"the third follows the second": {
			routed(t).ended(schemas.StopAuth).ended(schemas.StopAuth),
			[]string{"end auth 2 0 other/model", "begin 3 other/model", "-> model 3 other/model"},
		},
		"nothing follows the last": {
			routed(t).ended(schemas.StopAuth).ended(schemas.StopAuth).ended(schemas.StopAuth),
			[]string{"end auth 3 0", "task auth provider"},
		},
		"an abort leads nowhere": {
			routed(t).abort().ended(schemas.StopAborted), []string{"end aborted 1 0", "abort enough", "task aborted user"},
		},
		"nor does a model that ends as aborted": {
			routed(t).ended(schemas.StopAborted), []string{"end aborted 1 0", "task aborted provider"},
		},
		"over budget there is no other attempt, and no other model": {
			overBudget(t, schemas.StopFailed), []string{"token_usage", "end failed 1 0", "budget_exceeded", "task failed budget"},
		},
		"nor one that is asked at once": {
			overBudget(t, schemas.StopAuth), []string{"token_usage", "end auth 1 0", "budget_exceeded", "task auth budget"},
		},
		"an abort ends the second as well": {
			routed(t).ended(schemas.StopAuth).abort().ended(schemas.StopAborted), []string{"end aborted 2 0", "abort enough", "task aborted user"},
		},
		"the next turn stays": {
			routed(t).ended(schemas.StopAuth).call("look", "{}").ended(schemas.StopCompleted).output("c7-1", "ok"),
			[]string{"start", `delta "ok"`, "stop", `output "ok"`, "begin 1 pro/small", "-> model 1 pro/small"},
		},
		"on a fresh ladder": {
			routed(t).ended(schemas.StopAuth).call("look", "{}").ended(schemas.StopCompleted).output("c7-1", "ok").ended(schemas.StopFailed),
			[]string{"end failed 1 2000", "-> wait 2s"},
		},
		"and goes on to the third, not back": {
			routed(t).ended(schemas.StopAuth).call("look", "{}").ended(schemas.StopCompleted).output("c7-1", "ok").ended(schemas.StopAuth),
			[]string{"end auth 1 0 other/model", "begin 2 other/model", "-> model 2 other/model"},
		},
		"the next task begins with the second": {
			routed(t).ended(schemas.StopAuth).ended(schemas.StopCompleted).at(299).task(),
			[]string{"outcome applied", `text "go"`, "begin 1 pro/small", "-> answer", "-> model 1 pro/small"},
		},
		"until the first has cooled down": {
			routed(t).ended(schemas.StopAuth).ended(schemas.StopCompleted).at(300).task(),
			[]string{"outcome applied", `text "go"`, "begin 1", "-> answer", "-> model 1"},
		},
		"or where the clock was far ahead when it failed": {
			routed(t).at(1000).ended(schemas.StopAuth).ended(schemas.StopCompleted).at(0).task(),
			[]string{"outcome applied", `text "go"`, "begin 1", "-> answer", "-> model 1"},
		},
		"input that an adapter refuses is no reason to leave its model": {
			routed(t).refuse("input").ended(schemas.StopCompleted).task(),
			[]string{"outcome applied", `text "go"`, "begin 1", "-> answer", "-> model 1"},
		},
		"what was skipped is asked last": {
			routed(t).ended(schemas.StopAuth).ended(schemas.StopCompleted).task().ended(schemas.StopAuth).ended(schemas.StopAuth),
			[]string{"end auth 2 0 pro/model", "begin 3", "-> model 3"},
		},
		"and not again": {
			routed(t).ended(schemas.StopAuth).ended(schemas.StopCompleted).task().ended(schemas.StopAuth).ended(schemas.StopAuth).ended(schemas.StopAuth),
			[]string{"end auth 3 0", "task auth provider"},
		},
		"if it answers it is the first again": {
			routed(t).ended(schemas.StopAuth).ended(schemas.StopCompleted).task().ended(schemas.StopAuth).ended(schemas.StopAuth).
				ended(schemas.StopCompleted).task(),
			[]string{"outcome applied", `text "go"`, "begin 1", "-> answer", "-> model 1"},
		},
		"to be skipped makes it none the longer": {
			routed(t).ended(schemas.StopAuth).ended(schemas.StopCompleted).at(200).task().ended(schemas.StopCompleted).at(301).task(),
			[]string{"outcome applied", `text "go"`, "begin 1", "-> answer", "-> model 1"},
		},
		"when all had failed the next begins with the first": {
			routed(t).ended(schemas.StopAuth).ended(schemas.StopAuth).ended(schemas.StopAuth).task(),
			[]string{"outcome applied", `text "go"`, "begin 1", "-> answer", "-> model 1"},
		},
		"the next waits for tools of the one before": {
			routed(t).call("look", "{}").ended(schemas.StopAuth), []string{"end auth 1 0 pro/small"},
		},
		"there is nothing to hurry then": {
			routed(t).call("look", "{}").ended(schemas.StopAuth).retryNow(), []string{"outcome not_pending", "-> answer"},
		},
		"a wait on the second is cut short as on the first": {
			routed(t).ended(schemas.StopAuth).ended(schemas.StopFailed).retryNow(),
			[]string{"outcome applied", "begin 3 pro/small", "-> answer", "-> model 3 pro/small"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.play.t = t
			tt.play.expect(tt.want...)
		})
	}
}

// Who takes over knows the route and its ladder from the log.
func TestRoutesTakenOver(t *testing.T) {
	for name, tt := range map[string]struct {
		play *play
		want []string
	}{
		"behind a task that has left the first": {
			routed(t).ended(schemas.StopAuth).ended(schemas.StopCompleted).lost(0).takeOver().task(),
			[]string{"outcome applied", `text "go"`, "begin 1 pro/small", "-> answer", "-> model 1 pro/small"},
		},
		"in mid-request": {
			routed(t).climb().lost(0).takeOver(), []string{"owner e1>e2 lost", "end timeout 7 2000", "-> wait 2s"},
		},
		"and makes the next attempt there": {
			routed(t).climb().lost(0).takeOver().do(RetryDue{}), []string{"begin 8 pro/small", "-> model 8 pro/small"},
		},
		"in mid-ladder": {
			routed(t).climb().ended(schemas.StopFailed).lost(0).takeOver().do(RetryDue{}).ended(schemas.StopFailed),
			[]string{"end failed 8 4000", "-> wait 4s"},
		},
		"on the last step of the first ladder: it is the next model's turn": {
			routed(t).climb().lost(2).takeOver(),
			[]string{"owner e1>e2 lost", "end timeout 6 0 pro/small", "begin 7 pro/small", "-> model 7 pro/small"},
		},
		"between the routes": {
			routed(t).climb().lost(1).takeOver(), []string{"owner e1>e2 lost", "begin 7 pro/small", "-> model 7 pro/small"},
		},
		"while a tool runs between the routes": {
			routed(t).call("look", "{}").ended(schemas.StopAuth).lost(0).takeOver().output("c7-1", "ok"),
			[]string{"start", `delta "ok"`, "stop", `output "ok"`, "begin 2 pro/small", "-> model 2 pro/small"},
		},
		"in the next turn": {
			routed(t).ended(schemas.StopAuth).call("look", "{}").ended(schemas.StopCompleted).output("c7-1", "ok").lost(1).takeOver(),
			[]string{"owner e1>e2 lost", "begin 1 pro/small", "-> model 1 pro/small"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.play.t = t
			tt.play.expect(tt.want...)
		})
	}
}

// A request that its owner gave out of its hands is made again at once, and nobody's attempt is used up:
// the provider did not fail.
func TestHandOverCostsNoAttempt(t *testing.T) {
	p := begun(t, schemas.ApproveAll).lost(0).handedOver()
	p.expect("owner e1>e2 handover", "end timeout 1 1", "-> wait 1ms")
	p.do(RetryDue{}).expect("begin 2", "-> model 2")
	p.ended(schemas.StopFailed).expect("end failed 2 2000", "-> wait 2s") // the ladder's first step

	last := begun(t, schemas.ApproveAll)
	for range maxAttempts - 1 {
		last.ended(schemas.StopFailed).do(RetryDue{last.request})
	}
	last = last.lost(0).handedOver()
	last.expect("owner e1>e2 handover", "end timeout 6 1", "-> wait 1ms")
	last = last.lost(0).takeOver() // who is lost before the wait is over has made nothing of it
	last.do(RetryDue{}).expect("begin 7", "-> model 7")
	last.ended(schemas.StopFailed).expect("end failed 7 0", "task failed provider")
}

// What failed is told as it was, whoever ends the task.
func TestFailureSurvivesTakeover(t *testing.T) {
	failure := schemas.ErrorInfo{Kind: "engine", Provider: "pro", StatusCode: 529, Retryable: true, Message: "broken"}
	p := begun(t, schemas.ApproveAll).call("look", "{}")
	failed := failure
	p.do(ModelEnded{Request: p.request, Status: schemas.StopAuth, Failure: &failed})
	p = p.lost(0).takeOver().output("c7-1", "ok")
	p.expect("start", `delta "ok"`, "stop", `output "ok"`, "task auth engine")
	end := p.log[len(p.log)-1].Payload.(*schemas.TaskEnd)
	if diff := cmp.Diff(&failure, end.ErrorInfo); diff != "" {
		t.Errorf("(-failed +told)\n%s", diff)
	}
}

// Of an imported trace a model gets the fidelity of what it said itself there, and of nothing else: not
// of what another model of its provider said, nor of what it fell back on.
func TestImportedFidelity(t *testing.T) {
	trace := func(own string) []schemas.Payload {
		said := func(model, text string) []schemas.Payload {
			p := schemas.AssistantText(text)
			p.Fidelity = jsontext.Value(`{"of":"` + text + `"}`)
			return []schemas.Payload{&schemas.RequestBegin{Model: model}, p, &schemas.TokenUsage{}, &schemas.RequestEnd{Status: schemas.StopCompleted}}
		}
		all := []schemas.Payload{&schemas.SessionMeta{Provider: "pro", ModelID: own}, schemas.UserText("go")}
		return slices.Concat(all, said("", "first"), said("other/model", "second"))
	}
	for own, want := range map[string][]string{
		"model": {"", `{"of":"first"}`, ""},
		"small": {"", "", ""},
	} {
		s := New(schemas.SessionRef{Project: "p", ID: "s"})
		messages := trace(own)
		settings := schemas.SessionMeta{Provider: "pro", ModelID: "model", ApprovalMode: schemas.ApproveAll}
		s.Apply(schemas.NewTraceOnly(time.Unix(1e9, 0), &schemas.SessionImported{Messages: len(messages), Settings: settings}))
		for _, p := range messages {
			s.Apply(schemas.New(time.Unix(1e9, 0), p))
		}
		s.Apply(schemas.New(time.Unix(1e9, 0), &schemas.CommandOutcome{Command: schemas.CommandImport, Code: schemas.CodeApplied}))
		var got []string
		for _, m := range s.input(s.ownModel()) {
			got = append(got, string(schemas.Fidelity(m.Payload)))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the trace of %s (-want +got)\n%s", own, diff)
		}
	}
}
