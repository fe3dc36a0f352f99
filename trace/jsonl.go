package trace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"braid/schemas"
)

// maxLine bounds a line of an imported file, in bytes.
const maxLine = 64 << 20

// Export writes the session's messages as JSON Lines, one envelope a line, in order: what
// [ReadJSONLines] reads. A session that does not exist is a *[schemas.Error].
func (s *Store) Export(ctx context.Context, ref schemas.SessionRef, w io.Writer) error {
	var out []byte
	head, err := s.walk(ctx, ref, schemas.Position{}, func(chunk []rawEntry) error {
		out = out[:0]
		for _, e := range chunk {
			out = append(append(out, e.line...), '\n')
		}
		_, err := w.Write(out)
		return err
	})
	if err != nil {
		return fmt.Errorf("export %s: %w", ref, err)
	}
	if head == (Head{}) {
		return schemas.Errorf(schemas.CodeUnknownSession, "there is no session %s", ref)
	}
	return nil
}

// ReadJSONLines reads messages, one envelope a line, and calls yield with each and the number of
// its line, from 1. Empty lines are skipped; the last line needs no newline. A line that is no
// message ends it with a *[LineError]; an error of yield ends it and is returned as it is.
//
// Nothing is stored: what a session records is decided by its owner.
func ReadJSONLines(r io.Reader, yield func(line int, m schemas.Message) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	for n := 1; ; n++ {
		var err error
		line, err = readLine(in, line[:0])
		if err != nil && !errors.Is(err, io.EOF) {
			return &LineError{Line: n, Err: err}
		}
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")) // some editors write a byte order mark
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			m, err := schemas.Decode(text)
			if err != nil {
				return &LineError{Line: n, Err: err}
			}
			if err := yield(n, m); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
	}
}

// readLine appends the next line to buf. It returns io.EOF with the last one.
func readLine(in *bufio.Reader, buf []byte) ([]byte, error) {
	for {
		part, err := in.ReadSlice('\n')
		if buf = append(buf, part...); len(buf) > maxLine {
			return buf, fmt.Errorf("the line is longer than %d bytes", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return buf, err
		}
	}
}
