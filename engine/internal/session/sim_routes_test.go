package session

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"braid/schemas"
)

// drawFallbacks draws what stands in for the model "p/m".
func (w *world) drawFallbacks() []string {
	return rapid.SampledFrom([][]string{nil, {"p/n"}, {"q/m", "p/n"}}).Draw(w.t, "fallback models")
}

// signed is what a model says, with a fidelity that names it.
func signed(script []schemas.Message, model string) []schemas.Message {
	script = slices.Clone(script)
	by := jsontext.Value(`{"by":"` + model + `"}`)
	for i, m := range script {
		switch p := m.Payload.(type) {
		case *schemas.Text:
			c := *p
			c.Fidelity = by
			script[i].Payload = &c
		case *schemas.Thinking:
			c := *p
			c.Fidelity = by
			script[i].Payload = &c
		case *schemas.ToolCall:
			c := *p
			c.Fidelity = by
			script[i].Payload = &c
		}
	}
	return script
}

// checkFidelity asserts that a model gets its own fidelity and nobody else's.
func (w *world) checkFidelity(model string, input []schemas.Message) {
	for _, m := range input {
		f := schemas.Fidelity(m.Payload)
		if f != nil && string(f) != `{"by":"`+model+`"}` {
			w.t.Fatalf("%s is sent %s\n%s", model, f, w.dump())
		}
	}
}

// routeReader is a reader of the log that knows of routes.
type routeReader struct {
	w      *world
	routes []string
	asked  map[string]bool      // in this task
	failed map[string]time.Time // when a model was last given up
	now    time.Time
	model  string // the newest request's, empty before the task's first
	tries  int    // on it, that count
	moved  bool   // its owner was
	open   bool
	end    *schemas.RequestEnd // of the request before, nil if it completed or there is none
	owed   string              // why more should have been announced; only a budget excuses it
}

// checkRoutes asserts from the log alone that each request goes to the model that was announced, that a
// route is left when its ladder is climbed and not before, and that who is asked next was not asked in the
// task and, if there is such a one, was not given up lately.
func (w *world) checkRoutes() {
	r := &routeReader{w: w, asked: map[string]bool{}, failed: map[string]time.Time{}}
	for _, m := range w.native() {
		r.read(m)
	}
}

func (r *routeReader) require(ok bool, what string) {
	if !ok {
		r.w.t.Fatalf("%s (routes %v)\n%s", what, r.routes, r.w.dump())
	}
}

func (r *routeReader) read(m schemas.Message) {
	_, excused := m.Payload.(*schemas.BudgetExceeded)
	r.require(r.owed == "" || excused, r.owed)
	r.owed, r.now = "", m.Time()
	switch p := m.Payload.(type) {
	case *schemas.SessionMeta:
		r.routes = append([]string{modelOf(p)}, p.FallbackModels...)
	case *schemas.SessionImported:
		r.routes = append([]string{modelOf(&p.Settings)}, p.Settings.FallbackModels...)
	case *schemas.RequestBegin:
		r.begin(p)
	case *schemas.OwnerChanged:
		r.moved = r.open && p.Cause == schemas.OwnerLetGo
	case *schemas.RequestEnd:
		r.open = false
		r.ended(p)
	case *schemas.TaskEnd:
		r.require(r.end == nil || r.end.RetryInMS == 0 && r.end.FallbackModel == "" || p.Status == schemas.StopAborted || p.Cause == "engine",
			"the task ends where more was announced")
		r.model, r.tries, r.end = "", 0, nil
		clear(r.asked)
	}
}

// next is who should be asked where the task begins, or where a route has failed; empty if nobody is left.
func (r *routeReader) next() string {
	left := slices.DeleteFunc(slices.Clone(r.routes), func(model string) bool { return r.asked[model] })
	warm := slices.IndexFunc(left, func(model string) bool {
		at, ok := r.failed[model]
		return !ok || r.now.Sub(at) >= 5*time.Minute
	})
	if len(left) == 0 {
		return ""
	}
	return left[max(warm, 0)]
}

func (r *routeReader) begin(p *schemas.RequestBegin) {
	r.open = true
	model := cmp.Or(p.Model, r.routes[0])
	r.require(p.Model != r.routes[0], "the session's own model is named")
	switch {
	case r.model == "":
		r.require(model == r.next(), "the task begins on another route")
		r.tries = 1
	case r.end == nil:
		r.require(model == r.model, "a turn begins on another route")
		r.tries = 1
	case r.end.FallbackModel != "":
		r.require(model == r.end.FallbackModel, "not the announced model is asked")
		r.tries = 1
	default:
		r.require(r.end.RetryInMS > 0 && model == r.model, "an attempt that was not announced")
		if r.end.RetryInMS > 1 {
			r.tries++
		}
	}
	r.require(r.tries <= maxAttempts, "too many attempts")
	r.model, r.asked[model] = model, true
}

func (r *routeReader) ended(p *schemas.RequestEnd) {
	moved := r.moved
	r.moved = false
	if r.end = p; p.Status == schemas.StopCompleted {
		r.end = nil
		delete(r.failed, r.model)
		return
	}
	r.require((p.ErrorInfo == nil) == (p.Status == schemas.StopAborted), "a failure without its reason")
	next := r.next()
	last := next == ""
	climbed := r.tries == maxAttempts || p.Status == schemas.StopAuth
	nothing := p.RetryInMS == 0 && p.FallbackModel == ""
	switch {
	case p.Status == schemas.StopAborted, p.ErrorInfo.Message == gaveUpText:
	case nothing && (moved || !climbed || !last):
		r.owed = "the task has attempts left"
	case moved:
		r.require(p.RetryInMS == 1, "a request that was handed over is not made again at once")
	case climbed && last:
		r.require(nothing, "more than there is was announced")
	case climbed:
		r.require(p.FallbackModel == next, "not the next route")
	default:
		r.require(p.RetryInMS >= retryBase.Milliseconds() && p.FallbackModel == "", "the ladder was left early")
	}
	if climbed && !moved && p.Status != schemas.StopAborted && p.ErrorInfo.Kind == "provider" {
		r.failed[r.model] = r.now
	}
}
