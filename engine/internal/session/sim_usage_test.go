package session

import (
	"pgregory.net/rapid"

	"braid/schemas"
)

// refusedMessage is how a request fails that used nothing.
const refusedMessage = "refused before it was answered"

// drawUsage is what a model says a request used.
func (w *world) drawUsage() schemas.TokenCounts {
	output := rapid.Int64Range(0, 2).Draw(w.t, "output")
	return schemas.TokenCounts{Output: output, Total: output + 1, CostUSD: schemas.USD(rapid.IntRange(0, 3).Draw(w.t, "cost"))}
}

// lost estimates what the open request has used, as engines do: its input and what it has said.
func (w *world) lost() schemas.TokenCounts {
	input, said, open := w.state.OpenRequest()
	if !open {
		return schemas.TokenCounts{}
	}
	return schemas.TokenCounts{Output: int64(len(said)), Total: int64(len(input) + len(said)), CostUSD: schemas.USD(len(said))}
}

// open reports that a request is.
func (w *world) open() bool {
	return w.state.Task != nil && w.state.Task.Request != nil && w.state.Task.Request.Open
}

// checkUsage asserts from the log alone that every request is counted, once: the session's total is
// the sum of what its requests used, and none has ended without a word of it, but for those that used
// nothing.
func (w *world) checkUsage() {
	session, task := w.before(), schemas.TokenCounts{}
	var before schemas.Payload
	for _, m := range w.native() {
		switch p := m.Payload.(type) {
		case *schemas.TokenUsage:
			session, task = session.Add(p.Request), task.Add(p.Request)
			w.require(same(p.Session, session), "the session's total is not the sum of what its requests used")
		case *schemas.RequestEnd:
			_, counted := before.(*schemas.TokenUsage)
			free := p.ErrorMessage == refusedMessage || p.Status == schemas.StopAborted
			w.require(counted || free, "a request has ended, and nobody says what it used")
		case *schemas.TaskEnd:
			task = schemas.TokenCounts{}
		}
		if _, aside := m.Payload.(*schemas.CommandOutcome); !aside {
			before = m.Payload
		}
	}
	w.require(same(w.state.Usage, session), "the state has another total")
	w.require(w.state.Task == nil || same(w.state.Task.Used, task), "the task's total is not the sum of what its requests used")
}

func same(a, b schemas.TokenCounts) bool {
	return a.CacheRead == b.CacheRead && a.CacheWrite == b.CacheWrite && a.Output == b.Output && a.Total == b.Total && a.CostUSD == b.CostUSD
}

func (w *world) require(ok bool, what string) {
	if !ok {
		w.t.Fatalf("%s\n%s", what, w.dump())
	}
}
