package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A stream may live as long as it likes: nothing bounds it as a whole.
func TestCase_F03_NoTimeoutOverAStream(t *testing.T) {
	a := newAPI("http://localhost", "t")
	if a.http.Timeout != 0 {
		t.Errorf("the client gives up after %s, in the middle of whatever it reads", a.http.Timeout)
	}
}

// A stream that breaks goes on where it broke; what was delivered is not delivered again.
func TestFollowReconnects(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last := r.Header.Get("Last-Event-ID")
		asked = append(asked, last)
		next := len(asked)
		fmt.Fprintf(w, ": hello\n\nid: e-%d.0\ndata: {\"n\":%d}\n\n", next, next)
		if next == 2 {
			fmt.Fprint(w, "id: e-9.0\ndata: {\"cut") // no end: it must not be delivered
		}
	}))
	defer server.Close()
	a := newAPI(server.URL, "t")
	defer a.close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var got []string
	err := a.follow(ctx, "/v1/sessions/s/stream", "e-0.0", func(e event) error {
		got = append(got, string(e.data))
		if len(got) == 3 {
			return errStop
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if s := strings.Join(got, ""); s != `{"n":1}{"n":2}{"n":3}` {
		t.Errorf("got %s", s)
	}
	if s := strings.Join(asked, " "); s != "e-0.0 e-1.0 e-2.0" {
		t.Errorf("asked to go on from %s", s)
	}
}

// A refusal is not tried again: it says what is wrong.
func TestFollowRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":{"code":"unknown_session","message":"there is no session s"}}`)
	}))
	defer server.Close()
	a := newAPI(server.URL, "t")
	defer a.close()
	err := a.follow(context.Background(), "/v1/sessions/s/stream", "", func(event) error { return nil })
	if err == nil || err.Error() != "there is no session s" {
		t.Errorf("got %v", err)
	}
}

// The broken end of a stream is an error, never a clean end.
func TestCase_F06_BrokenStreamIsNoEnd(t *testing.T) {
	broken := errors.New("connection reset")
	r := io.MultiReader(strings.NewReader("data: {}\n\ndata: {\"half"), &failingReader{broken})
	n := 0
	err := readEvents(r, func(event) error { n++; return nil })
	if !errors.Is(err, broken) || n != 1 {
		t.Errorf("%d events, %v", n, err)
	}
	long := strings.Repeat("x", 3<<20)
	err = readEvents(strings.NewReader("data: "+long+"\n\n"), func(e event) error { n += len(e.data); return nil })
	if !errors.Is(err, io.EOF) || n != 1+len(long) {
		t.Errorf("a long line: %d bytes, %v", n, err)
	}
}

type failingReader struct{ err error }

func (f *failingReader) Read([]byte) (int, error) { return 0, f.err }
