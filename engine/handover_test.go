package engine

import (
	"context"
	"sync"
	"testing"
	"time"

	"braid/bus/bustest"
	"braid/llm"
	"braid/llm/scripted"
	"braid/schemas"
)

// An engine is stopped while the frame that begins a request is in flight. The frame is stored; the
// call that was to follow it is the next owner's to make, after it has said what became of this one.
func TestHandOverStartsNoModel(t *testing.T) {
	t.Parallel()
	script, err := scripted.Parse([]byte("repeat: true\nturns: [{steps: [{text: hello}]}]"))
	if err != nil {
		t.Fatal(err)
	}
	models := &rememberedModels{Provider: scripted.New(map[string]*scripted.Script{"m": script})}
	h := newHouse(t, bustest.Listening(t), nil)
	if h.models, err = llm.NewCatalog(models); err != nil {
		t.Fatal(err)
	}
	first, w := h.wired("e1")
	h.create("scripted/m", schemas.ApproveAll)
	frame := w.hold("braid.p.session.", `"request_begin"`)
	h.post(taskCommand("t"))
	frame.wait()
	r := h.runner(first)
	stopped := make(chan error, 1)
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { stopped <- first.Stop(context.Background()) })
	<-r.leave
	frame.release()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if asked := models.asked(); len(asked) > 0 {
		t.Errorf("an engine that leaves has called a model: %+v", asked)
	}
	h.engine("e2")
	h.follow(taskEnded)
	if asked := models.asked(); len(asked) != 1 || asked[0].Attempt != 2 {
		t.Errorf("the next owner has called models %d times", len(asked))
	}
}

// A question's deadline is on its way to the broker. Until it is there the session is not let go of:
// nobody else would know of it.
func TestDeadlineIsStoredBeforeTheSessionIsLetGoOf(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Listening(t), oneWrite)
	e, w := h.wired("e1")
	h.stops(e)
	h.toolrunner("r1")
	h.createUrgent("scripted/m", time.Hour)
	h.released()
	schedule := w.hold(schedules)
	release := w.hold("braid.p.owner.", `"released"`)
	h.task("t", "go")
	schedule.wait()
	h.asked(1)
	select {
	case <-release.first:
		t.Error("released before its deadline was stored")
	case <-time.After(500 * time.Millisecond):
	}
	schedule.release()
	release.wait()
	release.release()
	h.released()
}
