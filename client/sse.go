package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"braid/schemas"
)

// maxEvent bounds the data of one event, in bytes. The end of a task repeats all of its messages.
const maxEvent = 256 << 20

// rawEvent is one server-sent event; name is empty for one without a name, id for one without an id.
type rawEvent struct {
	name, id string
	data     []byte
}

// eventReader reads an event stream (WHATWG HTML, section 9.2.6) as gateways write it: one data line
// an event, lines end in LF or CRLF.
type eventReader struct {
	in *bufio.Reader
}

func newEventReader(r io.Reader) *eventReader { return &eventReader{bufio.NewReaderSize(r, 16<<10)} }

// next returns the next whole event; comments and unknown fields are skipped. An event whose end does
// not come is no event: the error is io.EOF, however orderly the stream ends.
func (r *eventReader) next() (rawEvent, error) {
	var e rawEvent
	for {
		line, err := r.line()
		if err != nil {
			return rawEvent{}, err
		}
		if len(line) == 0 {
			if e.data != nil {
				return e, nil
			}
			e = rawEvent{}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			e.name = string(value)
		case "id":
			e.id = string(value)
		case "data":
			e.data = append([]byte{}, value...) // the line is the reader's
		}
	}
}

// line reads a line without its end. It is valid until the next one is read.
func (r *eventReader) line() ([]byte, error) {
	line, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		whole := bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(whole) > maxEvent {
				return nil, schemas.Errorf(schemas.CodeTooLarge, "an event of the stream has more than %d bytes", maxEvent)
			}
			line, err = r.in.ReadSlice('\n')
			whole = append(whole, line...)
		}
		line = whole
	}
	if err != nil {
		return nil, fmt.Errorf("a line of the stream: %w", err)
	}
	return bytes.TrimRight(line, "\r\n"), nil
}
