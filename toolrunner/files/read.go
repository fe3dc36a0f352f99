package files

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// This file is read_file: lines of a text file, as many as fit, and a note about those that are left.

type readArguments struct {
	Path      string `json:"path" jsonschema:"the file"`
	StartLine int    `json:"start_line,omitzero" jsonschema:"the first line to show, from 1; 1 if left out"`
	Lines     int    `json:"lines,omitzero" jsonschema:"how many lines to show; as many as fit if left out"`
}

func read(ctx context.Context, w *workspace, in readArguments, out io.Writer) (_ string, err error) {
	if in.StartLine < 0 || in.Lines < 0 {
		return "", refuse("start_line and lines can't be negative")
	}
	name, err := w.name(in.Path)
	if err != nil {
		return "", err
	}
	f, info, err := w.open(name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := bufio.NewReaderSize(f, sniffed)
	if head, err := r.Peek(sniffed); err != nil && !errors.Is(err, io.EOF) {
		return "", explain(name, err)
	} else if binary(head) {
		return "", binaryError(name, info.Size())
	}
	if info.Size() == 0 {
		return "[the file is empty]", nil
	}
	l := lines{r: r, line: 1}
	first := max(in.StartLine, 1)
	if err := l.skipTo(ctx, first); err != nil {
		return "", explain(name, err)
	}
	if l.line < first || l.ended() {
		return "", refuse("%s has only %d lines", spelled(name), l.line-1)
	}
	text, err := l.take(ctx, in.Lines)
	if err != nil {
		return "", explain(name, err)
	}
	if !utf8.Valid(text) {
		return "", binaryError(name, info.Size())
	}
	if _, err := out.Write(text); err != nil {
		return "", err
	}
	return l.note(first, text), nil
}

// lines reads a file line by line.
type lines struct {
	r *bufio.Reader
	// line is the number of the next line; cut how much was left out of the last.
	line int
	cut  int64
}

func (l *lines) ended() bool {
	_, err := l.r.Peek(1)
	return err != nil
}

// next reads the next line, its end included, and keeps at most that many bytes of it: a line may
// be longer than memory. more is how many bytes were not kept. At the end both are zero.
func (l *lines) next(ctx context.Context, keep int) (line []byte, more int64, err error) {
	for {
		if ctx.Err() != nil {
			return nil, 0, context.Cause(ctx)
		}
		piece, err := l.r.ReadSlice('\n')
		kept := piece[:min(len(piece), max(keep-len(line), 0))]
		line, more = append(line, kept...), more+int64(len(piece)-len(kept))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, 0, err
		}
		if len(line) > 0 || more > 0 {
			l.line++
		}
		return line, more, nil
	}
}

// skipTo goes on to a line, or the end.
func (l *lines) skipTo(ctx context.Context, line int) error {
	for l.line < line && !l.ended() {
		if _, _, err := l.next(ctx, 0); err != nil {
			return err
		}
	}
	return nil
}

// take reads whole lines, that many or, if 0, as many as may be shown. The first is cut if it
// alone is too long.
func (l *lines) take(ctx context.Context, many int) ([]byte, error) {
	var text []byte
	for taken := 0; (many == 0 || taken < many) && !l.ended(); taken++ {
		if taken > 0 && !l.fits(maxRead-len(text)) {
			break
		}
		line, more, err := l.next(ctx, maxRead)
		if err != nil {
			return nil, err
		}
		if more > 0 {
			whole := wholeRunes(line)
			l.cut = more + int64(len(line)-len(whole))
			line = whole
		}
		text = append(text, line...)
		if l.cut > 0 || len(text) >= maxRead {
			break
		}
	}
	return text, nil
}

// fits reports that the next line is no longer than that. A line that is longer than the reader's
// buffer is taken for one that is not.
func (l *lines) fits(size int) bool {
	for _, look := range []int{l.r.Buffered(), l.r.Size()} {
		ahead, err := l.r.Peek(look)
		if end := bytes.IndexByte(ahead, '\n'); end >= 0 {
			return end < size
		}
		if errors.Is(err, io.EOF) {
			return len(ahead) <= size
		}
	}
	return false
}

// wholeRunes cuts a rune that is not whole off the end.
func wholeRunes(text []byte) []byte {
	for cut := 1; cut < utf8.UTFMax && cut <= len(text); cut++ {
		if last := text[len(text)-cut:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return text[:len(text)-cut]
			}
			break
		}
	}
	return text
}

// note says what the text is not: all of the file, or what its bytes are.
func (l *lines) note(first int, text []byte) string {
	last := l.line - 1
	var notes []string
	switch {
	case l.cut > 0:
		notes = append(notes, fmt.Sprintf("line %d goes on for %d bytes that can't be shown", last, l.cut))
	case !l.ended():
		notes = append(notes, fmt.Sprintf("lines %d to %d; the file goes on at start_line %d", first, last, l.line))
	case first > 1:
		notes = append(notes, fmt.Sprintf("lines %d to %d, the last", first, last))
	}
	if l.cut > 0 && !l.ended() {
		notes = append(notes, fmt.Sprintf("the file goes on at start_line %d", l.line))
	}
	if at := occurrences(text, []byte("\r\n")); onlyCRLF(text) {
		notes = append(notes, `lines end in \r\n`)
	} else if len(at) > 0 { // else they could not be named to edit_file, which takes such a text as it is
		notes = append(notes, fmt.Sprintf(`lines that end in \r\n, others in \n: %s`, someFrom(first, at)))
	}
	if bytes.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0x7f }) {
		notes = append(notes, "control characters are not shown")
	}
	out := ""
	if len(text) > 0 && text[len(text)-1] != '\n' && len(notes) > 0 {
		out = "\n"
	}
	for i, note := range notes {
		if i > 0 {
			out += "\n"
		}
		out += "[" + note + "]"
	}
	return out
}
