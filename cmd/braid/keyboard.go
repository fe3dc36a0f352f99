package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/term"
)

// keyboard is what a person types, or a pipe says, line by line.
//
// On a terminal a line at rest is edited here, in raw mode, with what was typed before a key away. While
// a task runs the terminal edits lines itself and turns Ctrl-C into a signal, so that both work
// whatever this process is at. One goroutine reads all the time, and whoever wants input takes it from
// there.
type keyboard struct {
	chunks  chan []byte // what was read; closed at the end of the input
	signals chan os.Signal
	tty     *os.File // nil: a pipe
	echo    io.Writer
	history term.History // of edited lines
	left    []byte       // read and not taken yet

	stop     chan struct{}
	stopOnce sync.Once
}

var (
	// errInterrupted says that Ctrl-C came instead of a line.
	errInterrupted = errors.New("interrupted")
	// errTerminated says that the process is asked to end.
	errTerminated = errors.New("terminated")
)

// openKeyboard begins to read. A terminal's lines are edited on echo; nil: nobody is there to be asked.
func openKeyboard(in io.Reader, echo io.Writer) *keyboard {
	k := &keyboard{chunks: make(chan []byte), stop: make(chan struct{}), echo: echo}
	if echo != nil {
		k.tty = in.(*os.File) // only they are terminals
		k.signals = make(chan os.Signal, 2)
		signal.Notify(k.signals, os.Interrupt, syscall.SIGTERM)
	}
	// A read of a terminal can't be called off: the goroutine ends with the input, with the next key
	// after close, or with the process.
	go k.read(in)
	return k
}

func (k *keyboard) close() {
	k.stopOnce.Do(func() { close(k.stop) })
	if k.signals != nil {
		signal.Stop(k.signals)
	}
}

// interactive reports that a person is there, who can be asked.
func (k *keyboard) interactive() bool { return k.tty != nil }

func (k *keyboard) read(in io.Reader) {
	defer close(k.chunks)
	for {
		buffer := make([]byte, 4096)
		n, err := in.Read(buffer)
		if n > 0 {
			select {
			case k.chunks <- buffer[:n]:
			case <-k.stop:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// typed is what was typed while a task runs; nil where that means nothing.
func (k *keyboard) typed() <-chan []byte {
	if k.interactive() {
		return k.chunks
	}
	return nil
}

// lineEnds end a line, which a terminal and a file do differently. So there may be empty lines more.
const lineEnds = "\r\n"

// take takes a whole line of what was read; false if there is none.
func (k *keyboard) take() (line string, ok bool) {
	end := bytes.IndexAny(k.left, lineEnds)
	if end < 0 {
		return "", false
	}
	line, k.left = string(k.left[:end]), k.left[end+1:]
	return line, true
}

// line waits for a line. The error is io.EOF at the end of the input, errInterrupted, errTerminated, or
// the context's.
func (k *keyboard) line(ctx context.Context, prompt string) (string, error) {
	if k.interactive() {
		return k.edit(ctx, prompt)
	}
	for {
		if line, ok := k.take(); ok {
			return line, nil
		}
		if err := k.more(ctx); err != nil {
			rest := string(k.left)
			if k.left = nil; errors.Is(err, io.EOF) && rest != "" {
				return rest, nil
			}
			return "", err
		}
	}
}

// more waits until more was read, or a signal came.
func (k *keyboard) more(ctx context.Context) error {
	select {
	case chunk, ok := <-k.chunks:
		if !ok {
			return io.EOF
		}
		k.left = append(k.left, chunk...)
		return nil
	case s := <-k.signals:
		return signalled(s)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func signalled(s os.Signal) error {
	if s == os.Interrupt {
		return errInterrupted
	}
	return errTerminated
}

// continuation is the prompt of a pasted prompt's further lines.
const continuation = "… "

// edit lets a person edit a line. Several lines that are pasted at once are one.
func (k *keyboard) edit(ctx context.Context, prompt string) (_ string, err error) {
	fd := int(k.tty.Fd())
	cooked, err := term.MakeRaw(fd)
	if err != nil {
		return "", fmt.Errorf("prepare the terminal: %w", err)
	}
	editor := term.NewTerminal(&keys{k, func() error { return k.more(ctx) }}, prompt)
	if k.history != nil {
		editor.History = k.history
	}
	k.history = editor.History
	if width, height, err := term.GetSize(fd); err == nil && width > 0 {
		_ = editor.SetSize(width, height) // it fails only where a line has to be drawn again
	}
	editor.SetBracketedPasteMode(true)
	defer func() {
		editor.SetBracketedPasteMode(false)
		err = errors.Join(err, term.Restore(fd, cooked))
	}()
	var lines []string
	for {
		line, err := editor.ReadLine()
		if lines = append(lines, line); err == nil {
			return strings.Join(lines, "\n"), nil
		}
		if !errors.Is(err, term.ErrPasteIndicator) {
			fmt.Fprint(k.echo, "\r\n")
			return "", err
		}
		editor.SetPrompt(continuation)
	}
}

// interruptKey is Ctrl-C where the terminal makes no signal of it.
const interruptKey = 3

// keys is the terminal as an editor of one line sees it.
type keys struct {
	k    *keyboard
	more func() error // waits until there is more to take
}

// Read gives what is typed, a line at most: the next one is for the next editor. Ctrl-C is errInterrupted.
func (r *keys) Read(p []byte) (int, error) {
	if len(r.k.left) == 0 {
		if err := r.more(); err != nil {
			return 0, err
		}
	}
	if r.k.left[0] == interruptKey {
		r.k.left = r.k.left[1:]
		return 0, errInterrupted
	}
	n := len(r.k.left)
	if end := bytes.IndexAny(r.k.left, lineEnds); end >= 0 {
		n = end + 1
	}
	if key := bytes.IndexByte(r.k.left[:n], interruptKey); key >= 0 {
		n = key
	}
	n = copy(p, r.k.left[:n])
	r.k.left = r.k.left[n:]
	return n, nil
}

// Write draws.
func (r *keys) Write(p []byte) (int, error) { return r.k.echo.Write(p) }
