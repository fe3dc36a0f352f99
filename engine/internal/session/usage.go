package session

import (
	"slices"

	"braid/schemas"
)

// OpenRequest tells what is known of the request that is open, for whoever must estimate what it used:
// what the model was asked, besides the system prompt and the tools, and what it has said so far, the
// open segment as if it ended here. It is false if none is open; one of a trace that is being imported
// was made elsewhere.
func (s *State) OpenRequest() (input, said []schemas.Message, open bool) {
	if s.imports() || s.Task == nil || s.Task.Request == nil || !s.Task.Request.Open {
		return nil, nil, false
	}
	r := s.Task.Request
	said = slices.Clip(r.Messages)
	if seg := r.Segment; seg != nil {
		for _, p := range seg.closing(seg.Text.String(), "") {
			said = append(said, schemas.Message{Type: schemas.TypeModel, Payload: p})
		}
	}
	return s.input(r.Model), said, true
}

// applyUsage counts what a request used.
func (s *State) applyUsage(p *schemas.TokenUsage) {
	s.Usage = p.Session
	if s.Task != nil {
		s.Task.Used = s.Task.Used.Add(p.Request)
	}
}

// use records what the open request used. Only the request's end may follow.
func (st *step) use(used schemas.TokenCounts, estimated bool) {
	st.emit(&schemas.TokenUsage{Session: st.Usage.Add(used), Request: used, Estimated: estimated})
}

// useIfAny is use for a request that does not complete: one that never reached its model used nothing, and
// has no token_usage.
func (st *step) useIfAny(used schemas.TokenCounts, estimated bool) {
	if used.Total > 0 {
		st.use(used, estimated)
	}
}
