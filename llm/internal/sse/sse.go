// Package sse reads server-sent events as providers send them: by the standard, and a little more
// tolerant. It starts no goroutine. Start reading at [Reader.Next].
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxEvent is how many bytes the lines of one event may have together. Events that carry pictures
// or whole answers have megabytes.
const MaxEvent = 32 << 20

// ErrTooLong is the error of an event that is longer than the reader's limit.
var ErrTooLong = errors.New("the event is too long")

// Event is one event.
type Event struct {
	// Type is its "event" field; empty means a plain message.
	Type string
	// Data are its "data" lines, joined by newlines. It is valid until the next call of Next.
	Data []byte
}

// Reader reads events. Lines end in LF, CR or CRLF, wherever reads are cut; a byte order mark,
// comments and unknown fields are skipped, and so are events without data. Unlike a browser it
// takes a last event without the empty line behind it.
type Reader struct {
	in    *bufio.Reader
	limit int
	line  []byte
	data  []byte
	begun bool // the first line has been read
	cr    bool // the last line ended in CR: a LF directly after it belongs to it
}

// NewReader returns a reader of r. A limit of 0 is [MaxEvent].
func NewReader(r io.Reader, limit int) *Reader {
	if limit <= 0 {
		limit = MaxEvent
	}
	return &Reader{in: bufio.NewReaderSize(r, 16<<10), limit: limit}
}

// Peek returns the first byte of the stream that is no white space and no part of a byte order
// mark, without taking it, and whether there is one. It is for the beginning, when it is not known
// yet that these are events.
func (r *Reader) Peek() (byte, bool) {
	for n := 1; n <= r.in.Size(); n++ {
		b, err := r.in.Peek(n)
		if err != nil {
			return 0, false
		}
		if c := b[n-1]; !bytes.ContainsRune([]byte(" \t\r\n"), rune(c)) && !isBOM(c) {
			return c, true
		}
	}
	return 0, false
}

func isBOM(c byte) bool { return c == 0xEF || c == 0xBB || c == 0xBF }

// Rest is all that has not been read, as it is. It is for what turns out not to be events.
func (r *Reader) Rest() io.Reader { return r.in }

// Next returns the next event, io.EOF after the last, [ErrTooLong] (wrapped), or the error of the
// reader below; then what has come of the event is lost.
func (r *Reader) Next() (Event, error) {
	var e Event
	r.data = r.data[:0]
	lines := 0
	for {
		err := r.readLine(len(r.data))
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return Event{}, err
		}
		if len(r.line) > 0 {
			r.field(&e, &lines)
		}
		switch {
		case lines > 0 && (end || len(r.line) == 0):
			e.Data = r.data
			return e, nil
		case end:
			return Event{}, io.EOF
		case len(r.line) == 0:
			e = Event{}
		}
	}
}

// field takes one line that is not empty.
func (r *Reader) field(e *Event, lines *int) {
	name, value, _ := bytes.Cut(r.line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		e.Type = string(value)
	case "data":
		if *lines++; *lines > 1 {
			r.data = append(r.data, '\n')
		}
		r.data = append(r.data, value...)
	}
}

// readLine reads a line without its end. At the end of the stream it returns io.EOF with what
// there is.
func (r *Reader) readLine(before int) error {
	r.line = r.line[:0]
	for {
		if _, err := r.in.Peek(1); err != nil {
			return err
		}
		b, _ := r.in.Peek(r.in.Buffered())
		if r.cr && b[0] == '\n' {
			r.skip(1)
			r.cr = false
			continue
		}
		r.cr = false
		end := bytes.IndexAny(b, "\r\n")
		if end < 0 {
			end = len(b)
		}
		if before+len(r.line)+end > r.limit {
			return fmt.Errorf("%w: the limit is %d bytes", ErrTooLong, r.limit)
		}
		r.line = append(r.line, b[:end]...)
		if end == len(b) {
			r.skip(end)
			continue
		}
		r.cr = b[end] == '\r'
		r.skip(end + 1)
		if !r.begun {
			r.line = bytes.TrimPrefix(r.line, []byte("\uFEFF"))
			r.begun = true
		}
		return nil
	}
}

// skip takes bytes that are in the buffer, which can't fail.
func (r *Reader) skip(n int) { _, _ = r.in.Discard(n) }
