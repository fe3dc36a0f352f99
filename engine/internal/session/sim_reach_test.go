package session

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"braid/schemas"
)

// reachReader notes, from the log alone, where a schedule came to that several parts of the core have to
// do with at once.
type reachReader struct {
	seen map[string]bool

	model    string // the newest request's, if it is not the session's own
	open     bool
	calls    int // of the newest request
	attempt  int
	moves    int // owners that have handed it over
	end      *schemas.RequestEnd
	last     schemas.Payload // the newest but commands' outcomes
	usage    *schemas.TokenUsage
	over     bool
	changed  bool            // another owner took over since the newest request began
	aborting bool            // somebody has asked for the task's end
	waits    map[string]bool // what waits, and whether it steers
	withdraw int             // taken back since the newest outcome
	aborted  int             // tasks in a row
	deleting bool
	asked    bool // a person is, by a rule
	steering bool // it joins a task
	begun    bool // the task has begun a request
	imports  schemas.Imported
	imported bool
}

func (r *reachReader) note(ok bool, what string) {
	if ok {
		r.seen[what] = true
	}
}

func (r *reachReader) steered() (n int) {
	for _, steers := range r.waits {
		if steers {
			n++
		}
	}
	return n
}

func (r *reachReader) read(m schemas.Message) {
	if r.imports.Take(m, schemas.ViewRecorded) {
		return
	}
	switch p := m.Payload.(type) {
	case *schemas.SessionImported:
		r.imported = true
	case *schemas.CommandOutcome:
		r.outcome(p)
		return
	case *schemas.RequestBegin:
		r.begins(p)
	case *schemas.ToolCall:
		if r.open {
			r.calls++
		}
	case *schemas.TokenUsage:
		r.usage = p
	case *schemas.RequestEnd:
		r.ends(p)
	case *schemas.BudgetExceeded:
		r.overBudget(p)
	case *schemas.LoopDetected:
		r.note(r.over, "loop and budget at once")
		r.note(r.steered() > 0, "loop while something steers")
	case *schemas.OwnerChanged:
		r.owner(p)
	case *schemas.TaskQueued:
		r.waits[p.TaskID] = p.Steers
		r.note(len(r.waits) == schemas.MaxQueue, "full queue")
		r.note(r.deleting, "a prompt waits for a session that is deleted")
	case *schemas.TaskDequeued:
		r.dequeued(p)
	case *schemas.Text, *schemas.ImageURL:
		_, image := p.(*schemas.ImageURL)
		r.note(m.Given() && r.steering && image, "an image steers")
		r.note(m.Given() && r.imported && image, "an image for an imported session")
	case *schemas.ToolCallOutput:
		r.note(r.aborting && strings.Contains(p.Output, gaveUpText), "given up while aborting")
	case *schemas.ApprovalRequest:
		r.asked = p.Rule != ""
		r.note(r.asked, "asked by a rule")
	case *schemas.ApprovalDecision:
		r.decided(p)
	case *schemas.SessionChanged:
		r.note(r.asked, "mode changed while a rule asks")
	case *schemas.SessionDeleted:
		r.note(true, "deleted")
	case *schemas.TaskEnd:
		r.taskEnds(p)
	}
	r.last = m.Payload
}

func (r *reachReader) outcome(p *schemas.CommandOutcome) {
	applied := p.Code == schemas.CodeApplied
	r.withdraw = 0
	switch {
	case p.Code == schemas.CodeDeleted:
		r.note(true, "refused as deleted")
	case p.Code == schemas.CodeQueueFull || p.Code == schemas.CodeHasHistory:
		r.note(true, "refused as "+string(p.Code))
	case p.Command == schemas.CommandAbort && applied:
		r.note(r.aborting, "aborted twice")
		r.note(r.asked, "aborted while a rule asks")
		r.note(r.model != "" && r.open, "aborted on a fallback model")
		r.note(r.over, "aborted over budget")
		r.aborting = true
	case p.Command == schemas.CommandDelete && applied:
		r.note(r.aborting, "deleted while aborting")
		r.note(r.open, "deleted in a request")
		r.note(len(r.waits) > 1, "deleted with a queue")
		r.note(r.steered() > 0, "deleted while something steers")
		r.note(r.deleting, "deleted twice")
		r.aborting, r.deleting = true, true
	case p.Command == schemas.CommandRetryNow && applied:
		r.note(r.model != "", "retry_now on a fallback model")
		r.note(r.steered() > 0, "retry_now while something steers")
	}
}

func (r *reachReader) begins(p *schemas.RequestBegin) {
	r.note(r.steering && r.end == nil && !r.begun, "steered before the first request")
	r.note(r.steering && r.end != nil && r.end.FallbackModel != "", "steered into a fallback")
	r.note(r.steering && r.end != nil && r.end.RetryInMS > 1, "steered into a retry")
	r.note(r.steering && r.end != nil && r.end.RetryInMS == 1, "steered into a request that was handed over")
	r.note(r.steering && r.begun && r.end == nil && r.calls == 0, "steered behind an answer")
	r.note(r.steering && r.begun && r.end == nil && r.calls > 0, "steered behind outputs")
	r.note(p.Model != "" && p.Attempt <= 1 && r.begun, "another turn on a fallback model")
	r.note(p.Model != "" && !r.begun, "a task begins on a fallback model")
	r.note(p.Model == "" && r.end != nil && r.end.FallbackModel != "", "the model that was skipped comes last")
	r.note(r.imported && p.Model != "", "a fallback of an imported session")
	if p.Attempt <= 1 || r.end == nil || r.end.RetryInMS != 1 {
		r.moves = 0
	}
	r.model, r.open, r.calls, r.end, r.usage = p.Model, true, 0, nil, nil
	r.attempt, r.steering, r.begun, r.changed = max(p.Attempt, 1), false, true, false
}

func (r *reachReader) ends(p *schemas.RequestEnd) {
	r.open, r.end = false, p
	if p.Status == schemas.StopCompleted {
		r.end = nil
	}
	r.note(p.FallbackModel != "" && p.Status == schemas.StopAuth, "fallback at once")
	r.note(p.FallbackModel != "" && p.Status != schemas.StopAuth, "fallback behind a ladder")
	r.note(p.FallbackModel != "" && r.model != "", "a second fallback")
	r.note(p.Status == schemas.StopAborted && r.usage != nil && r.usage.Estimated, "an abort that another owner counts")
	r.note(p.Status == schemas.StopAborted && r.changed && r.model != "", "an abort that another owner counts, on a fallback model")
	r.note(r.changed && r.aborting && r.deleting, "deleted, and another owner ends the request")
}

func (r *reachReader) overBudget(p *schemas.BudgetExceeded) {
	r.over = true
	failed := r.end != nil
	r.note(p.Unit == schemas.UnitUSD, "over a budget in money")
	r.note(p.Unit == schemas.UnitUSD && r.model != "", "over a budget in money on a fallback model")
	r.note(failed && r.end.Status == schemas.StopAborted, "an aborted request goes over budget")
	r.note(failed && r.end.Status != schemas.StopAborted && r.model != "", "a failed request of a fallback model goes over budget")
	r.note(failed && r.end.Status != schemas.StopAborted && r.attempt > 1, "a retry goes over budget")
	r.note(failed && r.changed, "a request that was taken over goes over budget")
	r.note(failed && r.moves > 0, "a request that was handed over goes over budget")
	r.note(r.steered() > 0, "over budget while something steers")
	r.note(r.imported, "an imported session goes over budget")
}

func (r *reachReader) owner(p *schemas.OwnerChanged) {
	r.changed = true
	if r.open && p.Cause == schemas.OwnerLetGo {
		r.moves++
	}
	r.note(r.moves > 1, "handed over twice in a request")
	r.note(r.moves > 0 && r.model != "", "handed over on a fallback model")
	r.note(r.open && p.Cause == schemas.OwnerLetGo && r.attempt >= maxAttempts, "handed over high on a ladder")
	r.note(r.open && p.Cause == schemas.OwnerLetGo && r.aborting, "handed over while aborting")
	r.note(r.over, "taken over over budget")
	r.note(r.steered() > 0, "taken over while something steers")
	r.note(len(r.waits)-r.steered() > 1, "taken over with a queue")
	r.note(r.asked, "taken over while a rule asks")
}

func (r *reachReader) dequeued(p *schemas.TaskDequeued) {
	steers := r.waits[p.TaskID]
	delete(r.waits, p.TaskID)
	r.steering = p.Cause == schemas.DequeuedSteering
	if p.Cause == schemas.DequeuedWithdrawn {
		r.withdraw++
		r.note(steers, "steering taken back")
		r.note(r.aborting && r.withdraw > 1, "a queue is dropped")
	}
}

func (r *reachReader) decided(p *schemas.ApprovalDecision) {
	r.note(p.Rule != "" && p.Decision == schemas.DecisionForbidden, "forbidden by a rule")
	r.note(p.Rule != "" && r.changed, "forbidden by the rule of another owner")
	r.note(r.asked && p.Rule != "" && p.Decision == schemas.DecisionForbidden, "asked by one rule, forbidden by another")
	r.note(r.asked && p.Decision == schemas.DecisionAllow, "allowed though a rule asks")
	r.asked = false
}

func (r *reachReader) taskEnds(p *schemas.TaskEnd) {
	if r.steered() > 0 {
		r.note(true, "steering outlives its task: "+p.Cause)
	}
	if p.Status == schemas.StopAborted {
		r.aborted++
	} else {
		r.aborted = 0
	}
	r.note(r.aborted > 2, "tasks aborted in a row")
	r.note(p.Cause == schemas.CauseBudget && !r.begun && len(r.waits) > 0, "no budget for a queue")
	r.note(p.Cause == schemas.CauseBudget && p.Status != schemas.StopCompleted && r.begun, "a budget ends the retries")
	r.note(p.Cause == "engine" && len(r.waits) > 0, "given up with a queue")
	r.note(r.imported && p.Cause == schemas.CauseDone, "a task of an imported session")
	over := *r
	*r = reachReader{seen: over.seen, waits: over.waits, aborted: over.aborted, deleting: over.deleting, imports: over.imports, imported: over.imported}
	for id := range r.waits {
		r.waits[id] = false
	}
}

// What schedules find nothing in proves nothing of it, unless some schedules come there.
func TestSchedulesReach(t *testing.T) {
	if testing.Short() {
		t.Skip("plays thousands of schedules")
	}
	counts := map[string]int{}
	for seed := range 4000 { // the same in every run
		seen := rapid.Custom(func(t *rapid.T) map[string]bool {
			seen := map[string]bool{}
			for w := playSchedule(t); w != nil; w = w.copied {
				r := &reachReader{seen: seen, waits: map[string]bool{}}
				for _, e := range w.log {
					r.read(e.Message)
				}
			}
			return seen
		}).Example(seed)
		for what := range seen {
			counts[what]++
		}
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%5d schedules: %s", counts[what], what)
	}
	for what := range strings.SplitSeq(strings.TrimSpace(combinations), "\n") {
		if counts[what] == 0 {
			t.Errorf("no schedule reaches: %s", what)
		}
	}
}

// combinations must be reached: where several parts of the core have to do with one frame.
const combinations = `
a failed request of a fallback model goes over budget
a fallback of an imported session
a queue is dropped
a request that was handed over goes over budget
a request that was taken over goes over budget
a retry goes over budget
a second fallback
a task begins on a fallback model
a task of an imported session
aborted on a fallback model
aborted twice
allowed though a rule asks
an abort that another owner counts
an aborted request goes over budget
an image for an imported session
an image steers
an imported session goes over budget
another turn on a fallback model
asked by a rule
deleted in a request
deleted while aborting
fallback at once
fallback behind a ladder
forbidden by a rule
given up while aborting
given up with a queue
handed over on a fallback model
handed over twice in a request
handed over while aborting
over a budget in money on a fallback model
over budget while something steers
retry_now on a fallback model
steered before the first request
steered behind an answer
steered behind outputs
steered into a fallback
steered into a request that was handed over
steered into a retry
steering outlives its task: budget
steering outlives its task: engine
steering outlives its task: user
steering taken back
taken over while something steers
taken over with a queue
tasks aborted in a row
the model that was skipped comes last
`
