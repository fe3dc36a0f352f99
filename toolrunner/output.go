package toolrunner

import (
	"io"
	"sync"

	"braid/toolrunner/internal/safetext"
)

// cleanAtOnce bounds how many raw bytes are made safe in one step, and so the scratch memory.
const cleanAtOnce = 32 << 10

// Output takes what a tool writes, makes it safe and keeps it: the head up to the output cap in
// memory, everything in a spill file once it is longer. Its methods are safe for concurrent use;
// a rune written in two pieces survives only if nobody else writes in between.
type Output struct {
	limit        int
	fragmentSize int
	// ready has a token when text waits to be taken: the first of it, or a fragment's worth.
	ready chan struct{}

	mu struct {
		sync.Mutex
		clean   safetext.Cleaner
		scratch []byte
		// text is all that the call's owner gets to see; the first sent bytes were taken.
		text []byte
		sent int
		// total counts all safe text, also beyond the cap.
		total  int64
		capped bool
		closed bool
		full   *spill // nil if nobody wants the full text
	}
}

func newOutput(l Limits, keepFull bool) *Output {
	o := &Output{limit: l.OutputCap, fragmentSize: l.FragmentSize, ready: make(chan struct{}, 1)}
	if keepFull {
		o.mu.full = &spill{dir: l.SpillDir, limit: l.FullCap}
	}
	return o
}

// Write takes the next bytes of the output. It never waits for a reader. Once the call is over it
// fails with [io.ErrClosedPipe].
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.closed {
		return 0, io.ErrClosedPipe
	}
	for rest := p; len(rest) > 0; {
		n := min(len(rest), cleanAtOnce)
		o.mu.scratch = o.mu.clean.Append(o.mu.scratch[:0], rest[:n])
		o.keepLocked(o.mu.scratch)
		rest = rest[n:]
	}
	return len(p), nil
}

// WriteString is [Output.Write] for a string.
func (o *Output) WriteString(s string) (int, error) { return o.Write([]byte(s)) }

// keepLocked adds safe text: to the head while it is below the cap, to the spill beyond.
func (o *Output) keepLocked(text []byte) {
	o.mu.total += int64(len(text))
	if !o.mu.capped {
		head := safetext.Cut(text, o.limit-len(o.mu.text))
		if len(head) < len(text) {
			o.mu.capped = true
			o.mu.full.write(o.mu.text)
			o.mu.full.write(text)
		}
		o.appendLocked(head)
		return
	}
	o.mu.full.write(text)
}

// appendLocked adds to what the owner gets to see.
func (o *Output) appendLocked(text []byte) {
	waiting := len(o.mu.text) - o.mu.sent
	o.mu.text = append(o.mu.text, text...)
	now := len(o.mu.text) - o.mu.sent
	if (waiting == 0 && now > 0) || (waiting < o.fragmentSize && now >= o.fragmentSize) {
		select {
		case o.ready <- struct{}{}:
		default:
		}
	}
}

// waiting is the number of bytes that were not taken yet.
func (o *Output) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.mu.text) - o.mu.sent
}

// size is the length of the text that the call's owner gets to see, so far.
func (o *Output) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.mu.text)
}

// take returns the next piece of text, at most a fragment's worth, and where it begins; empty if
// there is none.
func (o *Output) take() (text string, offset int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	offset = o.mu.sent
	piece := safetext.Cut(o.mu.text[offset:], o.fragmentSize)
	o.mu.sent += len(piece)
	return string(piece), offset
}

// from returns a copy of the text from an offset on, and where it begins: at the offset, or at
// the start of the rune it stands in. It does not count as taking.
func (o *Output) from(offset int64) (text []byte, at int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if offset >= int64(len(o.mu.text)) {
		return nil, len(o.mu.text)
	}
	at = len(safetext.Cut(o.mu.text, int(max(offset, 0))))
	return append([]byte(nil), o.mu.text[at:]...), at
}

// end closes the output: whatever is written from now on is discarded. It adds the lines that
// belong to every output ([closing]) and returns the whole text, and the spill if the cap cut.
func (o *Output) end(notes []string) (text string, full *spill) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keepLocked(o.mu.clean.Finish(nil))
	o.mu.closed = true
	o.appendLocked(closing(o.mu.text, o.mu.capped, o.mu.total, notes))
	if o.mu.capped {
		full = o.mu.full
	}
	return string(o.mu.text), full
}
