package session

import (
	"cmp"
	"slices"
	"time"

	"braid/schemas"
)

// The routes of a session are the models its requests may go to: its own, then its fallback models in
// their order. A task begins on the first. Once a route has failed for good (its ladder is climbed, or
// another attempt there would fail the same way) the task goes on with the next at once, on a fresh
// ladder, and stays there: going back would cost a whole ladder of failures in every turn.
//
// A model that was given up so, for a reason of its provider's, is asked last for a while: else every task
// would climb its ladder anew. When the while is over, or it has answered, it is in its place again.

// coolDown is how long such a model is asked last. It is a blunt instrument: long enough that a session under way pays for an outage
// now and then and not with every task, short enough that nobody has to turn anything back.
const coolDown = 5 * time.Minute

// ownModel is the session's own model, which is its first route.
func (s *State) ownModel() string {
	if s.importing != nil {
		return modelOf(s.importing.settings)
	}
	return modelOf(s.Meta)
}

// modelOf is a session's own model, "provider/model"; empty if nothing is known of it.
func modelOf(meta *schemas.SessionMeta) string {
	if meta == nil {
		return ""
	}
	return meta.Provider + "/" + meta.ModelID
}

// nextRoute is the model that the task goes to, or goes on with: the first that it has not asked and that
// does not cool down, or else the first that it has not asked; empty if it has asked all.
func (st *step) nextRoute() string {
	var last string
	for _, model := range append([]string{st.ownModel()}, st.fallbacks()...) {
		switch {
		case slices.Contains(st.Task.Asked, model):
		case !st.cools(model):
			return model
		default:
			last = cmp.Or(last, model)
		}
	}
	return last
}

// fallbacks are the models that follow the session's own.
func (s *State) fallbacks() []string {
	if s.Meta == nil {
		return nil
	}
	return s.Meta.FallbackModels
}

// cools reports that the model was given up a short while ago. Clocks of owners differ: an instant that is
// far ahead says nothing.
func (st *step) cools(model string) bool {
	at, ok := st.GivenUp[model]
	return ok && st.now.Sub(at).Abs() < coolDown
}

// giveUp takes note of a request whose route has no attempt left, unless that says nothing of its model: it
// was aborted, its input refused, or its engines lost.
func (s *State) giveUp(r *Request) {
	kind := r.Failure.Kind
	if s.importing != nil || r.climbs(r.Status, r.Failure) || r.Status == schemas.StopAborted || refusedInput(kind) || kind == schemas.FaultEngine {
		return
	}
	if s.GivenUp == nil {
		s.GivenUp = map[string]time.Time{}
	}
	s.GivenUp[r.Model] = r.Ended
}

// newRequest is the request that begins behind the one before, which may be nil.
func (s *State) newRequest(p *schemas.RequestBegin, before *Request) *Request {
	model := s.ownModel()
	if s.importing != nil {
		model = s.importing.model
	}
	r := &Request{Attempt: max(p.Attempt, 1), Open: true, Model: cmp.Or(p.Model, model), Tries: 1}
	if before != nil && r.Attempt > 1 && before.Model == r.Model {
		r.Tries = before.Tries
		if !before.Moved {
			r.Tries++
		}
	}
	return r
}

// goOn announces, on the end of the failed request, what follows it: another attempt after a wait, the
// next route, or nothing. A request that its engine gave out of its hands has not failed: it is made
// again at once, on the same step of the ladder.
func (st *step) goOn(end *schemas.RequestEnd, asked time.Duration) {
	r := st.Task.Request
	if st.overBudget() != nil {
		return
	}
	if !r.climbs(end.Status, end.ErrorInfo) {
		end.FallbackModel = st.afterFailure(end.Status)
		return
	}
	delay := time.Millisecond
	if !r.Moved {
		delay = retryDelay(r.Tries, asked, st.jitter)
	}
	end.RetryInMS = delay.Milliseconds()
	st.waiting = true
	st.do(WaitRetry{Request: r.ID, Delay: delay})
}

// climbs reports that the route of a request that ended like this has another attempt for it. What an
// adapter refused before it sent a byte fails the same way again.
func (r *Request) climbs(status schemas.StopReason, failure *schemas.ErrorInfo) bool {
	hopeless := status == schemas.StopAuth || status == schemas.StopAborted || refusedInput(failure.Kind)
	return r.Moved || !hopeless && r.Tries < maxAttempts
}

// refusedInput reports that a failure of the kind is one of what was asked: it is none of the model's, and
// comes again if it is asked again.
func refusedInput(kind string) bool {
	return kind == schemas.FaultInput || kind == schemas.FaultContext
}

// afterFailure is the route that follows where the request's has no attempt left; empty if none does.
func (st *step) afterFailure(status schemas.StopReason) string {
	if status == schemas.StopAborted {
		return ""
	}
	return st.nextRoute()
}

// failTask ends the task with the failure of its last request: for its budget if it would have gone on
// within that.
func (st *step) failTask() {
	r := st.Task.Request
	cause := r.Failure.Kind
	if st.Task.OverBudget && (r.climbs(r.Status, r.Failure) || st.afterFailure(r.Status) != "") {
		cause = schemas.CauseBudget
	}
	st.endTask(&schemas.TaskEnd{Status: r.Status, Cause: cause, ErrorInfo: r.Failure})
}

// input is the context as the model gets it. Fidelity is what a model wants back of its own words, and
// goes to no other; nor does reasoning of which nothing is left without it.
func (s *State) input(model string) []schemas.Message {
	own := s.ownModel()
	if model == own && len(s.Said) == 0 {
		return slices.Clip(s.Context)
	}
	in := make([]schemas.Message, 0, len(s.Context))
	said := s.Said
	for i, m := range s.Context {
		if len(said) > 0 && said[0].To <= i {
			said = said[1:]
		}
		by := own
		if len(said) > 0 && said[0].From <= i {
			by = said[0].Model
		}
		if by == model {
			in = append(in, m)
		} else if m.Payload = schemas.WithoutFidelity(m.Payload); m.Payload != nil {
			in = append(in, m)
		}
	}
	return in
}

// commit takes what the completed request said into the context.
func (s *State) commit(r *Request) {
	from := len(s.Context)
	s.Context = append(s.Context, r.Messages...)
	s.Committed = len(s.Context)
	if r.Model != s.ownModel() && s.Committed > from {
		s.Said = append(s.Said, Said{Model: r.Model, From: from, To: s.Committed})
	}
}
