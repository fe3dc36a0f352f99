package gateway

import (
	"slices"
	"strings"

	"braid/schemas"
)

// partials is what has been streamed of messages that are not complete yet, so that somebody who
// comes in the middle gets the beginnings as well. It grows with the open segments only.
type partials struct {
	open []*segment // in the order in which they began
}

// segment is one message that is not complete yet, as far as it was streamed.
type segment struct {
	key    string
	begin  schemas.Message
	delta  schemas.Message // the newest one; its text is in text
	deltas int
	text   strings.Builder
	images []string
	stop   *schemas.Message
}

// segmentKey names a segment: whose it is, of what kind, of which call. The complete message of a
// segment has the key of its fragments.
func segmentKey(m schemas.Message, of schemas.Kind, call string) string {
	return strings.Join(m.Origin, "/") + " " + string(of) + " " + call
}

// apply takes the next message of the stream.
func (p *partials) apply(m schemas.Message) {
	switch v := m.Payload.(type) {
	case *schemas.PartialText:
		p.fragment(m, segmentKey(m, schemas.KindText, ""), v.EventType, v.Text, nil)
	case *schemas.PartialThinking:
		p.fragment(m, segmentKey(m, schemas.KindThinking, ""), v.EventType, v.Thinking, nil)
	case *schemas.PartialToolCall:
		p.fragment(m, segmentKey(m, schemas.KindToolCall, v.ToolCallID), v.EventType, v.Arguments, nil)
	case *schemas.PartialToolCallOutput:
		p.fragment(m, segmentKey(m, schemas.KindToolCallOutput, v.ToolCallID), v.EventType, v.Output, v.Images)
	case *schemas.Text:
		if v.Role == schemas.RoleAssistant {
			p.close(segmentKey(m, schemas.KindText, ""))
		}
	case *schemas.Thinking:
		p.close(segmentKey(m, schemas.KindThinking, ""))
	case *schemas.ToolCall:
		p.close(segmentKey(m, schemas.KindToolCall, v.ToolCallID))
	case *schemas.ToolCallOutput:
		p.close(segmentKey(m, schemas.KindToolCallOutput, v.ToolCallID))
	case *schemas.RequestBegin, *schemas.TaskEnd:
		p.closeAll(m.Origin)
	}
}

// fragment takes a fragment of the segment named key.
func (p *partials) fragment(m schemas.Message, key string, phase schemas.Phase, text string, images []string) {
	if phase == schemas.PhaseStart {
		p.close(key)
		p.open = append(p.open, &segment{key: key, begin: m})
		return
	}
	i := slices.IndexFunc(p.open, func(s *segment) bool { return s.key == key })
	if i < 0 {
		return // its beginning is lost: the complete message follows
	}
	s := p.open[i]
	if phase == schemas.PhaseStop {
		s.stop = &m
		return
	}
	s.delta = m
	s.deltas++
	s.text.WriteString(text)
	s.images = append(s.images, images...)
}

// close drops a segment: it is complete, or begins anew.
func (p *partials) close(key string) {
	p.open = slices.DeleteFunc(p.open, func(s *segment) bool { return s.key == key })
}

// closeAll drops all segments of one session, that of the stream itself or a child: none of them is ever
// continued.
func (p *partials) closeAll(origin []string) {
	prefix := strings.Join(origin, "/") + " "
	p.open = slices.DeleteFunc(p.open, func(s *segment) bool { return strings.HasPrefix(s.key, prefix) })
}

// clear forgets everything, after a gap.
func (p *partials) clear() { p.open = nil }

// messages returns for each open segment its start, one delta with everything said so far, and
// its stop if it has come. Followed by the rest of the stream it is what a watcher saw who was
// there from the beginning, but for the number of deltas.
func (p *partials) messages() []schemas.Message {
	messages := []schemas.Message{}
	for _, s := range p.open {
		messages = append(messages, s.begin)
		if s.deltas > 0 {
			messages = append(messages, s.joined())
		}
		if s.stop != nil {
			messages = append(messages, *s.stop)
		}
	}
	return messages
}

// joined is the newest delta with the text of all.
func (s *segment) joined() schemas.Message {
	m := s.delta
	switch v := m.Payload.(type) {
	case *schemas.PartialText:
		q := *v
		q.Text, m.Payload = s.text.String(), &q
	case *schemas.PartialThinking:
		q := *v
		q.Thinking, m.Payload = s.text.String(), &q
	case *schemas.PartialToolCall:
		q := *v
		q.Arguments, m.Payload = s.text.String(), &q
	case *schemas.PartialToolCallOutput:
		q := *v
		q.Output, q.Images, m.Payload = s.text.String(), s.images, &q
	}
	return m
}
