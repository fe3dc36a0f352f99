package schemas_test

import (
	"testing"

	"pgregory.net/rapid"

	"braid/schemas"
	"braid/schemas/schematest"
)

// seen is the stream as a reader of the view gets it.
func seen(view schemas.View, entries []schemas.Entry) []schemas.Entry {
	var kept []schemas.Entry
	for _, e := range entries {
		if holds(view, e.Message) {
			kept = append(kept, e)
		}
	}
	return kept
}

// check runs a whole finished stream.
func check(view schemas.View, entries []schemas.Entry) []schemas.Violation {
	c := schemas.NewChecker(view)
	var found []schemas.Violation
	for _, e := range entries {
		found = append(found, c.Add(e)...)
	}
	return append(found, c.Finish()...)
}

// A legal stream is legal through every view.
func TestCheckerAcceptsLegalStreams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := schematest.LegalStream().Draw(t, "stream")
		for _, view := range allViews {
			if found := check(view, seen(view, entries)); len(found) > 0 {
				t.Fatalf("%s: %v\n%s", view, found, schematest.Format(entries))
			}
		}
	})
}

// A legal stream is legal for whoever joins it anywhere, and whatever live frames are lost.
func TestCheckerAcceptsParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		view := rapid.SampledFrom([]schemas.View{schemas.ViewStream, schemas.ViewFeed}).Draw(t, "view")
		entries := seen(view, schematest.LegalStream().Draw(t, "stream"))
		// A frame is taken whole or not at all.
		from := rapid.IntRange(0, len(entries)-1).Draw(t, "from")
		for from > 0 && entries[from].Position.Sequence == entries[from-1].Position.Sequence {
			from--
		}
		joined := entries[from:]
		if found := schemas.Check(view, joined, schemas.FromMiddle()); len(found) > 0 {
			t.Fatalf("joined at %d: %v\n%s", from, found, schematest.Format(joined))
		}

		gapFrom := rapid.IntRange(0, len(entries)).Draw(t, "gap from")
		gapTo := rapid.IntRange(gapFrom, len(entries)).Draw(t, "gap to")
		c := schemas.NewChecker(view)
		var found []schemas.Violation
		for i, e := range entries {
			if i == gapFrom {
				c.Gap()
			}
			lost := i >= gapFrom && i < gapTo && !e.Message.Recorded()
			if i == gapTo {
				c.Gap()
			}
			if !lost {
				found = append(found, c.Add(e)...)
			}
		}
		if len(found) > 0 {
			t.Fatalf("gap %d to %d: %v\n%s", gapFrom, gapTo, found, schematest.Format(entries))
		}
	})
}

// mutation damages a stream at message i; it returns false if the damage is not of a class
// that every reader must notice.
type mutation func(entries []schemas.Entry, i int) ([]schemas.Entry, bool)

// drop loses a message.
func drop(entries []schemas.Entry, i int) ([]schemas.Entry, bool) {
	switch p := entries[i].Message.Payload.(type) {
	case *schemas.PartialText:
		if p.EventType == schemas.PhaseDelta && p.Text == "" {
			return nil, false
		}
	case *schemas.ToolCall, *schemas.ToolCallOutput, *schemas.RequestBegin, *schemas.RequestEnd,
		*schemas.PartialThinking, *schemas.PartialToolCall, *schemas.PartialToolCallOutput,
		*schemas.ApprovalDecision:
	case *schemas.TokenUsage:
		end, ok := entries[i+1].Message.Payload.(*schemas.RequestEnd)
		if !ok || end.Status != schemas.StopCompleted { // of a compaction, or of a request that may have used nothing
			return nil, false
		}
	case *schemas.TaskEnd:
		if i != len(entries)-1 { // the next prompt could steer the same task
			return nil, false
		}
	case *schemas.Text, *schemas.Thinking:
		if i == 0 || !entries[i-1].Message.Partial() { // the prompt, a summary
			return nil, false
		}
	default:
		return nil, false
	}
	return append(append([]schemas.Entry{}, entries[:i]...), entries[i+1:]...), true
}

// duplicate repeats a message directly after itself.
func duplicate(entries []schemas.Entry, i int) ([]schemas.Entry, bool) {
	switch p := entries[i].Message.Payload.(type) {
	case *schemas.PartialText:
		if p.EventType == schemas.PhaseDelta && p.Text == "" {
			return nil, false
		}
	case *schemas.ToolCall, *schemas.ToolCallOutput, *schemas.RequestBegin, *schemas.RequestEnd,
		*schemas.PartialThinking, *schemas.PartialToolCall, *schemas.PartialToolCallOutput,
		*schemas.ApprovalDecision, *schemas.ApprovalRequest, *schemas.Abort,
		*schemas.CompactionBegin, *schemas.CompactionEnd:
	case *schemas.TaskEnd:
		if p.Status != schemas.StopCompleted { // could be that of another task
			return nil, false
		}
	default:
		return nil, false
	}
	out := append(append([]schemas.Entry{}, entries[:i+1]...), entries[i:]...)
	for j := i + 1; j < len(out) && out[j].Position.Sequence == out[i].Position.Sequence; j++ {
		out[j].Position.Line++
	}
	return out, true
}

// swap exchanges a message with the next, if the order of both means something.
func swap(entries []schemas.Entry, i int) ([]schemas.Entry, bool) {
	if i+1 >= len(entries) {
		return nil, false
	}
	a, b := entries[i].Message, entries[i+1].Message
	if len(a.Origin) != len(b.Origin) || !ordered(a.Payload, b.Payload) {
		return nil, false
	}
	out := append([]schemas.Entry{}, entries...)
	out[i].Message, out[i+1].Message = b, a
	return out, true
}

func ordered(a, b schemas.Payload) bool {
	switch a := a.(type) {
	case *schemas.PartialText:
		_, complete := b.(*schemas.Text)
		p, fragment := b.(*schemas.PartialText)
		return complete || fragment && (a.EventType != p.EventType || a.Text+p.Text != p.Text+a.Text)
	case *schemas.ToolCall:
		d, ok := b.(*schemas.ApprovalDecision)
		return ok && d.ToolCallID == a.ToolCallID
	case *schemas.ApprovalDecision:
		o, ok := b.(*schemas.ToolCallOutput)
		return ok && o.ToolCallID == a.ToolCallID
	case *schemas.TokenUsage:
		_, ok := b.(*schemas.RequestEnd)
		return ok
	case *schemas.Abort:
		_, ok := b.(*schemas.TaskEnd)
		return ok
	}
	return false
}

// Damage of these classes never goes unnoticed.
func TestCheckerCatchesDamage(t *testing.T) {
	for name, mutate := range map[string]mutation{"drop": drop, "duplicate": duplicate, "swap": swap} {
		t.Run(name, func(t *testing.T) {
			damaged := 0
			rapid.Check(t, func(t *rapid.T) {
				view := rapid.SampledFrom([]schemas.View{schemas.ViewStream, schemas.ViewFeed}).Draw(t, "view")
				entries := seen(view, schematest.LegalStream().Draw(t, "stream"))
				i := rapid.IntRange(0, len(entries)-1).Draw(t, "at")
				out, ok := mutate(entries, i)
				if !ok {
					return
				}
				damaged++
				if len(check(view, out)) == 0 {
					t.Fatalf("%s: %s at %s is not noticed\n%s", view, name, entries[i].Position, schematest.Format(out))
				}
			})
			if damaged == 0 {
				t.Error("no stream was damaged")
			}
		})
	}
}
