package session

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"braid/schemas"
)

// A wait is never shorter than its step of the ladder, nor longer by more than a quarter, and is
// announced to the millisecond.
func TestJitterOnlyLengthens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		attempt := rapid.IntRange(1, maxAttempts-1).Draw(t, "attempt")
		asked := time.Duration(rapid.Int64Range(0, int64(time.Hour/time.Millisecond)).Draw(t, "asked")) * time.Millisecond
		jitter := rapid.Float64Range(0, 0.999999).Draw(t, "jitter")
		base, got := retryDelay(attempt, asked, 0), retryDelay(attempt, asked, jitter)
		if got < base || got > base*5/4 || got%time.Millisecond != 0 {
			t.Fatalf("%s with jitter %v is %s", base, jitter, got)
		}
	})
}

func TestJitterIsAnnounced(t *testing.T) {
	p := begun(t, schemas.ApproveAll)
	failed := ModelEnded{Request: p.request, Status: schemas.StopFailed, Failure: &schemas.ErrorInfo{Kind: "provider"}, Jitter: 0.5}
	p.do(failed).expect("end failed 1 2250", "-> wait 2.25s")
	failed.RetryAfter = time.Minute
	p = begun(t, schemas.ApproveAll)
	p.do(failed).expect("end failed 1 67500", "-> wait 1m7.5s")
	// Also by who takes over a request that was lost with its engine.
	p = begun(t, schemas.ApproveAll).lost(0)
	p.do(TakenOver{From: "e1", To: "e2", Cause: "lost", Jitter: 0.5}).expect("owner e1>e2 lost", "end timeout 1 2250", "-> wait 2.25s")
}

func TestRetryNow(t *testing.T) {
	waits := func(t *testing.T) *play { return begun(t, schemas.ApproveAll).ended(schemas.StopFailed) }
	toolRuns := func(t *testing.T) *play {
		return begun(t, schemas.ApproveAll).call("look", "{}").ended(schemas.StopFailed)
	}
	refused := func(code schemas.Code) []string { return []string{"outcome " + string(code), "-> answer"} }
	for name, tt := range map[string]struct {
		play *play
		want []string
	}{
		"cuts the wait short":              {waits(t).retryNow(), []string{"outcome applied", "begin 2", "-> answer", "-> model 2"}},
		"again, when it was cut short":     {waits(t).retryNow().retryNow(), refused(schemas.CodeNotPending)},
		"in the next wait":                 {waits(t).retryNow().ended(schemas.StopFailed).retryNow(), []string{"outcome applied", "begin 3", "-> answer", "-> model 3"}},
		"waits for tools all the same":     {toolRuns(t).retryNow(), []string{"outcome applied", "-> answer"}},
		"until they have ended":            {toolRuns(t).retryNow().output("c7-1", "ok"), []string{"start", `delta "ok"`, "stop", `output "ok"`, "begin 2", "-> model 2"}},
		"of a request that runs":           {begun(t, schemas.ApproveAll).retryNow(), refused(schemas.CodeNotPending)},
		"when all attempts failed":         {begun(t, schemas.ApproveAll).ended(schemas.StopAuth).retryNow(), refused(schemas.CodeNotRunning)},
		"at rest":                          {newPlay(t).create("").retryNow(), refused(schemas.CodeNotRunning)},
		"of no session":                    {newPlay(t).retryNow(), refused(schemas.CodeUnknownSession)},
		"before the first request":         {newPlay(t).create("").task().retryNow(), refused(schemas.CodeNotPending)},
		"of a task that is being aborted":  {toolRuns(t).abort().retryNow(), refused(schemas.CodeNotPending)},
		"when somebody else took over":     {waits(t).lost(0).takeOver().retryNow(), []string{"outcome applied", "begin 2", "-> answer", "-> model 2"}},
		"is remembered by who takes over":  {toolRuns(t).retryNow().lost(0).takeOver(), []string{"owner e1>e2 lost", "-> tool c7-1 from 1.0"}},
		"is forgotten with the next wait":  {waits(t).retryNow().ended(schemas.StopFailed).lost(0).takeOver(), []string{"owner e1>e2 lost", "-> wait 4s"}},
		"the timer that was cut off rings": {waits(t).retryNow().do(RetryDue{Request: 1}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			tt.play.t = t
			tt.play.expect(tt.want...)
		})
	}
}
