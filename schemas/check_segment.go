package schemas

import (
	"slices"
	"strings"
)

// piece is a fragment or a complete message in the terms of segments.
type piece struct {
	of     Kind  // the kind of the complete message
	phase  Phase // empty: the complete message itself
	id     string
	name   string
	text   string
	images []string
	reason StopReason
}

// pieceOf returns the payload as a piece; false if it never streams.
func pieceOf(p Payload) (piece, bool) {
	switch p := p.(type) {
	case *PartialText:
		return piece{of: KindText, phase: p.EventType, text: p.Text, reason: p.StopReason}, true
	case *PartialThinking:
		return piece{of: KindThinking, phase: p.EventType, text: p.Thinking, reason: p.StopReason}, true
	case *PartialToolCall:
		return piece{of: KindToolCall, phase: p.EventType, id: p.ToolCallID, name: p.Name, text: p.Arguments, reason: p.StopReason}, true
	case *PartialToolCallOutput:
		return piece{of: KindToolCallOutput, phase: p.EventType, id: p.ToolCallID, text: p.Output, images: p.Images, reason: p.StopReason}, true
	case *Text:
		return piece{of: KindText, text: p.Text, reason: p.StopReason}, true
	case *Thinking:
		return piece{of: KindThinking, text: p.Thinking, reason: p.StopReason}, true
	case *ToolCall:
		return piece{of: KindToolCall, id: p.ToolCallID, name: p.Name, text: p.Arguments, reason: p.StopReason}, true
	case *ToolCallOutput:
		return piece{of: KindToolCallOutput, id: p.ToolCallID, text: p.Output, images: p.Images, reason: p.StopReason}, true
	}
	return piece{}, false
}

// segmentState is how far a producer's segment has come.
type segmentState int

const (
	segmentNone    segmentState = iota
	segmentStarted              // the start came
	segmentStopped              // the stop came: the complete message is next
)

// segment is a producer's message while it streams. A producer has one at a time.
type segment struct {
	state segmentState
	// torn is set when fragments may be missing: nothing is certain until the next beginning.
	torn   bool
	of     Kind
	id     string
	at     Position
	name   []byte // joined
	text   []byte // joined
	images []string
	reason StopReason // of the stop
}

// open reports whether a segment is certainly unfinished.
func (g *segment) open() bool { return g.state != segmentNone && !g.torn }

// reset forgets the segment and keeps its buffers.
func (g *segment) reset() {
	*g = segment{name: g.name[:0], text: g.text[:0], images: g.images[:0]}
}

func (g *segment) begin(out *sink, f piece, torn bool) {
	g.reset()
	g.state, g.torn, g.of, g.id, g.at = segmentStarted, torn, f.of, f.id, out.at
	g.name = append(g.name, f.name...)
}

// fragment takes a fragment of the producer.
func (g *segment) fragment(out *sink, f piece) {
	if f.phase != PhaseDelta && (f.text != "" || len(f.images) > 0) {
		out.breach(RuleSegmentContent, "a %s of %s carries content", f.phase, f.of)
	}
	switch f.phase {
	case PhaseStart:
		if g.open() {
			out.breach(RuleSegmentOrder, "%s starts before the complete %s", f.of, g.of)
		}
		g.begin(out, f, false)
		return
	case PhaseDelta, PhaseStop:
		g.proceed(out, f)
	default:
		out.breach(RuleSegmentOrder, "%s has the unknown phase %q", f.of, f.phase)
	}
}

// proceed takes a delta or a stop.
func (g *segment) proceed(out *sink, f piece) {
	if g.state != segmentStarted || g.of != f.of || g.id != f.id {
		if !g.torn {
			out.breach(RuleSegmentOrder, "a %s of %s that is not started", f.phase, f.of)
		}
		g.begin(out, f, true)
	} else {
		g.name = append(g.name, f.name...)
	}
	if f.phase == PhaseStop {
		g.state, g.reason = segmentStopped, f.reason
		return
	}
	g.text = append(g.text, f.text...)
	g.images = append(g.images, f.images...)
}

// complete takes a complete message of the producer. One that did not stream is fine.
func (g *segment) complete(out *sink, w piece) {
	defer g.reset()
	switch {
	case !g.open():
	case g.of != w.of || g.id != w.id:
		out.breach(RuleSegmentOrder, "%s comes before the complete %s", w.of, g.of)
	case g.state != segmentStopped:
		out.breach(RuleSegmentOrder, "the complete %s comes before its stop", w.of)
	default:
		g.compare(out, w)
	}
}

func (g *segment) compare(out *sink, w piece) {
	switch {
	case string(g.name) != w.name:
		out.breach(RuleSegmentContent, "the streamed name differs from that of %s", w.of)
	case string(g.text) != w.text:
		out.breach(RuleSegmentContent, "%d streamed bytes differ from the %d of %s", len(g.text), len(w.text), w.of)
	case !slices.Equal(g.images, w.images):
		out.breach(RuleSegmentContent, "the streamed images differ from those of %s", w.of)
	}
	reason := w.reason
	if reason == "" {
		reason = StopCompleted
	}
	if g.reason != "" && g.reason != reason {
		out.breach(RuleSegmentStopReason, "%s stopped as %s and is complete as %s", w.of, g.reason, reason)
	}
}

// interrupt says that the producer did something else: nothing may be open.
func (g *segment) interrupt(out *sink, by Kind) {
	if g.open() {
		out.breach(RuleSegmentOrder, "%s comes before the complete %s", by, g.of)
	}
	g.reset()
}

// The notice that the turns are used up is the one thing said outside any request.
const (
	noticePrefix = "[reached max turns ("
	noticeSuffix = "); stopping]"
)

// maxTurnsNotice reports whether the piece, with what streamed before it, can be the notice.
func (g *segment) maxTurnsNotice(p piece) bool {
	if p.of != KindText {
		return false
	}
	if p.phase == "" {
		return strings.HasPrefix(p.text, noticePrefix) && strings.HasSuffix(p.text, noticeSuffix) && p.reason == StopFailed
	}
	if g.torn {
		return true
	}
	text := string(g.text) + p.text
	n := min(len(text), len(noticePrefix))
	return text[:n] == noticePrefix[:n]
}
