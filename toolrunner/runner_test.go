package toolrunner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"braid/schemas"
)

// memoryQueue hands out what is put into it; its deliveries keep the records of a call in memory.
type memoryQueue chan *delivery

func (q memoryQueue) Pull(ctx context.Context, most int) ([]Delivery, error) {
	if most < 1 {
		return nil, errors.New("asked for nothing")
	}
	select {
	case d := <-q:
		if d.pullErr != nil {
			return nil, d.pullErr
		}
		return []Delivery{d}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type delivery struct {
	request  schemas.ToolRequest
	pullErr  error
	pool     string
	refuse   bool
	claimErr error

	mu        sync.Mutex
	claims    int
	fragments []schemas.ToolFragment
	done      chan schemas.ToolResult
	back      chan struct{}
}

func newDelivery(id, tool string) *delivery {
	return &delivery{
		request: schemas.ToolRequest{
			Session: testCall.Session, ToolCallID: id, Name: tool, Attempt: 1, TimeoutMS: 60_000,
		},
		done: make(chan schemas.ToolResult, 1), back: make(chan struct{}, 1),
	}
}

func (d *delivery) Request() schemas.ToolRequest { return d.request }

func (d *delivery) Claim(context.Context) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.claims++
	return !d.refuse, d.claimErr
}

func (d *delivery) Fragment(f schemas.ToolFragment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fragments = append(d.fragments, f)
}

func (d *delivery) FullOutput(context.Context, io.ReadSeeker) (string, error) { return "blob", nil }

func (d *delivery) Offers(tool schemas.ToolDefinition) bool { return tool.Pool == d.pool }

func (d *delivery) GiveBack() { d.back <- struct{}{} }

func (d *delivery) Done(ctx context.Context, r schemas.ToolResult) error {
	d.done <- r
	return ctx.Err()
}

// startRunner runs a runner until the test calls the function it returns.
func startRunner(t *testing.T, q Queue, options RunnerOptions) (*Runner, func()) {
	t.Helper()
	r, err := NewRunner(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { r.Run(ctx, q) })
	return r, func() {
		cancel()
		wg.Wait()
		if err := r.Slots().Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func echoTool(name string) Tool {
	return Tool{Definition: schemas.ToolDefinition{Name: name}, Run: func(_ context.Context, call Call, out *Output) Result {
		fmt.Fprintf(out, "%s says %s", call.Name, call.Arguments)
		return Result{}
	}}
}

func TestRunnerRunsCalls(t *testing.T) {
	q := make(memoryQueue)
	_, stop := startRunner(t, q, RunnerOptions{Tools: []Tool{echoTool("echo")}, Slots: 2})
	var all []*delivery
	for i := range 20 {
		d := newDelivery(fmt.Sprint("c", i), "echo")
		d.request.Arguments = fmt.Sprint(i)
		all = append(all, d)
		q <- d
	}
	for i, d := range all {
		want := fmt.Sprintf("echo says %d", i)
		wantResult(t, <-d.done, schemas.StopCompleted, want)
		if got := joined(t, d.fragments); got != want || d.claims != 1 {
			t.Errorf("fragments %q, %d claims", got, d.claims)
		}
	}
	stop()
}

func TestRunnerLeavesWhatIsNotItsOwn(t *testing.T) {
	q := make(memoryQueue)
	ran := Tool{Definition: schemas.ToolDefinition{Name: "ran"}, Run: func(context.Context, Call, *Output) Result {
		t.Error("a call was run that is not ours")
		return Result{}
	}}
	_, stop := startRunner(t, q, RunnerOptions{Tools: []Tool{ran, echoTool("echo")}, Slots: 1})
	withdrawn, broken := newDelivery("w", "ran"), newDelivery("b", "ran")
	withdrawn.refuse = true
	broken.claimErr = errors.New("the broker is away")
	q <- withdrawn
	q <- broken
	last := newDelivery("l", "echo") // its turn comes after both have left the slot
	q <- last
	<-last.done
	stop()
	if len(withdrawn.done)+len(broken.done) != 0 {
		t.Error("a result was stored for a call that did not run")
	}
}

func TestRunnerNamesItsToolsWhenOneIsUnknown(t *testing.T) {
	q := make(memoryQueue)
	apart := echoTool("apart")
	apart.Definition.Pool = "another"
	_, stop := startRunner(t, q, RunnerOptions{Tools: []Tool{echoTool("one"), apart, echoTool("two")}})
	d := newDelivery("c", "three")
	q <- d
	wantResult(t, <-d.done, schemas.StopFailed, "[no output]\n[failed: no tool of that name runs here; there are: one, two]")
	elsewhere := newDelivery("c2", "apart")
	q <- elsewhere
	wantResult(t, <-elsewhere.done, schemas.StopFailed, "[no output]\n[failed: no tool of that name runs here; there are: one, two]")
	stop()
}

// A result is stored also when the runner is being stopped, and under the request's own bounds.
func TestRunnerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := make(memoryQueue)
		hang := Tool{Definition: schemas.ToolDefinition{Name: "hang"}, Run: func(ctx context.Context, _ Call, out *Output) Result {
			_, _ = out.WriteString("0123456789")
			<-ctx.Done()
			return Result{}
		}}
		_, stop := startRunner(t, q, RunnerOptions{Tools: []Tool{hang}})
		bounded, stopped := newDelivery("b", "hang"), newDelivery("s", "hang")
		bounded.request.TimeoutMS, bounded.request.OutputCap = 50, 3
		q <- bounded
		q <- stopped
		wantResult(t, <-bounded.done, schemas.StopTimeout, "012\n[output truncated: kept the first 3 of 10 bytes]\n[timed out after 50ms]")
		stop()
		wantResult(t, <-stopped.done, schemas.StopAborted, "0123456789\n[aborted: the toolrunner is shutting down]")
	})
}

func TestRunnerSurvivesItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := make(memoryQueue)
		_, stop := startRunner(t, q, RunnerOptions{Tools: []Tool{echoTool("echo")}, Slots: 1})
		began := time.Now()
		q <- &delivery{pullErr: errors.New("away")}
		d := newDelivery("c", "echo")
		q <- d
		<-d.done
		if waited := time.Since(began); waited != retryPause { // a fake clock: exact
			t.Errorf("asked again after %v", waited)
		}
		stop()
	})
}

func TestRunnerRefusesBadTools(t *testing.T) {
	for why, tools := range map[string][]Tool{
		"not a name": {echoTool("a.b")},
		"twice":      {echoTool("a"), echoTool("a")},
	} {
		if _, err := NewRunner(RunnerOptions{Tools: tools}); err == nil || !strings.Contains(err.Error(), "make a runner") {
			t.Errorf("%s: %v", why, err)
		}
	}
}

// A call that another queue was faster than goes back instead of waiting here.
func TestRunnerGivesBackWhatItCannotStart(t *testing.T) {
	q := make(memoryQueue)
	began, gate := make(chan struct{}), make(chan struct{})
	hold := Tool{Definition: schemas.ToolDefinition{Name: "hold"}, Run: func(context.Context, Call, *Output) Result {
		close(began)
		<-gate
		return Result{}
	}}
	r, stop := startRunner(t, q, RunnerOptions{Tools: []Tool{hold}, Slots: 1})
	first, second := newDelivery("a", "hold"), newDelivery("b", "hold")
	q <- first
	<-began
	r.start(second) // as if another queue had pulled it
	<-second.back
	close(gate)
	wantResult(t, <-first.done, schemas.StopCompleted, "[no output]")
	stop()
	if second.claims != 0 {
		t.Error("it was claimed and given back")
	}
	r.start(second) // nor is anything started after the end
	<-second.back
}
