package schemas

// Imported counts off the messages of an imported trace, which follow a [SessionImported]. The zero
// value knows of none.
type Imported struct {
	// Left is how many are still to come.
	Left int `json:"left,omitzero"`
	// CommandID and Sequence are those of the import.
	CommandID string `json:"command_id,omitzero"`
	Sequence  uint64 `json:"sequence,omitzero"`
}

// Has reports whether the session's next message belongs to the trace. An import that is refused in its
// middle ends there. One that is applied ends when all of the trace is there, and not before: an outcome
// like its own may be the trace's, of a session that was imported by a command of the same id elsewhere.
func (i *Imported) Has(m Message) bool {
	return i.Left > 0 && !i.Refuses(m)
}

// Refuses reports whether the session's next message ends the import without a session: nothing has come
// of it, and what was there of the trace counts for nothing. Watchers see that message, whatever they have
// seen of the trace.
func (i *Imported) Refuses(m Message) bool {
	p, ok := m.Payload.(*CommandOutcome)
	return ok && len(m.Origin) == 0 && p.Code != CodeApplied && i.answeredBy(p)
}

// answeredBy reports that the outcome is the import's own.
func (i *Imported) answeredBy(p *CommandOutcome) bool {
	return *i != Imported{} && p.CommandID == i.CommandID && p.Sequence == i.Sequence
}

// Take is Has, and counts the message as seen through the view.
func (i *Imported) Take(m Message, view View) bool {
	if i.Has(m) {
		i.Left--
		return true
	}
	if len(m.Origin) > 0 {
		return false
	}
	switch p := m.Payload.(type) {
	case *CommandOutcome:
		if i.answeredBy(p) {
			*i = Imported{}
		}
	case *SessionImported:
		*i = Imported{Left: p.Messages, CommandID: p.CommandID, Sequence: p.Sequence}
		if view == ViewStream {
			i.Left = p.Visible
		}
	}
	return false
}

// addImported takes a message that belongs to an imported trace, or opens one; false for any other.
// Nothing of what was recorded elsewhere is certain, so it is checked only for being a trace. What
// follows may end what it has left open, and no call may have the id of one of its calls.
func (c *Checker) addImported(e Entry) bool {
	if !c.imported.Take(e.Message, c.view) {
		if _, ok := e.Message.Payload.(*SessionImported); !ok || len(e.Message.Origin) > 0 {
			return false
		}
		c.own = newStrand(&c.out, c.view, true)
		c.own.framed = true
		return true
	}
	if !e.Message.Recorded() {
		c.out.breach(RuleRecordedOnly, "%s in an imported trace", e.Message.Kind())
	}
	if p, ok := e.Message.Payload.(*ToolCall); ok {
		c.own.calls[p.ToolCallID] = &call{id: p.ToolCallID, at: e.Position, foreign: true, blamed: true}
	}
	return true
}
