package session

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/schemas"
)

// A log may hold what this version would not write. What stands where it means nothing is skipped.
func TestMessagesOutOfPlace(t *testing.T) {
	out := []schemas.Payload{
		&schemas.TaskEnd{Status: schemas.StopCompleted}, &schemas.RequestBegin{}, &schemas.RequestEnd{Status: schemas.StopCompleted},
		&schemas.Checkpoint{Segment: &schemas.OpenSegment{Of: schemas.KindText, Text: "a"}}, schemas.AssistantText("b"),
		&schemas.ApprovalDecision{Decision: schemas.DecisionAllow, ToolCallID: "c1-1"}, schemas.NewToolCallOutput("c1-1", "c", ""),
		&schemas.Unknown{Of: "from_tomorrow"},
	}
	at := time.Unix(1e9, 0)
	s := New(schemas.SessionRef{Project: "p", ID: "s"})
	for _, p := range out {
		s.Apply(schemas.New(at, p))
	}
	if s.Task != nil || len(s.Context) > 0 || s.Busy() || s.Suspendable() || len(s.Pending()) > 0 {
		t.Errorf("at rest it is %+v", s)
	}
	s.Apply(schemas.New(at, schemas.UserText("go")))
	for _, p := range out[2:] {
		s.Apply(schemas.New(at, p))
	}
	if s.Task == nil || s.Task.Request != nil || len(s.Context) != 1 || s.Suspendable() || s.limits() != (schemas.Limits{}).WithDefaults() {
		t.Errorf("before the first request it is %+v", s.Task)
	}
	if _, _, open := s.OpenRequest(); open {
		t.Error("a request is open")
	}
}

// A segment of a kind that can't be streamed, which a checkpoint of another version may tell of,
// closes as nothing.
func TestSegmentOfAnotherKind(t *testing.T) {
	p := begun(t, schemas.ApproveAll)
	p.s.Apply(schemas.New(p.now(), &schemas.Checkpoint{Segment: &schemas.OpenSegment{Of: schemas.KindImageURL, Text: "x"}}))
	p.ended(schemas.StopFailed).expect("end failed 1 2000", "-> wait 2s")
}

// An owner that was stopped is told from one that was lost.
func TestTakeOverAfterAHandOver(t *testing.T) {
	p := begun(t, schemas.ApproveAll).lost(0).do(TakenOver{From: "e1", To: "e2", Cause: "handover"})
	p.expect("owner e1>e2 handover", "end timeout 1 1", "-> wait 1ms")
	if diff := cmp.Diff("the engine that ran the request was stopped", p.s.Task.Request.Failure.Message); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// What is being aborted can't be steered any more.
func TestSteerWhileAborting(t *testing.T) {
	p := begun(t, schemas.ApproveAll).abort()
	p.command(schemas.Command{Type: schemas.CommandSteer, Task: &schemas.TaskBody{Prompt: "left"}})
	p.expect("outcome not_running", "-> answer")
}

// As many tasks wait as may, and one that does not can't be taken back.
func TestQueueEnds(t *testing.T) {
	p := begun(t, schemas.ApproveAll)
	ask := schemas.Command{Type: schemas.CommandTask, Task: &schemas.TaskBody{Prompt: "and then", WhenBusy: schemas.BusyQueue}}
	for range schemas.MaxQueue {
		p.command(ask)
	}
	p.command(ask).expect("outcome queue_full", "-> answer")
	p.command(schemas.Command{Type: schemas.CommandWithdraw, Withdraw: &schemas.WithdrawBody{TaskID: "never-asked"}})
	p.expect("outcome not_pending", "-> answer")
	if n := len(p.s.Queue); n != schemas.MaxQueue {
		t.Errorf("%d tasks wait", n)
	}
}

// A request that fails for no reason given fails all the same, and is tried again.
func TestFailureWithoutAReason(t *testing.T) {
	p := begun(t, schemas.ApproveAll)
	p.do(ModelEnded{Request: p.request, Status: schemas.StopFailed}).expect("end failed 1 2000", "-> wait 2s")
	if f := p.s.Task.Request.Failure; f == nil || f.Kind != "provider" {
		t.Errorf("the failure is %+v", f)
	}
}
