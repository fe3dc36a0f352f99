package timelinetest

import (
	"strings"

	"braid/schemas"
)

// ForModelAlone reports that a message holds what is told to the model and to nobody else: a block of what
// was carried over, or any other words of the harness. No stream and no trace may have one.
func ForModelAlone(m schemas.Message) bool {
	switch p := m.Payload.(type) {
	case *schemas.RequestEnd, *schemas.TaskEnd: // a scripted model says in its error what it was sent
		return false
	case *schemas.Text:
		if p.Sender == schemas.SenderHarness {
			return true
		}
	}
	line, err := schemas.Encode(m)
	return err == nil && (strings.Contains(string(line), "[turn_aborted]") || strings.Contains(string(line), "[turn_retried]"))
}
