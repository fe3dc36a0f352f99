package openai_test

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"braid/llm"
	"braid/llm/openai"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reply is an answer as it is on the wire.
type reply struct {
	status int
	header http.Header
	body   string
	// cut: the connection breaks at the end of the body.
	cut bool
	// hold: after the body the server says nothing more, until the client leaves.
	hold bool
	// splits are where the body is cut into parts that are sent one by one.
	splits []int
}

// events is a plain answer of these bytes.
func events(body string) reply {
	return reply{status: 200, header: http.Header{"Content-Type": {"text/event-stream"}}, body: body}
}

// data is an answer of an event for each line.
func data(lines ...string) reply {
	body := ""
	for _, l := range lines {
		body += "data: " + l + "\n\n"
	}
	return events(body)
}

// capture reads what a real server sent, as curl -i shows it.
func capture(t testing.TB, name string) reply {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	head, body, ok := strings.Cut(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n\n")
	if !ok {
		t.Fatalf("%s has no body", name)
	}
	r := reply{header: http.Header{}}
	lines := strings.Split(head, "\n")
	if r.status, err = strconv.Atoi(strings.Fields(lines[0])[1]); err != nil {
		t.Fatal(err)
	}
	for _, l := range lines[1:] {
		name, value, _ := strings.Cut(l, ": ")
		switch name {
		case "Content-Type", "Retry-After":
			r.header.Set(name, value)
		}
	}
	r.body, _, r.cut = strings.Cut(body, "curl: (18)")
	return r
}

// write sends the answer.
func (r reply) write(w http.ResponseWriter, req *http.Request) {
	maps.Copy(w.Header(), r.header)
	w.WriteHeader(r.status)
	flusher, _ := w.(http.Flusher)
	at := 0
	for _, end := range append(r.splits, len(r.body)) {
		_, _ = io.WriteString(w, r.body[at:end])
		flusher.Flush()
		at = end
	}
	if r.hold {
		<-req.Context().Done()
	}
	if r.cut {
		panic(http.ErrAbortHandler)
	}
}

// server is a server that keeps what it is asked.
type server struct {
	*httptest.Server

	replies  []reply // in turn; the last one for all further requests
	requests []*http.Request
	bodies   []string
}

func serve(t testing.TB, replies ...reply) *server {
	t.Helper()
	s := &server{replies: replies}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		s.requests, s.bodies = append(s.requests, r), append(s.bodies, body.String())
		next := s.replies[0]
		if len(s.replies) > 1 {
			s.replies = s.replies[1:]
		}
		next.write(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// model opens the server's model "m" of the provider "p".
func (s *server) model(t testing.TB, changes ...func(*openai.Config)) llm.Model {
	t.Helper()
	c := openai.Config{Name: "p", BaseURL: s.URL + "/v1", APIKey: "sk-very-secret-key"}
	for _, change := range changes {
		change(&c)
	}
	p, err := openai.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	m, err := p.Model("m")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
