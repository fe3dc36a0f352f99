package engine

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
	"braid/trace"
)

// A full engine wakes no further session for a decision, but an abort always gets through: it
// is what makes room.
func TestFullEngineStillAborts(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"slow": streaming, "asks": callScript([2]string{"write", `{}`})})
	store, err := trace.Open(t.TempDir(), trace.Options{Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	e, err := Start(context.Background(), Options{
		Conn: h.broker.Conn(t), Trace: store, Models: h.models, MaxSessions: 1, Timing: testTiming, Log: testLog(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop(context.Background()) })
	h.toolrunner("r1")

	h.create("scripted/asks", schemas.ApproveAsk)
	h.task("t", "go")
	ask := h.asked(1)
	h.released()

	other := schemas.SessionRef{Project: ref.Project, ID: "other"}
	h.send(schemas.Command{ID: "c", Type: schemas.CommandCreate, Session: other, Create: &schemas.CreateBody{Model: "scripted/slow"}})
	h.send(schemas.Command{ID: "t", Type: schemas.CommandTask, Session: other, Task: &schemas.TaskBody{Prompt: "go"}})
	if e.hasRoom() {
		t.Fatal("the engine has room left")
	}
	decision := schemas.Command{ID: "a", Type: schemas.CommandApprove, Session: ref, Approve: &schemas.ApproveBody{ToolCallID: ask.ToolCallID, Decision: schemas.DecisionAllow}}
	if _, _, err := h.conn.SendAndWait(context.Background(), decision, 500*time.Millisecond); err == nil {
		t.Error("the decision was taken by a full engine")
	}
	if o := h.abort("enough"); o.Code != schemas.CodeApplied && o.Code != schemas.CodeNotRunning {
		t.Errorf("abort: %+v", o)
	}
	if claim, _, err := h.conn.LastClaim(context.Background(), other); err != nil || claim.State != bus.ClaimHeld {
		t.Errorf("the session that filled the engine: %+v, %v", claim, err)
	}
}

// There is room for one session, and one is on its way: until it is known whether it runs here no other is
// asked for.
func TestRoomIsKeptForASessionOnItsWay(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), map[string]string{"slow": streaming})
	e, w := h.wired("e1", withRoom(1))
	h.stops(e)
	claims := w.holdAnswers("$JS.API.STREAM.MSG.GET.", `braid.p.owner.`)
	h.post(schemas.Command{ID: "create", Type: schemas.CommandCreate, Session: ref, Create: &schemas.CreateBody{Model: "shell/demo"}})
	claims.wait()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if room := e.awaitRoom(ended); room != 0 {
		t.Errorf("there is room for %d sessions more", room)
	}
	claims.release()
	h.task("t", "hello")
	h.follow(taskEnded)
}

// Room may be gone when what was asked for while there was some comes.
func TestAFullEngineTakesNoSession(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"slow": streaming})
	e := h.engine("e1", withRoom(1))
	h.create("scripted/slow", schemas.ApproveAll)
	h.task("t", "go")
	late := stray
	late.Session.ID = "late"
	e.startRunner(context.Background(), late, bus.Claim{})
	if e.runs(late.Session) {
		t.Error("a full engine took another session")
	}
}
