package sse_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"braid/llm/internal/sse"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// events reads all events as "type|data".
func events(r io.Reader, limit int) ([]string, error) {
	var got []string
	in := sse.NewReader(r, limit)
	for {
		e, err := in.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return got, err
		}
		got = append(got, e.Type+"|"+string(e.Data))
	}
}

// cut reads s in two parts, the cut being anywhere.
func cut(s string, at int) io.Reader {
	return io.MultiReader(iotest.DataErrReader(strings.NewReader(s[:at])), strings.NewReader(s[at:]))
}

func TestNext(t *testing.T) {
	tests := []struct {
		why, in string
		want    []string
	}{
		{"nothing", "", nil},
		{"white space only", "\n\r\n\r\r", nil},
		{"the plain case", "data: a\n\ndata: b\n\n", []string{"|a", "|b"}},
		{"no space after the colon", "data:a\n\n", []string{"|a"}},
		{"only the first space goes", "data:  a \n\n", []string{"| a "}},
		{"a field without colon is empty", "data\n\n", []string{"|"}},
		{"types are of one event", "event: x\ndata: a\n\ndata: b\n\n", []string{"x|a", "|b"}},
		{"an event without data is none, nor is its type the next one's", "event: x\n\ndata: b\n\n", []string{"|b"}},
		{"several data lines are joined", "data: a\ndata:\ndata: b\n\n", []string{"|a\n\nb"}},
		{"and stay one event, whatever their ends", "data: a\r\ndata: b\r\n\r\ndata: c\rdata: d\r\rdata: e\ndata: f\n\n", []string{"|a\nb", "|c\nd", "|e\nf"}},
		{"comments, ids and unknown fields are nothing", ": hi\nid: 7\nretry: 10\nnew: x\ndata: a\n:\n\n", []string{"|a"}},
		{"a byte order mark", "\uFEFFdata: a\n\n", []string{"|a"}},
		{"only at the beginning", "data: a\n\n\uFEFFdata: b\n\n", []string{"|a"}},
		{"no empty line at the end", "data: a\n\ndata: b\n", []string{"|a", "|b"}},
		{"no line end at the end", "data: a\n\ndata: b", []string{"|a", "|b"}},
		{"colons in the data", "data: a: b\n\n", []string{"|a: b"}},
		{"bytes that are no text pass", "data: \xff\x00\n\n", []string{"|\xff\x00"}},
	}
	for _, tt := range tests {
		for i := range len(tt.in) + 1 {
			got, err := events(cut(tt.in, i), 0)
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("%s, cut at %d: %v (-want +got)\n%s", tt.why, i, err, diff)
			}
		}
	}
}

// Line ends of three kinds, wherever the network cuts.
func TestCase_A12_LineEnds(t *testing.T) {
	in := "data: {\"a\":1}\r\n\r\ndata: {\"a\":2}\r\rdata: {\"a\":3}\n\n"
	want := []string{`|{"a":1}`, `|{"a":2}`, `|{"a":3}`}
	for i := range len(in) + 1 {
		if got, err := events(cut(in, i), 0); err != nil || !cmp.Equal(got, want) {
			t.Errorf("cut at %d: %q, %v", i, got, err)
		}
	}
	if got, err := events(iotest.OneByteReader(strings.NewReader(in)), 0); err != nil || !cmp.Equal(got, want) {
		t.Errorf("byte by byte: %q, %v", got, err)
	}
}

// A CR ends a line at once: nobody waits for the LF that may follow.
func TestCarriageReturnDoesNotWait(t *testing.T) {
	in, out := io.Pipe()
	defer in.Close()
	done := make(chan struct{})
	go func() { // ends when the event is read
		defer close(done)
		_, _ = out.Write([]byte("data: a\r\r"))
	}()
	e, err := sse.NewReader(in, 0).Next()
	if err != nil || string(e.Data) != "a" {
		t.Errorf("%q, %v", e.Data, err)
	}
	<-done
}

func TestCase_A13_CommentsMarksAndSeveralDataLines(t *testing.T) {
	in := "\xEF\xBB\xBF: warming up\n\n:\n\ndata:{\"choices\":\ndata:[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\nid: 7\nretry: 1000\n\ndata: [DONE]\n\n"
	want := []string{"|{\"choices\":\n[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}", "|[DONE]"}
	for i := range len(in) + 1 {
		if got, err := events(cut(in, i), 0); err != nil || !cmp.Equal(got, want) {
			t.Errorf("cut at %d: %q, %v", i, got, err)
		}
	}
}

func TestCase_A15_LongLines(t *testing.T) {
	for _, size := range []int{70_000, 4 << 20} {
		data := strings.Repeat("a", size)
		got, err := events(strings.NewReader("data: "+data+"\n\ndata: b\n\n"), 0)
		if err != nil || len(got) != 2 || got[0] != "|"+data {
			t.Errorf("%d bytes: %d events, %v", size, len(got), err)
		}
	}
	for why, in := range map[string]string{
		"one line":                 "data: " + strings.Repeat("a", 100) + "\n\n",
		"several lines":            strings.Repeat("data: "+strings.Repeat("a", 30)+"\n", 4) + "\n",
		"a line that never ends":   strings.Repeat("a", 101),
		"a comment of that length": ":" + strings.Repeat("a", 100) + "\n\n",
	} {
		if got, err := events(strings.NewReader(in), 100); !errors.Is(err, sse.ErrTooLong) || len(got) != 0 {
			t.Errorf("%s: %q, %v, want %v", why, got, err, sse.ErrTooLong)
		}
	}
}

// What has come of an event when the connection breaks is not an event.
func TestBrokenConnection(t *testing.T) {
	broken := errors.New("reset")
	in := io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken))
	if got, err := events(in, 0); !errors.Is(err, broken) || !cmp.Equal(got, []string{"|a"}) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestPeek(t *testing.T) {
	for in, want := range map[string]byte{
		"data: a\n\n": 'd', "\uFEFF\r\n {\"a\":1}": '{', ": hi\n": ':', "": 0, " \n": 0,
	} {
		r := sse.NewReader(iotest.OneByteReader(strings.NewReader(in)), 0)
		if got, ok := r.Peek(); got != want || ok != (want != 0) {
			t.Errorf("%q: %q, %v", in, got, ok)
		}
		if rest, err := io.ReadAll(r.Rest()); err != nil || string(rest) != in {
			t.Errorf("%q: the rest is %q, %v", in, rest, err)
		}
	}
}

// Whatever comes, and however it is cut: the same events, no panic.
func FuzzReader(f *testing.F) {
	f.Add([]byte("data: a\r\n\r\ndata: b\r\rdata: c\n\n"), 3)
	f.Add([]byte("\uFEFF:x\nevent: e\ndata\n\n"), 1)
	f.Fuzz(func(t *testing.T, in []byte, at int) {
		const limit = 64
		at = min(max(at, 0), len(in))
		whole, err := events(bytes.NewReader(in), limit)
		parts, err2 := events(cut(string(in), at), limit)
		single, err3 := events(iotest.OneByteReader(bytes.NewReader(in)), limit)
		if !cmp.Equal(whole, parts) || !cmp.Equal(whole, single) || (err == nil) != (err2 == nil) || (err == nil) != (err3 == nil) {
			t.Errorf("%q cut at %d: %q %v, %q %v, %q %v", in, at, whole, err, parts, err2, single, err3)
		}
		for _, e := range whole {
			if len(e) > 2*limit+1 {
				t.Errorf("an event of %d bytes", len(e))
			}
		}
	})
}
