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
	if i.Left == 0 {
		return false
	}
	p, ok := m.Payload.(*CommandOutcome)
	return !ok || p.Code == CodeApplied || p.CommandID != i.CommandID || p.Sequence != i.Sequence
}

// Refuses reports whether the session's next message ends the import in its middle: nothing has come of
// it, and what was there of the trace counts for nothing.
func (i *Imported) Refuses(m Message) bool { return i.Left > 0 && !i.Has(m) }

// Take is Has, and counts the message as seen through the view.
func (i *Imported) Take(m Message, view View) bool {
	if i.Has(m) {
		i.Left--
		return true
	}
	i.Left = 0
	if p, ok := m.Payload.(*SessionImported); ok && len(m.Origin) == 0 {
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
