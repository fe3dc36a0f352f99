package client

import (
	"testing"
	"time"

	"braid/bus"
	"braid/schemas"
)

// Frames of a stream that was restored name the epoch that they were written in. Their cursors name the stream's, or
// they would be refused when a watcher comes back with one.
func TestCursorsOfRestoredFrames(t *testing.T) {
	frame := bus.Frame{Header: bus.FrameHeader{Epoch: "before"}, Sequence: 7, Messages: []schemas.Message{
		schemas.New(time.Unix(0, 0), &schemas.RequestBegin{}),
		schemas.New(time.Unix(0, 0), schemas.AssistantText("hello")),
		schemas.New(time.Unix(0, 0), &schemas.RequestEnd{Status: schemas.StopCompleted}),
		schemas.New(time.Unix(0, 0), &schemas.TaskEnd{Status: schemas.StopCompleted}),
	}}
	var cursors []string
	n := &natsWatcher{yield: func(e Event, _ error) bool {
		switch e := e.(type) {
		case Message:
			cursors = append(cursors, e.Cursor)
		case Turn:
			cursors = append(cursors, e.Cursor)
		}
		return true
	}}
	if err := n.frame(frame, "now"); err != nil {
		t.Fatal(err)
	}
	messages := len(cursors)
	p := &projection{natsWatcher: n, view: schemas.NewTurnView(), now: schemas.Cursor{Epoch: "now"}}
	p.project(frame)
	if messages == 0 || len(cursors) == messages {
		t.Fatalf("%d messages and %d events of turns", messages, len(cursors)-messages)
	}
	for _, cursor := range cursors {
		if at, err := schemas.ParseTurnCursor(cursor); err != nil || at.Epoch != "now" || at.Position.Sequence != 7 {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}
