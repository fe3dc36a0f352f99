package session

import (
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"braid/schemas"
)

// loopHint is what the model reads after a turn that repeated others.
const loopHint = "[loop_detected] Your last turns repeat one another, and their results are the same. " +
	"Do something else, or say what keeps you from going on; the task ends if the next turn repeats them again."

// maxLoopDetail bounds the detail of a loop_detected event, in bytes.
const maxLoopDetail = 200

// Turn is what loop detection keeps of a committed turn: hashes of what it called, of what it said
// (empty if nothing), and of what came of its calls.
type Turn struct{ Calls, Text, Results string }

// loop tells how the turn of the request that has just ended repeats those before; nil if it does
// not. A turn without calls ends its task and repeats nothing.
func (s *State) loop() *schemas.LoopDetected {
	limits, r := s.limits(), s.Task.Request
	if limits.LoopLimit == 0 || len(r.Calls) == 0 {
		return nil
	}
	turn := s.turnOf(r)
	if n := s.alike(callsOf, turn); n >= limits.LoopLimit {
		return &schemas.LoopDetected{Repeated: schemas.LoopOfCalls, Repetitions: n, Detail: excerpt(r.Calls[0].Name + " " + r.Calls[0].Arguments)}
	}
	if n := s.alike(textOf, turn); n >= limits.LoopLimit {
		return &schemas.LoopDetected{Repeated: schemas.LoopOfText, Repetitions: n, Detail: excerpt(r.text())}
	}
	return nil
}

// loopEnds reports that the newest committed turn is part of a loop for which the task ends.
func (s *State) loopEnds() bool {
	t := s.Task
	if t.Request == nil || !t.Request.Looped {
		return false
	}
	action := s.limits().OnLoop
	return action == schemas.LoopTerminate || action == schemas.LoopWarn && t.Warned
}

// loopNear reports that the open request may make a loop complete: decisions on its calls wait for
// its end, since they may all have to be forbidden.
func (s *State) loopNear() bool {
	r, limits := s.Task.Request, s.limits()
	if !r.Open || limits.LoopLimit == 0 || len(r.Calls) == 0 {
		return false
	}
	for _, turn := range s.Task.Past {
		if s.alike(callsOf, turn) >= limits.LoopLimit || s.alike(textOf, turn) >= limits.LoopLimit {
			return true
		}
	}
	return false
}

func callsOf(t Turn) string { return t.Calls }
func textOf(t Turn) string  { return t.Text }

// alike counts, within the window, the turns that are like the given one in an aspect, itself included. Of
// the past ones it goes back only as long as their results are the same: a model that asks again and gets
// another answer waits for something, and is in no loop.
func (s *State) alike(aspect func(Turn) string, turn Turn) int {
	n, results := 1, ""
	if aspect(turn) == "" {
		return 0
	}
	for _, past := range slices.Backward(s.Task.Past) {
		switch {
		case aspect(past) != aspect(turn):
			continue
		case n == 1:
			results = past.Results
		case past.Results != results:
			return n
		}
		n++
	}
	return n
}

// turnOf describes the turn of a committed request. Calls that have no output yet add nothing to its results.
func (s *State) turnOf(r *Request) Turn {
	if len(r.Calls) == 0 {
		return Turn{}
	}
	calls, results := sha256.New(), sha256.New()
	for _, c := range r.Calls {
		fmt.Fprintf(calls, "%q %q\n", c.Name, s.canonical(c))
		if o := c.Output; o != nil {
			fmt.Fprintf(results, "%q %q %q\n", o.Output, o.StopReason, o.Images)
		}
	}
	turn := Turn{Calls: string(calls.Sum(nil)), Results: string(results.Sum(nil))}
	if text := r.text(); text != "" {
		said := sha256.New()
		_, _ = io.WriteString(said, text) // a hash takes everything
		turn.Text = string(said.Sum(nil))
	}
	return turn
}

// text is what the model said in the request.
func (r *Request) text() string {
	var b strings.Builder
	for _, m := range r.Messages {
		if p, ok := m.Payload.(*schemas.Text); ok {
			b.WriteString(p.Text)
		}
	}
	return strings.TrimSpace(b.String())
}

// canonical is one text for all arguments that ask for the same: neither white space nor the order
// of members counts, nor members that the tool does not take. What is no JSON object stays as it is.
func (s *State) canonical(c *Call) string {
	if strings.TrimSpace(c.Arguments) == "" {
		return "{}" // no arguments are an empty object
	}
	var members map[string]jsontext.Value
	if err := schemas.DecodeJSON([]byte(c.Arguments), &members); err != nil {
		return c.Arguments
	}
	if known := takes(s.Tools[c.Name].Parameters); known != nil {
		for name := range members {
			if _, ok := known[name]; !ok {
				delete(members, name)
			}
		}
	}
	b, err := schemas.EncodeJSON(members)
	if err != nil {
		return c.Arguments
	}
	v := jsontext.Value(b)
	// Integers keep all their digits: two that are large may differ in the last.
	if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return c.Arguments
	}
	return string(v)
}

// takes lists the members that a tool's parameters name; nil if it may take others as well.
func takes(parameters jsontext.Value) map[string]jsontext.Value {
	var schema struct {
		Properties        map[string]jsontext.Value `json:"properties"`
		PatternProperties jsontext.Value            `json:"patternProperties"`
		Additional        jsontext.Value            `json:"additionalProperties"`
		Reference         jsontext.Value            `json:"$ref"`
	}
	if schemas.DecodeJSON(parameters, &schema) != nil || len(schema.PatternProperties)+len(schema.Reference) > 0 {
		return nil
	}
	if len(schema.Additional) > 0 && schema.Additional.Kind() != jsontext.KindFalse {
		return nil
	}
	return schema.Properties
}

// excerpt is the beginning of a text.
func excerpt(s string) string {
	if len(s) <= maxLoopDetail {
		return s
	}
	return strings.ToValidUTF8(s[:maxLoopDetail], "") + "…"
}
