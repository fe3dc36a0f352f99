package session

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"braid/schemas"
)

// costs ends the request as the status says, after so many tokens.
func (p *play) costs(status schemas.StopReason, total int64) *play {
	e := ModelEnded{Request: p.request, Status: status, Usage: schemas.TokenCounts{Total: total}, Estimated: true}
	if status != schemas.StopCompleted {
		e.Failure = &schemas.ErrorInfo{Kind: "provider", Message: "no luck"}
	}
	return p.do(e)
}

// usages lists what the log says was used: by requests, and by the session up to then.
func (p *play) usages() (all []string) {
	for _, m := range p.log {
		if u, ok := m.Payload.(*schemas.TokenUsage); ok {
			text := fmt.Sprintf("%d of %d", u.Request.Total, u.Session.Total)
			if u.Estimated {
				text += " estimated"
			}
			all = append(all, text)
		}
	}
	return all
}

// Whatever became of a request, what it used stands directly before its end; of one that used nothing
// nothing does, unless it completed.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		status schemas.StopReason
		used   int64
		want   []string
	}{
		{schemas.StopCompleted, 7, []string{"token_usage", "end completed 1 0", "task completed done"}},
		{schemas.StopCompleted, 0, []string{"token_usage", "end completed 1 0", "task completed done"}},
		{schemas.StopFailed, 7, []string{"token_usage", "end failed 1 2000", "-> wait 2s"}},
		{schemas.StopFailed, 0, []string{"end failed 1 2000", "-> wait 2s"}},
		{schemas.StopTimeout, 7, []string{"token_usage", "end timeout 1 2000", "-> wait 2s"}},
		{schemas.StopMalformed, 7, []string{"token_usage", "end malformed 1 2000", "-> wait 2s"}},
		{schemas.StopAuth, 7, []string{"token_usage", "end auth 1 0", "task auth provider"}},
		{schemas.StopAuth, 0, []string{"end auth 1 0", "task auth provider"}},
	} {
		p := begun(t, schemas.ApproveAll).costs(c.status, c.used)
		p.expect(c.want...)
		if p.s.Usage.Total != c.used || p.s.Task != nil && p.s.Task.Used.Total != c.used {
			t.Errorf("%s: the session has used %d, its task %+v", c.status, p.s.Usage.Total, p.s.Task)
		}
	}
	p := begun(t, schemas.ApproveAll).costs(schemas.StopFailed, 5).do(RetryDue{1}).costs(schemas.StopTimeout, 0)
	p.do(RetryDue{2}).costs(schemas.StopCompleted, 3)
	if diff := cmp.Diff([]string{"5 of 5 estimated", "3 of 8 estimated"}, p.usages()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The task of an aborted request ends when the model has said what it used, once.
func TestUsageOfAnAbortedRequest(t *testing.T) {
	hello := []schemas.Payload{schemas.TextFragment(schemas.PhaseStart, ""), schemas.TextFragment(schemas.PhaseDelta, "hel")}
	p := begun(t, schemas.ApproveAll).say(hello...).abort()
	p.expect("outcome applied", "stop aborted", `text "hel" aborted`, "-> answer", "-> stop model")
	p.do(ModelEnded{Request: p.request, Status: schemas.StopAborted, Usage: schemas.TokenCounts{Total: 9}})
	p.expect("token_usage", "end aborted 1 0", "abort enough", "task aborted user")
	p.costs(schemas.StopCompleted, 99).expect() // too late to count twice
	if diff := cmp.Diff([]string{"9 of 9"}, p.usages()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	p = begun(t, schemas.ApproveAll).abort().costs(schemas.StopAborted, 0) // it had not left
	p.expect("end aborted 1 0", "abort enough", "task aborted user")
	p = begun(t, schemas.ApproveAll).call("look", "{}").abort().costs(schemas.StopAborted, 4)
	p.expect("token_usage", "end aborted 1 0") // the tool still runs
	p.output("c7-1", "").expect("start", "stop", "output", "abort enough", "task aborted user")
}

// What an owner has lost in mid-stream is estimated by the next one.
func TestUsageOfALostRequest(t *testing.T) {
	hello := []schemas.Payload{schemas.TextFragment(schemas.PhaseStart, ""), schemas.TextFragment(schemas.PhaseDelta, "hel")}
	lost := schemas.TokenCounts{Total: 6}
	takeOver := TakenOver{From: "e1", To: "e2", Cause: "lost", Lost: lost}

	p := begun(t, schemas.ApproveAll).say(schemas.AssistantText("Well.")).say(hello...).lost(0)
	input, said, open := p.s.OpenRequest()
	var got []string
	for _, m := range append(input, said...) {
		got = append(got, renderMessage(m))
	}
	if diff := cmp.Diff([]string{`text "go"`, `text "Well."`, "stop", `text "hel"`}, got); diff != "" || !open {
		t.Errorf("open %v (-want +got)\n%s", open, diff)
	}
	p.do(takeOver).expect("owner e1>e2 lost", "stop timeout", `text "hel" timeout`, "token_usage", "end timeout 1 2000", "-> wait 2s")
	if diff := cmp.Diff([]string{"6 of 6 estimated"}, p.usages()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, _, open := p.s.OpenRequest(); open {
		t.Error("the request is open")
	}
	p = begun(t, schemas.ApproveAll).say(hello...).abort().lost(0).do(takeOver)
	p.expect("owner e1>e2 lost", "token_usage", "end aborted 1 0", "abort enough", "task aborted user")
	p = begun(t, schemas.ApproveAll).lost(0).do(GaveUp{Message: "no more", Lost: lost})
	p.expect("token_usage", "end failed 1 0", "abort no more", "task failed engine", "-> stop model")
}

// A budget that attempts use up which do not complete ends the task like any other, and no attempt
// follows. What would have ended it anyway still does.
func TestBudgetOfAttempts(t *testing.T) {
	limits := schemas.Limits{MaxTokensTask: 10}
	p := limited(t, schemas.ApproveAll, limits).costs(schemas.StopFailed, 10)
	p.expect("token_usage", "end failed 1 2000", "-> wait 2s") // all of it, and no more
	p.do(RetryDue{p.request}).costs(schemas.StopTimeout, 1)
	p.expect("token_usage", "end timeout 2 0", "budget_exceeded", "task timeout budget")
	end := p.log[len(p.log)-1].Payload.(*schemas.TaskEnd)
	if end.ErrorInfo == nil || end.ErrorInfo.Message != "no luck" || end.ErrorInfo.Retryable {
		t.Errorf("the task's end says %+v", end.ErrorInfo)
	}

	p = limited(t, schemas.ApproveAll, limits).call("look", "{}").costs(schemas.StopFailed, 11)
	p.expect("token_usage", "end failed 1 0", "budget_exceeded") // the tool runs
	q := p.lost(0).do(TakenOver{From: "e1", To: "e2", Cause: "lost"})
	q.expect("owner e1>e2 lost", "-> tool c7-1 from 1.0")
	for _, p := range []*play{p, q} {
		p.output("c7-1", "").expect("start", "stop", "output", "task failed budget")
	}

	limited(t, schemas.ApproveAll, limits).lost(0).do(TakenOver{From: "e1", To: "e2", Cause: "lost", Lost: schemas.TokenCounts{Total: 11}}).
		expect("owner e1>e2 lost", "token_usage", "end timeout 1 0", "budget_exceeded", "task timeout budget")
	limited(t, schemas.ApproveAll, limits).costs(schemas.StopAuth, 11).
		expect("token_usage", "end auth 1 0", "budget_exceeded", "task auth provider")
	limited(t, schemas.ApproveAll, limits).abort().costs(schemas.StopAborted, 11).
		expect("token_usage", "end aborted 1 0", "budget_exceeded", "abort enough", "task aborted user")

	p = limited(t, schemas.ApproveAll, limits)
	for range maxAttempts - 1 {
		p.costs(schemas.StopFailed, 2).do(RetryDue{p.request})
	}
	p.costs(schemas.StopFailed, 2).expect("token_usage", "end failed 6 0", "budget_exceeded", "task failed provider")
}
