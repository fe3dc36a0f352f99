package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"braid/bus"
	"braid/schemas"
)

// Names of the events that are no messages.
const (
	eventTaskState = "task_state"
	eventResync    = "resync_required"
)

// appendEvent adds an event; an empty name is a message's, an empty id leaves the reader's last
// one in force. data must be one line.
func appendEvent(dst []byte, name, id string, data []byte) []byte {
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	if id != "" {
		dst = append(append(append(dst, "id: "...), id...), '\n')
	}
	dst = append(append(dst, "data: "...), data...)
	return append(dst, eventEnd...)
}

// eventEnd ends an event and its last line.
const eventEnd = "\n\n"

// Comments. A reader ignores them; a person who looks at the wire does not.
const (
	commentHeartbeat = ":\n\n"
	commentOpen      = ": braid\nretry: 1000\n\n"
	commentStopping  = ": this gateway is stopping; reconnect with the last id\n\n"
	commentSlow      = ": too slow; reconnect with the last id\n\n"
	commentGone      = ": the session can't be followed any more\n\n"
)

// entry is a frame as watchers get it, encoded once for all of them.
type entry struct {
	// position is that of the frame's last message.
	position schemas.Position
	// encoded holds all events, prompts included; parts tells them apart.
	encoded []byte
	parts   []part
	prompts bool // some part is a prompt

	decoded sync.Once
	kept    []schemas.Entry
	failed  error
}

// part is one event of an entry.
type part struct {
	line   int
	start  int // in encoded; the part ends where the next begins
	data   int // where the envelope begins
	prompt bool
	// kept is set for the session's own recorded messages.
	kept bool
}

// encodeFrame makes the entry of a frame. What is no part of the stream is left out, except the
// prompts, which some watchers ask for.
func encodeFrame(epoch string, f bus.Frame) (*entry, error) {
	e := &entry{position: schemas.Position{Sequence: f.Sequence}}
	var line []byte
	for _, item := range f.Entries() {
		e.position = item.Position
		if !item.Message.Shown(true) {
			continue
		}
		prompt := item.Message.TaskInput()
		var err error
		if line, err = schemas.Append(line[:0], item.Message); err != nil {
			return nil, fmt.Errorf("encode message %s: %w", item.Position, err)
		}
		p := part{line: item.Position.Line, start: len(e.encoded), prompt: prompt, kept: item.Message.Recorded()}
		e.prompts = e.prompts || prompt
		id := schemas.Cursor{Epoch: epoch, Position: item.Position}.String()
		e.encoded = appendEvent(e.encoded, "", id, line)
		p.data = len(e.encoded) - len(eventEnd) - len(line)
		e.parts = append(e.parts, p)
	}
	e.encoded = slices.Clip(e.encoded)
	return e, nil
}

// messages returns the session's own recorded messages, prompts included, decoded once for all who
// ask. Whoever only passes on events never pays for them.
func (e *entry) messages() ([]schemas.Entry, error) {
	e.decoded.Do(func() {
		for i, p := range e.parts {
			if !p.kept {
				continue
			}
			m, err := schemas.Decode(e.encoded[p.data : e.end(i)-len(eventEnd)])
			if err != nil {
				e.failed = fmt.Errorf("decode a message of %s: %w", e.position, err)
				return
			}
			at := schemas.Position{Sequence: e.position.Sequence, Line: p.line}
			e.kept = append(e.kept, schemas.Entry{Position: at, Message: m})
		}
	})
	return e.kept, e.failed
}

// end is where a part ends in encoded.
func (e *entry) end(i int) int {
	if i+1 < len(e.parts) {
		return e.parts[i+1].start
	}
	return len(e.encoded)
}

// after returns the events that follow a position, with or without prompts, as few slices of the
// entry's own memory.
func (e *entry) after(at schemas.Position, prompts bool) [][]byte {
	mid := at.Sequence == e.position.Sequence
	if !mid && (prompts || !e.prompts) {
		if len(e.encoded) == 0 {
			return nil
		}
		return [][]byte{e.encoded}
	}
	var chunks [][]byte
	for i, p := range e.parts {
		if mid && p.line <= at.Line || p.prompt && !prompts {
			continue
		}
		chunks = append(chunks, e.encoded[p.start:e.end(i)])
	}
	return chunks
}

// eventWriter writes to one watcher. Each write has its own deadline, since a connection's would
// end the stream, however alive it is; and each is flushed, since only that reports an error.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

func newEventWriter(w http.ResponseWriter, timeout time.Duration) (*eventWriter, error) {
	e := &eventWriter{w: w, control: http.NewResponseController(w), timeout: timeout}
	// The server's bound on reading a request would end the stream as well.
	if err := e.control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, fmt.Errorf("lift the read deadline: %w", err)
	}
	return e, nil
}

// extend gives the next write its time.
func (e *eventWriter) extend() error {
	err := e.control.SetWriteDeadline(time.Now().Add(e.timeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("set the write deadline: %w", err)
	}
	return nil
}

// write sends the chunks, which may wait in a buffer until flush.
func (e *eventWriter) write(chunks ...[]byte) error {
	for _, chunk := range chunks {
		if err := e.extend(); err != nil {
			return err
		}
		if _, err := e.w.Write(chunk); err != nil {
			return fmt.Errorf("write events: %w", err)
		}
	}
	return nil
}

// flush sends what is buffered.
func (e *eventWriter) flush() error {
	if err := e.extend(); err != nil {
		return err
	}
	if err := e.control.Flush(); err != nil {
		return fmt.Errorf("flush events: %w", err)
	}
	return nil
}

// open begins the stream. A client that has no place in it yet hears nothing before its first event, which
// tells the place: whatever happens once an answer has begun comes behind it.
func (e *eventWriter) open(placed bool) error {
	if !placed {
		return e.write([]byte(commentOpen))
	}
	return e.send([]byte(commentOpen))
}

// send is write and flush.
func (e *eventWriter) send(chunks ...[]byte) error {
	if err := e.write(chunks...); err != nil {
		return err
	}
	return e.flush()
}
