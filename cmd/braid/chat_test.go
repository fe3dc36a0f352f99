package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"braid/internal/cli"
)

// A pipe that is interrupted has its task aborted, and says so.
func TestChatOfAPipeIsInterrupted(t *testing.T) {
	b := newBusySession(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	prompts, in := io.Pipe()
	defer in.Close()
	// The task that waits for a person goes on before: it is denied, since nobody can be asked.
	out := &watched{text: "begun", seen: cancel}
	var stderr bytes.Buffer
	go func() { _, _ = io.WriteString(in, "/mode allow-all\n$ echo begun; sleep 600\n") }() // ends when it is read
	code := run(ctx, []string{"chat", "--server", b.url, "--session", "s"}, prompts, out, &stderr)
	if code != cli.ExitFailed || !strings.Contains(stderr.String(), "aborting\n") || !strings.Contains(stderr.String(), "braid chat: interrupted\n") ||
		!strings.Contains(out.String(), "! the task ended: aborted") {
		t.Errorf("%d: %s%s", code, out, &stderr)
	}
	b.await("it is aborted", func(s shown) bool { return s.State == "idle" })
}

// watched is a buffer that tells when a text was written.
type watched struct {
	bytes.Buffer
	text string
	seen func()
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Contains(w.String(), "\n"+w.text) {
		w.seen()
	}
	return n, err
}

// What is shown of an output is whole lines, however it comes in pieces.
func TestOutputIsCut(t *testing.T) {
	for _, test := range []struct {
		why    string
		pieces []string
		want   string
	}{
		{"it is short enough", []string{"a\nb\n"}, "← \na\nb\n"},
		{"the limit is in a piece", []string{"a\nb\nc\nd\n"}, "← \na\nb\n  … 2 more lines\n"},
		{"the limit is between pieces", []string{"a\nb\n", "c\n", "d"}, "← \na\nb\n  … 1 more line\n"},
		{"a piece ends in a line", []string{"a\nb", "b\nc\n"}, "← \na\nbb\n  … 1 more line\n"},
		{"nothing comes", nil, ""},
	} {
		var out bytes.Buffer
		r := newRenderer(&out, false)
		r.most = 2
		for _, piece := range test.pieces {
			r.output("c", piece)
		}
		r.omitted("c")
		if out.String() != test.want {
			t.Errorf("%s: got %q, want %q", test.why, out.String(), test.want)
		}
	}
}

// In which pieces an output comes makes no difference to what is shown of it.
func TestPiecesOfOutputMakeNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		show := func(most int, pieces ...string) string {
			var out bytes.Buffer
			r := newRenderer(&out, false)
			r.most = most
			for _, piece := range pieces {
				r.output("c", piece)
			}
			r.omitted("c")
			r.finish()
			return out.String()
		}
		most := rapid.IntRange(1, 4).Draw(t, "most")
		pieces := rapid.SliceOf(rapid.StringMatching(`[a\n]{0,5}`)).Draw(t, "pieces")
		whole := strings.Join(pieces, "")
		got, want := show(most, pieces...), show(most, whole)
		if got != want {
			t.Fatalf("in pieces %q, at once %q", got, want)
		}
		if lines := strings.Count(want, "\n"); lines > most+2 { // a heading, and how many more
			t.Fatalf("%d lines are shown: %q", lines, want)
		}
	})
}

func TestEscapedControls(t *testing.T) {
	for _, test := range []struct{ why, text, but, want string }{
		{"what is seen stays", "é 漢 🙂", "", "é 漢 🙂"},
		{"an escape sequence", "\x1b[2J", "", `\u{1b}[2J`},
		{"text that runs backwards", "a\u202eb", "\n", `a\u{202e}b`},
		{"lines, where they are harmless", "a\nb\rc", "\n", "a\nb\\u{d}c"},
		{"a space that is none", "a\u00a0b\u200b", "", `a\u{a0}b\u{200b}`},
	} {
		if got := escapeControls(test.text, test.but); got != test.want {
			t.Errorf("%s: got %q, want %q", test.why, got, test.want)
		}
	}
	if got := (screen{terminal: true}).safe("a\r\nb\x07\t\u200d"); got != "a\nb\\u{7}\t\u200d" {
		t.Errorf("on a terminal: %q", got)
	}
	if got := (screen{}).safe("a\r\n\x07"); got != "a\r\n\x07" {
		t.Errorf("in a file: %q", got)
	}
}

// The keyboard of a pipe gives lines, also the last one that has no end.
func TestKeyboardOfAPipe(t *testing.T) {
	k := openKeyboard(strings.NewReader("one\r\ntwo\nthree"), nil)
	defer k.close()
	var got []string
	for {
		line, err := k.line(context.Background(), "")
		if err != nil {
			if err != io.EOF {
				t.Error(err)
			}
			break
		}
		if line != "" {
			got = append(got, line)
		}
	}
	if strings.Join(got, ",") != "one,two,three" {
		t.Errorf("got %q", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r, w := io.Pipe()
	defer w.Close()
	silent := openKeyboard(r, nil)
	defer silent.close()
	if _, err := silent.line(ctx, ""); err != context.Canceled {
		t.Errorf("got %v", err)
	}
}
