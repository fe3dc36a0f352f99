package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// screen is where something is shown. Only what a person sees on a terminal is coloured, and has the
// characters that could steer the terminal replaced; files and pipes get everything as it is.
type screen struct {
	io.Writer
	terminal bool
	colours  bool
}

func newScreen(w io.Writer) screen {
	s := screen{Writer: w, terminal: isTerminal(w)}
	s.colours = s.terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}

// isTerminal reports whether a person is at the other end of a reader or writer.
func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// style is how text looks, in the terms of a terminal.
type style string

const (
	plain  style = ""
	dim    style = "2"
	bold   style = "1"
	red    style = "31"
	yellow style = "33"
	cyan   style = "36"
)

// paint gives text a style, if the screen has colours.
func (s screen) paint(as style, text string) string {
	if !s.colours || as == plain || text == "" {
		return text
	}
	return "\x1b[" + string(as) + "m" + text + "\x1b[0m"
}

// safe is text as it may be shown here: what a model or a tool says must not move the cursor, nor hide
// what stands elsewhere.
func (s screen) safe(text string) string {
	if !s.terminal {
		return text
	}
	return escapeControls(strings.ReplaceAll(text, "\r\n", "\n"), "\n\t\u200c\u200d")
}

// escapeControls writes characters that are not seen, or that change how others are, as \u{…}: where
// somebody decides on a text every character of it counts.
func escapeControls(text, but string) string {
	harmless := func(c rune) bool { return unicode.IsPrint(c) || strings.ContainsRune(but, c) }
	if !strings.ContainsFunc(text, func(c rune) bool { return !harmless(c) }) {
		return text
	}
	var b strings.Builder
	for _, c := range text {
		if harmless(c) {
			b.WriteRune(c)
		} else {
			fmt.Fprintf(&b, `\u{%x}`, c)
		}
	}
	return b.String()
}

// ask puts the question whether a tool call may run, with everything that would.
func (s screen) ask(name, arguments string) {
	fmt.Fprintf(s, "%s %s %s ", s.paint(yellow, "allow "+escapeControls(name, "")), escapeControls(arguments, ""), s.paint(yellow, "? [y/n]"))
}
