package toolrunner

import (
	"bufio"
	"fmt"
	"io"
	"os"
)

// spill keeps the untruncated text of one call, up to a limit, in a file that has no name: it is
// gone with the process, however that ends. A nil spill keeps nothing. The first error stops it.
type spill struct {
	dir   string
	limit int64

	file *os.File
	w    *bufio.Writer
	size int64
	err  error
}

// write adds text; what goes beyond the limit is dropped. A rune at the limit may be cut.
func (s *spill) write(text []byte) {
	if s == nil || s.err != nil || len(text) == 0 {
		return
	}
	if s.file == nil {
		if s.err = s.open(); s.err != nil {
			return
		}
	}
	text = text[:min(int64(len(text)), s.limit-s.size)]
	n, err := s.w.Write(text)
	s.size += int64(n)
	s.err = err
}

func (s *spill) open() error {
	f, err := os.CreateTemp(s.dir, "braid-output-*")
	if err != nil {
		return fmt.Errorf("keep the full output: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return fmt.Errorf("keep the full output: %w", err)
	}
	s.file, s.w = f, bufio.NewWriterSize(f, 64<<10)
	return nil
}

// reader returns the kept text, once nothing is written any more.
func (s *spill) reader() (io.ReadSeeker, error) {
	if s.err != nil {
		return nil, s.err
	}
	if err := s.w.Flush(); err != nil {
		return nil, fmt.Errorf("keep the full output: %w", err)
	}
	return io.NewSectionReader(s.file, 0, s.size), nil
}

// close drops the text. It may be called on a nil spill and more than once.
func (s *spill) close() {
	if s == nil || s.file == nil {
		return
	}
	_ = s.file.Close() // nothing is lost: the text was read or is not wanted
	s.file = nil
}
