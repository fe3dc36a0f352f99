package trace

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"braid/schemas"
)

// readAll reads messages, and encodes them again, one a line.
func readAll(t testing.TB, in string) (string, error) {
	t.Helper()
	var out []byte
	err := ReadJSONLines(strings.NewReader(in), func(_ int, m schemas.Message) error {
		var err error
		out, err = schemas.Append(out, m)
		out = append(out, '\n')
		return err
	})
	return string(out), err
}

func TestExportIsWhatImportReads(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	unknown := &schemas.Unknown{Of: "later", Raw: []byte(`{"type":"later","n":1e2,"s":"\u00e9 <b>"}`)}
	apply(t, s, b,
		b.frame(bob, meta("m"), prompt("line one\nline two  & <tag>")),
		b.frame(bob, schemas.NewToolCall("c", "sh", "{\"a\":\n1}"), unknown))
	var first bytes.Buffer
	if err := s.Export(context.Background(), bob, &first); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(first.String(), "\n"); n != 4 {
		t.Errorf("%d lines for 4 messages:\n%s", n, first.String())
	}
	again, err := readAll(t, first.String())
	if err != nil || again != first.String() {
		t.Errorf("came back as\n%s, %v, was\n%s", again, err, first.String())
	}
}

func TestExportReportsTheWriter(t *testing.T) {
	s, b := open(t, Options{}), newScript()
	apply(t, s, b, b.frame(bob, prompt("x")))
	if err := s.Export(context.Background(), bob, failingWriter{}); !errors.Is(err, errWriter) {
		t.Errorf("got %v", err)
	}
}

var errWriter = errors.New("client is gone")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errWriter }

func TestReadJSONLines(t *testing.T) {
	const msg = `{"timestamp":"2026-11-30T12:00:00.000Z","type":"event_msg","payload":{"type":"abort"}}`
	for _, test := range []struct {
		name, in string
		messages int
		line     int // of the error; 0 if none is wanted
	}{
		{"empty file", "", 0, 0},
		{"newline at the end", msg + "\n", 1, 0},
		{"none at the end", msg + "\n" + msg, 2, 0},
		{"empty lines between", "\n" + msg + "\n  \n" + msg + "\n\n", 2, 0},
		{"line ends of Windows", msg + "\r\n" + msg + "\r\n", 2, 0},
		{"byte order mark", "\xef\xbb\xbf" + msg, 1, 0},
		{"torn last line", msg + "\n" + msg[:40], 1, 2},
		{"not JSON", msg + "\n\nhello\n" + msg, 1, 3},
		{"two on one line", msg + msg, 0, 1},
		{"no payload", `{"type":"event_msg"}`, 0, 1},
		{"longer than the buffer", strings.Repeat(" ", 100<<10) + msg, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := readAll(t, test.in)
			if n := strings.Count(out, "\n"); n != test.messages {
				t.Errorf("read %d messages, want %d", n, test.messages)
			}
			var at *LineError
			if test.line == 0 && err != nil {
				t.Error(err)
			}
			if test.line != 0 && (!errors.As(err, &at) || at.Line != test.line) {
				t.Errorf("error is %v, want one of line %d", err, test.line)
			}
		})
	}
}

func FuzzReadJSONLines(f *testing.F) {
	f.Add("{}\n")
	f.Add(`{"timestamp":"","type":"model_msg","payload":{"type":"text","role":"user","text":"\ud800"}}`)
	f.Fuzz(func(t *testing.T, in string) {
		once, err := readAll(t, in)
		if err != nil {
			return
		}
		if twice, err := readAll(t, once); err != nil || twice != once {
			t.Errorf("%q became %q, %v", once, twice, err)
		}
	})
}
