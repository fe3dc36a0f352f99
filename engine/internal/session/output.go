package session

import (
	"fmt"

	"braid/schemas"
)

// toolOutput streams a fragment of a tool's output. What of it is in the stream already is skipped; if it
// begins behind that, everything from there on is asked for again, this fragment included.
func (st *step) toolOutput(f schemas.ToolFragment) {
	c := st.call(f.ToolCallID)
	if c == nil || !c.running() || f.Attempt < c.Attempt {
		return
	}
	st.newAttempt(c, f.Attempt)
	if f.Offset > c.Offset {
		st.do(ResendOutput{ToolCallID: c.ToolCallID, Attempt: f.Attempt, From: c.Offset})
		return
	}
	st.merge(c, f.Offset, f.Text)
}

// newAttempt marks, in the output itself, that the call runs again.
func (st *step) newAttempt(c *Call, attempt int) {
	if attempt <= c.Attempt {
		return
	}
	marker := ""
	if c.Text.Len() > 0 {
		marker = fmt.Sprintf("\n[the toolrunner was lost; attempt %d follows]\n", attempt)
	}
	c.Attempt, c.Offset = attempt, 0
	st.delta(c, marker, 0)
}

// merge streams the part of text that is new; text begins at offset, in bytes of the attempt's output.
func (st *step) merge(c *Call, offset int64, text string) {
	known := c.Offset - offset
	if known >= int64(len(text)) {
		return
	}
	st.delta(c, text[known:], offset+int64(len(text)))
}

// delta streams text, behind the start of the output if that is not open yet. offset is up to where the
// attempt's output is in the stream with it.
func (st *step) delta(c *Call, text string, offset int64) {
	if text == "" {
		return
	}
	st.open(c)
	p := schemas.ToolCallOutputFragment(schemas.PhaseDelta, c.ToolCallID, text)
	p.Attempt, p.Offset = c.Attempt, offset
	st.emit(p)
}

// open streams the start of the call's output, unless it is open.
func (st *step) open(c *Call) {
	if !c.Streaming {
		st.emit(schemas.ToolCallOutputFragment(schemas.PhaseStart, c.ToolCallID, ""))
	}
}

// toolEnded closes the call: what is missing of its text, then stop and the complete output,
// which is everything that was streamed.
func (st *step) toolEnded(e ToolEnded) {
	c := st.call(e.ToolCallID)
	if c == nil || !c.running() {
		return
	}
	attempt := max(e.Attempt, 1)
	if e.Result.Appends {
		text := e.Result.Output
		if c.Text.Len() > 0 {
			text = "\n" + text
		}
		st.delta(c, text, c.Offset)
	} else {
		st.newAttempt(c, attempt)
		st.merge(c, 0, e.Result.Output)
	}
	st.open(c)
	reason := e.Result.StopReason
	if reason == schemas.StopCompleted {
		reason = ""
	}
	if len(e.Result.Images) > 0 {
		p := schemas.ToolCallOutputFragment(schemas.PhaseDelta, c.ToolCallID, "")
		p.Images, p.Attempt, p.Offset = e.Result.Images, c.Attempt, c.Offset
		st.emit(p)
	}
	stop := schemas.ToolCallOutputFragment(schemas.PhaseStop, c.ToolCallID, "")
	stop.StopReason = reason
	st.emit(stop)
	out := schemas.NewToolCallOutput(c.ToolCallID, c.Text.String(), reason)
	out.Images = e.Result.Images
	st.emit(out)
}
