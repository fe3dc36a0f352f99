package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

// poster sends prompts to a session that begins and ends tasks all the time.
type poster struct {
	h    *house
	name string
	busy schemas.WhenBusy
	rng  *rand.Rand
}

// post sends the n-th prompt after a random moment. As long as it is refused as one too many it is
// sent again; nothing else is refused.
func (p *poster) post(n int) {
	pause(context.Background(), time.Duration(p.rng.IntN(4000))*time.Microsecond)
	for try := 0; ; try++ {
		id := fmt.Sprintf("%s-%d-%d", p.name, n, try)
		o, _, err := p.h.conn.SendAndWait(context.Background(), schemas.Command{
			ID: id, Type: schemas.CommandTask, Session: ref, Task: &schemas.TaskBody{Prompt: id, WhenBusy: p.busy},
		}, testTime)
		if err != nil {
			p.h.t.Error(err)
			return
		}
		if o.Code == schemas.CodeApplied {
			return
		}
		if o.Code != schemas.CodeQueueFull {
			p.h.t.Errorf("%s: %+v", id, o)
			return
		}
	}
}

// Messages that arrive while tasks end all the time, by several senders and at random moments: each is
// taken, joins a task or begins one, once, and in the order in which it was taken.
func TestCase_C23_PostsAroundTheEnd(t *testing.T) {
	for _, busy := range []schemas.WhenBusy{schemas.BusySteer, schemas.BusyQueue} {
		t.Run(string(busy), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, bustest.Single(t), map[string]string{"m": "repeat: true\nturns:\n  - steps:\n      - text: ok\n"})
			h.engine("e1")
			h.create("scripted/m", schemas.ApproveAll)
			var senders sync.WaitGroup
			for i := range uint64(4) {
				p := &poster{h: h, name: fmt.Sprint("p", i), busy: busy, rng: rand.New(rand.NewPCG(23, i))}
				senders.Go(func() {
					for n := range 50 {
						p.post(n)
					}
				})
			}
			senders.Wait()
			h.released()
			taken, said, ends := h.prompts()
			if len(taken) != 200 {
				t.Errorf("%d prompts were taken", len(taken))
			}
			if diff := cmp.Diff(taken, said); diff != "" {
				t.Errorf("(-taken +said)\n%s", diff)
			}
			if ends == 0 || busy == schemas.BusyQueue && ends != 200 {
				t.Errorf("%d tasks ended", ends)
			}
		})
	}
}

// prompts lists the prompts that were taken, in order, and those that were said, and counts the tasks.
func (h *house) prompts() (taken, said []string, ends int) {
	h.t.Helper()
	for f, err := range h.conn.ReadFrames(context.Background(), ref, 0, 0, bus.LogOnly) {
		if err != nil {
			h.t.Fatal(err)
		}
		for _, m := range f.Messages {
			switch p := m.Payload.(type) {
			case *schemas.CommandOutcome:
				if p.Taken != "" {
					taken = append(taken, p.CommandID)
				}
			case *schemas.Text:
				if p.Role == schemas.RoleUser {
					said = append(said, p.Text)
				}
			case *schemas.TaskEnd:
				ends++
			}
		}
	}
	return taken, said, ends
}

// A session takes no more than so many tasks that wait, and shows those it took.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"slow": "repeat: true\nturns:\n  - steps:\n      - text: [ok, {wait: never}]\n"})
	h.engine("e1")
	h.create("scripted/slow", schemas.ApproveAll)
	h.task("first", "go")
	var want []bus.QueuedTask
	last := uint64(0)
	for n := range schemas.MaxQueue + 1 {
		id := fmt.Sprint("q", n)
		o := h.send(schemas.Command{ID: id, Type: schemas.CommandTask, Session: ref, Task: &schemas.TaskBody{Prompt: "wait " + id, WhenBusy: schemas.BusyQueue}})
		if n == schemas.MaxQueue {
			if o.Code != schemas.CodeQueueFull {
				t.Errorf("one too many: %+v", o)
			}
			break
		}
		if o.Code != schemas.CodeApplied || o.Taken != schemas.TakenQueued {
			t.Fatalf("%s: %+v", id, o)
		}
		want, last = append(want, bus.QueuedTask{TaskID: id, Prompt: "wait " + id}), o.Log
	}
	h.caughtUp(ref, last)
	info, err := h.conn.AskSession(context.Background(), ref, last)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, info.Queue); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	o := h.send(schemas.Command{ID: "stop", Type: schemas.CommandAbort, Session: ref, Abort: &schemas.AbortBody{DropQueue: true}})
	if o.Code != schemas.CodeApplied {
		t.Fatalf("abort: %+v", o)
	}
	h.released()
	taken, said, ends := h.prompts()
	if len(taken) != schemas.MaxQueue+1 || !slices.Equal(said, []string{"go"}) || ends != 1 {
		t.Errorf("taken %v, said %v, %d ends", taken, said, ends)
	}
}
