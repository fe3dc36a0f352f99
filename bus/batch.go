package bus

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"braid/schemas"
)

// Mark counts the groups added to a [Batch]. A group is stored once a frame is that was taken up
// to its mark or a later one.
type Mark uint64

// Batch collects the messages that wait while a session's frame is in flight, and hands them out
// in frames. It keeps their order and never drops one; what it does change:
//
//   - consecutive deltas of one segment become one delta;
//   - a delta too large for a frame becomes several, cut between characters.
//
// The messages of one Add stay in one frame. The zero Batch is empty and usable. It is plain
// memory: no I/O, no lock.
type Batch struct {
	groups []group
	added  Mark
	size   int
	buffer []byte
}

// group is what one Add brought, or the rest of it.
type group struct {
	messages []schemas.Message
	size     int // encoded, line ends included
	mark     Mark
}

// Add appends messages that belong together. It fails, without adding any, for a message that
// can't be encoded.
func (b *Batch) Add(messages ...schemas.Message) (Mark, error) {
	g := group{messages: slices.Clone(messages)}
	for _, m := range messages {
		n, err := b.measure(m)
		if err != nil {
			return b.added, fmt.Errorf("add %s: %w", m.Kind(), err)
		}
		g.size += n
	}
	b.added++
	g.mark = b.added
	b.groups = append(b.groups, g)
	b.size += g.size
	return g.mark, nil
}

// Empty reports whether nothing waits.
func (b *Batch) Empty() bool { return len(b.groups) == 0 }

// Size is about how many bytes wait, encoded.
func (b *Batch) Size() int { return b.size }

// measure is the length of a message's line.
func (b *Batch) measure(m schemas.Message) (int, error) {
	line, err := schemas.Append(b.buffer[:0], m)
	b.buffer = line
	return len(line) + 1, err
}

// Take removes the messages of the next frame, of about maxBytes, and reports the mark up to
// which groups are stored with it. A single group larger than that is taken whole; storing it
// keeps its largest messages outside the frame. Nothing is taken from an empty Batch.
func (b *Batch) Take(maxBytes int) ([]schemas.Message, Mark) {
	var (
		out  joiner
		size int
		mark Mark
	)
	for len(b.groups) > 0 {
		g := b.groups[0]
		if size > 0 && size+g.size > maxBytes {
			break
		}
		if g.size > maxBytes && b.split(maxBytes) {
			continue
		}
		for _, m := range g.messages {
			out.add(m)
		}
		size += g.size
		mark = g.mark
		b.groups[0] = group{}
		b.groups = b.groups[1:]
		b.size -= g.size
	}
	if len(b.groups) == 0 {
		b.groups = nil // let go of what a burst took
	}
	return out.done(), mark
}

// split cuts the first delta of the first group that is over half of maxBytes into groups of
// their own. What stands before it leaves the group as well; what follows stays together. It
// reports whether there was such a delta.
func (b *Batch) split(maxBytes int) bool {
	g := b.groups[0]
	before := g.mark - 1
	for i, m := range g.messages {
		n, _ := b.measure(m)
		text, ok := deltaText(m)
		budget := maxBytes/2 - (n - escapedLen(text))
		if !ok || n <= maxBytes/2 || budget < minPiece {
			continue
		}
		var parts []group
		if i > 0 {
			parts = append(parts, b.newGroup(before, g.messages[:i]...))
		}
		pieces := cut(m, text, budget)
		last := len(pieces) - 1
		for _, piece := range pieces[:last] {
			parts = append(parts, b.newGroup(before, piece))
		}
		rest := append([]schemas.Message{pieces[last]}, g.messages[i+1:]...)
		parts = append(parts, b.newGroup(g.mark, rest...))
		b.size -= g.size
		for _, p := range parts {
			b.size += p.size
		}
		b.groups = append(parts, b.groups[1:]...)
		return true
	}
	return false
}

// minPiece is the least text worth a message of its own.
const minPiece = 16

func (b *Batch) newGroup(mark Mark, messages ...schemas.Message) group {
	g := group{messages: messages, mark: mark}
	for _, m := range messages {
		n, _ := b.measure(m) // it was encoded when it was added
		g.size += n
	}
	return g
}

// cut divides a delta into deltas whose texts take at most budget bytes encoded.
func cut(m schemas.Message, text string, budget int) []schemas.Message {
	var pieces []schemas.Message
	for len(text) > 0 {
		n := prefix(text, budget)
		pieces = append(pieces, withText(m, text[:n], len(text)-n))
		text = text[n:]
	}
	return pieces
}

// prefix is the length of the longest beginning of s, at least one character, that takes at most
// budget bytes encoded.
func prefix(s string, budget int) int {
	n := 0
	for n < len(s) {
		_, width := utf8.DecodeRuneInString(s[n:])
		budget -= escapedLen(s[n : n+width])
		if budget < 0 && n > 0 {
			break
		}
		n += width
	}
	return n
}

// escapedLen is how many bytes s takes inside a JSON string, at most.
func escapedLen(s string) int {
	n := 0
	for i := 0; i < len(s); {
		r, width := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '"' || r == '\\' || r == '\n' || r == '\r' || r == '\t' || r == '\b' || r == '\f':
			n += 2
		case r < ' ':
			n += 6
		case r == utf8.RuneError:
			n += 3
		default:
			n += width
		}
		i += width
	}
	return n
}

// deltaText is the text of a delta that may be joined with its neighbours or cut; false for any
// other message, and for one that carries more than text.
func deltaText(m schemas.Message) (string, bool) {
	if len(m.Extra) > 0 {
		return "", false
	}
	switch p := m.Payload.(type) {
	case *schemas.PartialText:
		return p.Text, p.EventType == schemas.PhaseDelta && p.StopReason == "" && len(p.Extra) == 0
	case *schemas.PartialThinking:
		return p.Thinking, p.EventType == schemas.PhaseDelta && p.StopReason == "" && len(p.Extra) == 0
	case *schemas.PartialToolCall:
		return p.Arguments, p.EventType == schemas.PhaseDelta && p.StopReason == "" && len(p.Extra) == 0
	case *schemas.PartialToolCallOutput:
		return p.Output, p.EventType == schemas.PhaseDelta && p.StopReason == "" && len(p.Extra) == 0 && len(p.Images) == 0
	}
	return "", false
}

// withText is the delta with another text, of which rest bytes follow in later pieces.
func withText(m schemas.Message, text string, rest int) schemas.Message {
	switch p := m.Payload.(type) {
	case *schemas.PartialText:
		q := *p
		q.Text, m.Payload = text, &q
	case *schemas.PartialThinking:
		q := *p
		q.Thinking, m.Payload = text, &q
	case *schemas.PartialToolCall:
		q := *p
		q.Arguments, m.Payload = text, &q
	case *schemas.PartialToolCallOutput:
		q := *p
		q.Output, m.Payload = text, &q
		q.Offset = max(q.Offset-int64(rest), 0)
	}
	return m
}

// sameSegment reports whether delta b goes on where delta a, directly before it, ends.
func sameSegment(a, b schemas.Message) bool {
	if a.Scope != b.Scope || !slices.Equal(a.Origin, b.Origin) {
		return false
	}
	switch p := a.Payload.(type) {
	case *schemas.PartialText:
		q, ok := b.Payload.(*schemas.PartialText)
		return ok && p.Role == q.Role
	case *schemas.PartialThinking:
		q, ok := b.Payload.(*schemas.PartialThinking)
		return ok && p.Role == q.Role
	case *schemas.PartialToolCall:
		q, ok := b.Payload.(*schemas.PartialToolCall)
		return ok && p.Role == q.Role && p.ToolCallID == q.ToolCallID && p.Name == q.Name
	case *schemas.PartialToolCallOutput:
		q, ok := b.Payload.(*schemas.PartialToolCallOutput)
		return ok && p.Role == q.Role && p.ToolCallID == q.ToolCallID && p.Attempt == q.Attempt
	}
	return false
}

// joiner appends messages, joining runs of deltas of one segment.
type joiner struct {
	out  []schemas.Message
	run  schemas.Message // the first delta of the run that is being joined
	last schemas.Message // its latest
	n    int             // deltas in it
	text strings.Builder
}

// add takes the next message.
func (j *joiner) add(m schemas.Message) {
	text, delta := deltaText(m)
	if j.n > 0 && !(delta && sameSegment(j.last, m)) {
		j.flush()
	}
	if !delta {
		j.out = append(j.out, m)
		return
	}
	if j.n == 0 {
		j.run = m
	}
	j.last = m
	j.n++
	j.text.WriteString(text)
}

// flush ends the run of deltas that is being joined.
func (j *joiner) flush() {
	m := j.run
	if j.n > 1 {
		m = withText(j.last, j.text.String(), 0)
		m.Timestamp = j.run.Timestamp
	}
	j.out = append(j.out, m)
	j.n = 0
	j.text = strings.Builder{}
}

// done returns all messages, joined.
func (j *joiner) done() []schemas.Message {
	if j.n > 0 {
		j.flush()
	}
	return j.out
}
