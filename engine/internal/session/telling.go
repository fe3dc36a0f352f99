package session

import (
	"strings"

	"braid/schemas"
)

// telling is how much is told of what a request that failed had asked. Most failures are none of what was
// asked, and all of it stays. But what makes one request fail for good makes the next one fail as well, and
// no prompt could ever follow:
//
//   - a context that did not fit goes down to the beginnings of its texts and outputs;
//   - what a provider refused is told once more, without its pictures, which are at fault most often. If that is
//     refused as well, it is told no more.
type telling struct {
	text  func(string) string
	blind string // stands in place of a picture; empty: pictures stay
}

// beginningBytes is how much is told of a text that was part of a context which did not fit.
const beginningBytes = 200

// What stands in place of what is not told.
const (
	notFitting = "(A picture was left out: it did not fit.)"
	notTaken   = "(A picture was left out: the provider refused the request.)"
	twice      = "(This was left out: the provider refused it again.)"
)

// telling is how to tell what the task leaves unanswered; again is set for what was carried over before.
func (t *Task) telling(again bool) telling {
	all := func(text string) string { return text }
	switch r := t.Request; {
	case r == nil || r.Failure == nil:
	case r.Failure.Kind == schemas.FaultContext:
		return telling{beginning, notFitting}
	case !refusedByProvider(r.Failure):
	case again:
		return telling{func(string) string { return twice }, notTaken}
	default:
		return telling{all, notTaken}
	}
	return telling{text: all}
}

// refusedByProvider reports that it was the provider who took offense at what was asked. Where there is no such
// model it has not looked at it.
func refusedByProvider(e *schemas.ErrorInfo) bool {
	return e.Kind == schemas.FaultInput && e.StatusCode != 0 && e.StatusCode != 404
}

// output is a call's output as it stays: it has its place behind its call.
func (how telling) output(p *schemas.ToolCallOutput) *schemas.ToolCallOutput {
	own := *p
	own.Output = how.text(p.Output)
	if how.blind != "" && len(p.Images) > 0 {
		own.Images = nil
		own.Output += strings.Repeat("\n"+how.blind, len(p.Images))
	}
	return &own
}

// beginning is what is told of a text of a context that did not fit: with all of it no prompt would fit that
// comes behind it.
func beginning(text string) string {
	if len(text) <= beginningBytes {
		return text
	}
	return strings.ToValidUTF8(text[:beginningBytes], "") + "\n(The rest was left out: it did not fit.)"
}
