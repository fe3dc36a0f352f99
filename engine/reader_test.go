package engine

import (
	"context"
	"slices"
	"testing"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
	"braid/trace"
)

// reader starts a reader with a connection and a trace of its own.
func (h *house) reader() (*bus.Conn, *Reader) {
	h.t.Helper()
	conn := h.broker.Conn(h.t)
	store, err := trace.Open(h.t.TempDir(), trace.Options{})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = store.Close() })
	r, err := StartReader(h.t.Context(), ReaderOptions{Conn: conn, Trace: store, Log: testLog(h.t)})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(r.Stop)
	return conn, r
}

// A reader that comes to a session whose engine is gone knows all that was recorded, at once, and does
// nothing about it: not for the session, nor for a command that waits.
func TestReaderOnlyLooks(t *testing.T) {
	h := newHouse(t, bustest.Listening(t), map[string]string{"m": `
turns:
  - steps: [{text: ["Here ", {pause: 1h}]}]`})
	e, w := h.wired("e")
	h.create("scripted/m", schemas.ApproveAll)
	h.task("t", "hello")
	h.follow(func(m schemas.Message) bool { // then nothing is on its way to the log
		p, ok := m.Payload.(*schemas.PartialText)
		return ok && p.Text != ""
	})
	w.stopsPulling(bus.LaneControl) // or the broker hands it what comes later, and takes a while to know better
	crash(e, w)
	if _, err := h.conn.SendCommand(t.Context(), schemas.Command{ID: "late", Type: schemas.CommandAbort, Session: ref, Abort: &schemas.AbortBody{}}); err != nil {
		t.Fatal(err)
	}
	before, err := h.conn.KnownEnds(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}

	conn, r := h.reader()
	info, err := conn.AskSession(t.Context(), ref, 0) // whatever the trace has
	if err != nil || info.State != bus.StateRunning || info.LastSequence != before.Log {
		t.Errorf("it is shown as %+v, %v; the log ends at %+v", info, err, before)
	}
	instances, err := h.conn.Instances(t.Context(), bus.KindEngine)
	if err != nil || slices.ContainsFunc(instances, func(i bus.Instance) bool { return i.Name != "e" }) {
		t.Errorf("there are engines %+v, %v", instances, err)
	}
	wakes, err := h.conn.PullWakeUps(context.Background(), bus.LaneControl, 1)
	if err != nil || len(wakes) != 1 || wakes[0].Deliveries != 1 {
		t.Errorf("the command's wake-up was taken: %+v, %v", wakes, err)
	}
	r.Stop()
	after, err := h.conn.KnownEnds(t.Context(), ref)
	if err != nil || after != before {
		t.Errorf("the session went on from %+v to %+v, %v", before, after, err)
	}
}

// A trace that can't be written is told of, and not shown as if it were all.
func TestReaderThatCannotCatchUp(t *testing.T) {
	h := newHouse(t, bustest.Single(t), nil)
	h.engine("e")
	h.create("shell/demo", schemas.ApproveAll)
	store, err := trace.Open(t.TempDir(), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := StartReader(t.Context(), ReaderOptions{Conn: h.conn, Trace: store, Log: testLog(t)}); err == nil {
		r.Stop()
		t.Error("a reader without a trace answers")
	}
}
