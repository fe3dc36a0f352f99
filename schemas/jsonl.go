package schemas

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxTraceLine bounds a line of a JSON Lines file, in bytes.
const MaxTraceLine = 64 << 20

// LineError is what is wrong with one line of a JSON Lines file.
type LineError struct {
	// Line counts from 1.
	Line int
	// Torn is set when the file ends in the middle of the line.
	Torn bool
	Err  error
}

// Error names the line.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }

// LineReader reads messages, one envelope a line. Empty lines are skipped; the last line needs no
// newline. It is not safe for concurrent use.
type LineReader struct {
	in   *bufio.Reader
	line []byte
	n    int
	end  bool
}

// NewLineReader returns a reader of the messages that r holds.
func NewLineReader(r io.Reader) *LineReader {
	return &LineReader{in: bufio.NewReaderSize(r, 64<<10)}
}

// Next returns the next message and the number of its line, from 1. It fails with io.EOF behind the
// last one, and with a *[LineError] at a line that is no message or can't be read.
func (l *LineReader) Next() (line int, m Message, err error) {
	for !l.end {
		l.n++
		err := l.read()
		l.end = errors.Is(err, io.EOF)
		if err != nil && !l.end {
			return l.n, m, &LineError{Line: l.n, Err: err}
		}
		if l.n == 1 {
			l.line = bytes.TrimPrefix(l.line, []byte("\xef\xbb\xbf")) // some editors write a byte order mark
		}
		text := bytes.TrimSpace(l.line)
		if len(text) == 0 {
			continue
		}
		if nestedDeeper(text, maxLineNesting) {
			return l.n, m, &LineError{Line: l.n, Err: fmt.Errorf("the line is nested more than %d levels deep", maxLineNesting)}
		}
		m, err := Decode(text)
		if err != nil {
			return l.n, m, &LineError{Line: l.n, Torn: l.end, Err: err}
		}
		return l.n, m, nil
	}
	return l.n, m, io.EOF
}

// read reads the next line. It returns io.EOF with the last one.
func (l *LineReader) read() error {
	l.line = l.line[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		if l.line = append(l.line, part...); len(l.line) > MaxTraceLine {
			return fmt.Errorf("the line is longer than %d bytes", MaxTraceLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}
