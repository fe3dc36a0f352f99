package engine

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"braid/bus/bustest"
	"braid/schemas"
)

// told is what a ledger told, in order.
type told []any

func (t *told) events() Events {
	return Events{
		Settled:      func(c SettledCommand) { *t = append(*t, c) },
		TakenOver:    func(cause string) { *t = append(*t, cause) },
		RequestEnded: func(r EndedRequest) { *t = append(*t, r) },
		TaskEnded:    func(e EndedTask) { *t = append(*t, e) },
	}
}

// moment is the n-th second of the tests.
func moment(n int) time.Time { return time.Date(2026, 1, 2, 3, 4, n, 0, time.UTC) }

// caller is a place in somebody's trace.
func caller(n string) schemas.TraceContext { return schemas.TraceContext{TraceState: n} }

// ledgerStory is a task of two turns whose second had to be asked for twice, of another model at last.
func ledgerStory() []schemas.Message {
	at := 0
	say := func(p schemas.Payload) schemas.Message { at++; return schemas.New(moment(at), p) }
	only := func(p schemas.Payload) schemas.Message { at++; return schemas.NewTraceOnly(moment(at), p) }
	used := func(output, total int64) schemas.TokenCounts {
		return schemas.TokenCounts{Output: output, Total: total, CostUSD: schemas.USD(total)}
	}
	return []schemas.Message{
		only(&schemas.CommandOutcome{CommandID: "c", Command: schemas.CommandCreate, Code: schemas.CodeApplied}),                     // 1
		only(&schemas.SessionMeta{Provider: "p", ModelID: "big", Agent: "a"}),                                                        // 2
		only(&schemas.CommandOutcome{CommandID: "t1", Command: schemas.CommandTask, Code: schemas.CodeApplied, Caller: caller("1")}), // 3
		only(&schemas.Text{Role: schemas.RoleUser, Text: "hello"}),                                                                   // 4
		say(&schemas.RequestBegin{}), // 5
		say(&schemas.PartialThinking{Role: schemas.RoleAssistant, EventType: schemas.PhaseStart}),                                     // 6
		say(&schemas.Thinking{Role: schemas.RoleAssistant}),                                                                           // 7
		only(&schemas.CommandOutcome{CommandID: "t2", Command: schemas.CommandTask, Code: schemas.CodeQueueFull}),                     // 8
		say(&schemas.TokenUsage{Request: used(3, 10)}),                                                                                // 9
		say(&schemas.RequestEnd{Status: schemas.StopCompleted}),                                                                       // 10
		say(&schemas.RequestBegin{}),                                                                                                  // 11
		say(&schemas.OwnerChanged{Cause: "lost"}),                                                                                     // 12
		say(&schemas.TokenUsage{Request: used(0, 5), Estimated: true}),                                                                // 13
		say(&schemas.RequestEnd{Status: schemas.StopTimeout, ErrorInfo: &schemas.ErrorInfo{Kind: "engine"}}),                          // 14
		say(&schemas.RequestBegin{Attempt: 2, Model: "q/small"}),                                                                      // 15
		say(&schemas.Text{Role: schemas.RoleAssistant, Text: "bye"}),                                                                  // 16
		say(&schemas.TokenUsage{Request: used(1, 7)}),                                                                                 // 17
		say(&schemas.RequestEnd{Status: schemas.StopCompleted, Attempt: 2}),                                                           // 18
		only(&schemas.CommandOutcome{CommandID: "t3", Command: schemas.CommandTask, Code: schemas.CodeApplied, Caller: caller("3")}),  // 19
		only(&schemas.CommandOutcome{CommandID: "t4", Command: schemas.CommandTask, Code: schemas.CodeApplied, Caller: caller("4")}),  // 20
		only(&schemas.CommandOutcome{CommandID: "t5", Command: schemas.CommandSteer, Code: schemas.CodeApplied, Caller: caller("5")}), // 21
		only(&schemas.CommandOutcome{CommandID: "t6", Command: schemas.CommandSteer, Code: schemas.CodeApplied}),                      // 22
		say(&schemas.TaskDequeued{TaskID: "t5", Cause: schemas.DequeuedSteering}),                                                     // 23
		say(&schemas.TaskDequeued{TaskID: "t6", Cause: schemas.DequeuedSteering}),                                                     // 24
		say(&schemas.TaskDequeued{TaskID: "t4", Cause: schemas.DequeuedWithdrawn}),                                                    // 25
		say(&schemas.TaskEnd{TaskID: "t1", Status: schemas.StopCompleted, Cause: schemas.CauseDone}),                                  // 26
		only(&schemas.TaskDequeued{TaskID: "t3", Cause: schemas.DequeuedStarted}),                                                     // 27
		only(&schemas.Text{Role: schemas.RoleUser, Text: "next"}),                                                                     // 28
		say(&schemas.TaskEnd{TaskID: "t3", Status: schemas.StopFailed, Cause: "input"}),                                               // 29
	}
}

// ledgerTold is what the story amounts to.
func ledgerTold() told {
	of := TaskOf{Session: ref, Agent: "a", Task: "t1", Caller: caller("1")}
	counts := func(output, total int64) schemas.TokenCounts {
		return schemas.TokenCounts{Output: output, Total: total, CostUSD: schemas.USD(total)}
	}
	return told{
		SettledCommand{schemas.CommandCreate, schemas.CodeApplied},
		SettledCommand{schemas.CommandTask, schemas.CodeApplied},
		SettledCommand{schemas.CommandTask, schemas.CodeQueueFull},
		EndedRequest{TaskOf: of, Model: "p/big", Attempt: 1, Begun: moment(5), Said: moment(6), Ended: moment(10), Status: schemas.StopCompleted, Used: counts(3, 10)},
		"lost",
		EndedRequest{TaskOf: of, Model: "p/big", Attempt: 1, Begun: moment(11), Ended: moment(14), Status: schemas.StopTimeout, Failure: &schemas.ErrorInfo{Kind: "engine"}, Used: counts(0, 5), Estimated: true},
		EndedRequest{TaskOf: of, Model: "q/small", Attempt: 2, Begun: moment(15), Said: moment(16), Ended: moment(18), Status: schemas.StopCompleted, Used: counts(1, 7)},
		SettledCommand{schemas.CommandTask, schemas.CodeApplied},
		SettledCommand{schemas.CommandTask, schemas.CodeApplied},
		SettledCommand{schemas.CommandSteer, schemas.CodeApplied},
		SettledCommand{schemas.CommandSteer, schemas.CodeApplied},
		EndedTask{TaskOf: of, Model: "p/big", Begun: moment(4), Ended: moment(26), Status: schemas.StopCompleted, Cause: schemas.CauseDone, Turns: 2, Used: counts(4, 22), Steered: []schemas.TraceContext{caller("5")}},
		EndedTask{TaskOf: TaskOf{Session: ref, Agent: "a", Task: "t3", Caller: caller("3")}, Model: "p/big", Begun: moment(28), Ended: moment(29), Status: schemas.StopFailed, Cause: "input"},
	}
}

func TestLedger(t *testing.T) {
	var got told
	l := newLedger(ref)
	for _, m := range ledgerStory() {
		l.read(m, got.events())
	}
	if diff := cmp.Diff(ledgerTold(), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Wherever one owner is lost, it and the next together tell all, each once.
func TestLedgerGoesOnAfterAnyMessage(t *testing.T) {
	story := ledgerStory()
	for cut := range len(story) + 1 {
		var got told
		first, second := newLedger(ref), newLedger(ref)
		for _, m := range story[:cut] {
			first.read(m, got.events())
			second.read(m, Events{})
		}
		for _, m := range story[cut:] {
			second.read(m, got.events())
		}
		if diff := cmp.Diff(ledgerTold(), got); diff != "" {
			t.Errorf("lost after %d messages (-want +got)\n%s", cut, diff)
		}
		if len(second.callers) > 0 {
			t.Errorf("lost after %d messages: %v is remembered for ever", cut, second.callers)
		}
	}
}

// What was recorded elsewhere happened elsewhere, and child sessions speak for themselves.
func TestLedgerLeavesOut(t *testing.T) {
	now := moment(0)
	imported := schemas.NewTraceOnly(now, &schemas.SessionImported{
		Messages: 3, CommandID: "i", Sequence: 7, Settings: schemas.SessionMeta{Provider: "p", ModelID: "new"},
	})
	applied := schemas.NewTraceOnly(now, &schemas.CommandOutcome{CommandID: "i", Sequence: 7, Command: schemas.CommandImport, Code: schemas.CodeApplied})
	for why, c := range map[string]struct {
		messages []schemas.Message
		want     told
	}{
		"an imported request": {[]schemas.Message{
			imported,
			schemas.New(now, &schemas.SessionMeta{Provider: "o", ModelID: "old"}),
			schemas.New(now, &schemas.RequestBegin{}),
			schemas.New(now, &schemas.RequestEnd{Status: schemas.StopCompleted}),
			applied,
		}, told{SettledCommand{schemas.CommandImport, schemas.CodeApplied}}},
		"the end of a task that a trace has begun": {[]schemas.Message{
			schemas.New(now, &schemas.TaskEnd{Status: schemas.StopAborted, Cause: schemas.CauseImport}),
		}, nil},
		"a request of a child": {[]schemas.Message{
			schemas.New(now, &schemas.RequestBegin{}).WithOrigin("child"),
			schemas.New(now, &schemas.RequestEnd{Status: schemas.StopCompleted}).WithOrigin("child"),
		}, nil},
	} {
		var got told
		l := newLedger(ref)
		for _, m := range c.messages {
			l.read(m, got.events())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", why, diff)
		}
		if why == "an imported request" && l.model != "p/new" {
			t.Errorf("%s: goes on with %q", why, l.model)
		}
	}
}

// An engine that takes a session over tells of the request it closes and of the task that it ends as
// if both had begun under it.
func TestEventsAfterATakeover(t *testing.T) {
	t.Parallel()
	h := newHouse(t, bustest.Single(t), map[string]string{"slow": streaming})
	var mu sync.Mutex
	var first, second told
	tellTo := func(to *told) func(*Options) {
		return func(o *Options) {
			locked := func(what any) { mu.Lock(); defer mu.Unlock(); *to = append(*to, what) }
			o.Events = Events{
				TakenOver:    func(cause string) { locked(cause) },
				RequestEnded: func(r EndedRequest) { locked(r) },
				TaskEnded:    func(e EndedTask) { locked(e) },
			}
		}
	}
	e1 := h.killable("e1", tellTo(&first))
	h.create("scripted/slow", schemas.ApproveAll)
	h.task("t1", "go")
	messages := h.follow(func(m schemas.Message) bool { return m.Kind() == schemas.KindPartialText })
	begun := messages[slices.IndexFunc(messages, func(m schemas.Message) bool { return m.Kind() == schemas.KindRequestBegin })].Time()
	e1.kill()
	h.engine("e2", tellTo(&second))
	h.follow(taskEnded)
	h.eventually("the task's end is told", func() bool { mu.Lock(); defer mu.Unlock(); return len(second) == 4 })
	mu.Lock()
	defer mu.Unlock()
	if len(first) != 0 {
		t.Errorf("the one that was killed told %v", first)
	}
	cause, _ := second[0].(string)
	lost, _ := second[1].(EndedRequest)
	task, _ := second[3].(EndedTask)
	if cause != "lost" || lost.Model != "scripted/slow" || !lost.Begun.Equal(begun) || lost.Said.IsZero() || lost.Status != schemas.StopTimeout || lost.Task != "t1" {
		t.Errorf("after the takeover: %v, %+v", cause, lost)
	}
	if task.Task != "t1" || task.Begun.IsZero() || task.Begun.After(begun) || task.Turns != 1 || task.Used.Total <= 0 {
		t.Errorf("the task: %+v", task)
	}
}
