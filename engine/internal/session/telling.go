package session

import (
	"slices"
	"strings"

	"braid/schemas"
)

// telling is how much is told of what a request that failed had asked. Most failures are none of what was
// asked, and all of it stays. But what makes one request fail for good makes the next one fail as well, and
// no prompt could ever follow:
//
//   - a context that did not fit goes down to the beginnings of its texts and outputs;
//   - what a provider refused is told once more, without its pictures, which are at fault most often. If that is
//     refused as well, it is told no more. Of what was answered before, the pictures that the provider fetches
//     anew for each request go as well: they may be there no more.
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

// telling is how to tell what the task leaves unanswered; again is set for what was refused before.
func (t *Task) telling(again bool) telling {
	all := func(text string) string { return text }
	switch r := t.Request; {
	case r != nil && r.Failure != nil && r.Failure.Kind == schemas.FaultContext:
		return telling{beginning, notFitting}
	case !t.refused():
		return telling{text: all}
	case again:
		return telling{func(string) string { return twice }, notTaken}
	}
	return telling{all, notTaken}
}

// refused reports that the provider took offense at what the newest request had asked. Where there is no such
// model it has not looked at it.
func (t *Task) refused() bool {
	if t.Request == nil || t.Request.Failure == nil {
		return false
	}
	e := t.Request.Failure
	return e.Kind == schemas.FaultInput && e.StatusCode != 0 && e.StatusCode != 404
}

// withoutLinks returns the messages with a note in place of each picture that is a link.
func withoutLinks(messages []schemas.Message) []schemas.Message {
	copied := false
	for i, m := range messages {
		p, ok := m.Payload.(*schemas.ImageURL)
		if !ok || strings.HasPrefix(p.ImageURL, "data:") {
			continue
		}
		if !copied {
			messages, copied = slices.Clone(messages), true
		}
		messages[i].Payload = schemas.HarnessText(notTaken)
	}
	return messages
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
