package schemas_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"braid/schemas"
)

// readAll reads messages, and encodes them again, one a line.
func readAll(in string) (string, error) {
	var out []byte
	for lines := schemas.NewLineReader(strings.NewReader(in)); ; {
		_, m, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return string(out), nil
		}
		if err != nil {
			return string(out), err
		}
		if out, err = schemas.Append(out, m); err != nil {
			return string(out), err
		}
		out = append(out, '\n')
	}
}

func TestLineReader(t *testing.T) {
	const msg = `{"timestamp":"2026-11-30T12:00:00.000Z","type":"event_msg","payload":{"type":"abort"}}`
	for _, test := range []struct {
		name, in string
		messages int
		line     int // of the error; 0 if none is wanted
		torn     bool
	}{
		{"empty file", "", 0, 0, false},
		{"newline at the end", msg + "\n", 1, 0, false},
		{"none at the end", msg + "\n" + msg, 2, 0, false},
		{"empty lines between", "\n" + msg + "\n  \n" + msg + "\n\n", 2, 0, false},
		{"line ends of Windows", msg + "\r\n" + msg + "\r\n", 2, 0, false},
		{"byte order mark", "\xef\xbb\xbf" + msg, 1, 0, false},
		{"torn last line", msg + "\n" + msg[:40], 1, 2, true},
		{"not JSON", msg + "\n\nhello\n" + msg, 1, 3, false},
		{"two on one line", msg + msg, 0, 1, true},
		{"no payload", `{"type":"event_msg"}`, 0, 1, true},
		{"longer than the buffer", strings.Repeat(" ", 100<<10) + msg, 1, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := readAll(test.in)
			if n := strings.Count(out, "\n"); n != test.messages {
				t.Errorf("read %d messages, want %d", n, test.messages)
			}
			var at *schemas.LineError
			if test.line == 0 && err != nil {
				t.Error(err)
			}
			if test.line != 0 && (!errors.As(err, &at) || at.Line != test.line || at.Torn != test.torn) {
				t.Errorf("error is %v, want one of line %d", err, test.line)
			}
		})
	}
}

func FuzzLineReader(f *testing.F) {
	f.Add("{}\n")
	f.Add(`{"timestamp":"","type":"model_msg","payload":{"type":"text","role":"user","text":"\ud800"}}`)
	f.Fuzz(func(t *testing.T, in string) {
		once, err := readAll(in)
		if err != nil {
			return
		}
		if twice, err := readAll(once); err != nil || twice != once {
			t.Errorf("%q became %q, %v", once, twice, err)
		}
	})
}
