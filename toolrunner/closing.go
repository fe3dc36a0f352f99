package toolrunner

import (
	"bytes"
	"fmt"
	"strings"

	"braid/toolrunner/internal/safetext"
)

// maxNote bounds one note, in bytes: notes are outside the output cap.
const maxNote = 4 << 10

// noOutput stands for an output nobody could see: some models refuse an empty one.
const noOutput = "[no output]"

// closing is what follows a tool's text: a word for no output, the cap marker, the notes, a line
// each. total is the length the text would have without the cap.
func closing(text []byte, capped bool, total int64, notes []string) []byte {
	var lines []string
	if capped {
		lines = append(lines, fmt.Sprintf("[output truncated: kept the first %d of %d bytes]", len(text), total))
	} else if len(bytes.TrimSpace(text)) == 0 {
		lines = append(lines, noOutput)
	}
	for _, note := range notes {
		if note = safeNote(note); note != "" {
			lines = append(lines, note)
		}
	}
	var out []byte
	onNewLine := len(text) == 0 || text[len(text)-1] == '\n'
	for _, line := range lines {
		if !onNewLine {
			out = append(out, '\n')
		}
		out = append(out, line...)
		onNewLine = false
	}
	return out
}

// safeNote is a note as it may stand in an output.
func safeNote(note string) string {
	return strings.TrimSpace(string(safetext.Cut([]byte(safetext.String(note)), maxNote)))
}
