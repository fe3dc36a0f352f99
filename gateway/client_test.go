package gateway

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"braid/bus"
	"braid/bus/bustest"
	"braid/schemas"
)

const testToken = "open-sesame"

// world is a broker, an engine's double and a gateway that listens.
type world struct {
	t      testing.TB
	broker *bustest.Broker
	conn   *bus.Conn
	engine *double
	*served
}

// served is a gateway that listens on loopback.
type served struct {
	t    testing.TB
	g    *Gateway
	url  string
	end  context.CancelFunc
	done chan error
}

// newWorld starts one. The test runs in parallel with others: most of its time it waits.
func newWorld(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	if p, ok := t.(*testing.T); ok {
		p.Parallel()
	}
	broker := bustest.Single(t)
	conn := broker.Conn(t)
	w := &world{t: t, broker: broker, conn: conn, engine: startDouble(t, conn)}
	w.served = serve(t, broker.Conn(t), change...)
	return w
}

// serve starts a gateway on a free port. It is stopped at the end of the test, or by stop.
func serve(t testing.TB, conn *bus.Conn, change ...func(*Options)) *served {
	t.Helper()
	o := Options{
		Conn: conn, Token: testToken, Log: zerolog.Nop(), CommandWait: testTime, QueryWait: testTime,
		WriteTimeout: testTime, Patience: testTime, ShutdownWait: testTime,
	}
	for _, c := range change {
		c(&o)
	}
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &served{t: t, g: g, url: "http://" + l.Addr().String(), end: cancel, done: make(chan error, 1)}
	go func() { s.done <- g.Serve(ctx, l) }() // ends with cancel; stop waits
	t.Cleanup(func() { s.stop() })
	return s
}

// stop ends the gateway and waits for it.
func (s *served) stop() {
	s.end()
	if err, ok := <-s.done; ok {
		close(s.done)
		if err != nil {
			s.t.Errorf("serve: %v", err)
		}
	}
}

// answer is a response that has been read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) decode(t testing.TB, v any) {
	t.Helper()
	if err := schemas.DecodeJSON(a.body, v); err != nil {
		t.Fatalf("answer %d %s: %v", a.status, a.body, err)
	}
}

// problem is what an error answer says.
func (a answer) problem(t testing.TB) schemas.Error {
	t.Helper()
	var e struct {
		Error schemas.Error `json:"error"`
	}
	a.decode(t, &e)
	return e.Error
}

type edit func(*http.Request)

func header(name, value string) edit { return func(r *http.Request) { r.Header.Set(name, value) } }

func newClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (s *served) request(ctx context.Context, method, path, body string, edits ...edit) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+testToken)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, e := range edits {
		e(r)
	}
	return newClient().Do(r)
}

func (s *served) do(method, path, body string, edits ...edit) answer {
	s.t.Helper()
	response, err := s.request(testContext(s.t), method, path, body, edits...)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	a := answer{response.StatusCode, response.Header, read}
	api(s.t).check(s.t, method, path, body, a)
	return a
}

// must is do for a request that has to work.
func (s *served) must(status int, method, path, body string, edits ...edit) answer {
	s.t.Helper()
	a := s.do(method, path, body, edits...)
	if a.status != status {
		s.t.Fatalf("%s %s: %d %s, want %d", method, path, a.status, a.body, status)
	}
	return a
}

func (s *served) create(id string) {
	s.t.Helper()
	s.must(http.StatusCreated, "POST", "/v1/sessions", `{"id":"`+id+`","model":"shell/demo"}`)
}

func (s *served) task(id string) accepted {
	s.t.Helper()
	var a accepted
	s.must(http.StatusAccepted, "POST", "/v1/sessions/"+id+"/tasks", `{"prompt":"go on"}`).decode(s.t, &a)
	return a
}

// event is one server-sent event, or a comment.
type event struct {
	name, id, data string
	comment        bool
}

// line is a message as [owned.seen] has it.
func (e event) line() string { return e.id + " " + e.data }

// events is an open stream.
type events struct {
	t        testing.TB
	path     string
	response *http.Response
	lines    *bufio.Reader
	cancel   context.CancelFunc
}

// openStream opens a stream that has to work. after is a Last-Event-ID, if not empty.
func (s *served) openStream(path, after string, edits ...edit) *events {
	s.t.Helper()
	e, err := s.tryStream(path, after, edits...)
	if err != nil {
		s.t.Fatalf("open %s: %v", path, err)
	}
	if e.response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(e.response.Body)
		s.t.Fatalf("open %s: %d %s", path, e.response.StatusCode, body)
	}
	return e
}

func (s *served) tryStream(path, after string, edits ...edit) (*events, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	if after != "" {
		edits = append(edits, header("Last-Event-ID", after))
	}
	response, err := s.request(ctx, "GET", path, "", edits...)
	if err != nil {
		cancel()
		return nil, err
	}
	e := newEvents(s.t, path, response)
	e.cancel = cancel
	return e, nil
}

func newEvents(t testing.TB, path string, response *http.Response) *events {
	e := &events{t: t, path: path, response: response, lines: bufio.NewReader(response.Body), cancel: func() {}}
	t.Cleanup(e.close)
	return e
}

func (e *events) close() {
	e.cancel()
	e.response.Body.Close()
}

// read returns the next event or comment, or why there is none.
func (e *events) read() (event, error) {
	var out event
	some := false
	for {
		line, err := e.lines.ReadString('\n')
		if err != nil {
			return out, err
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if some {
				return out, nil
			}
			continue
		case name == "":
			out.comment, out.data = true, value
		case name == "event":
			out.name = value
		case name == "id":
			out.id = value
		case name == "data":
			out.data = value
		}
		some = true
	}
}

// next returns the next event; comments are passed over.
func (e *events) next() event {
	e.t.Helper()
	comment := ""
	for {
		got, err := e.read()
		if err != nil {
			e.t.Fatalf("read the stream: %v, last comment %q", err, comment)
		}
		if !got.comment {
			api(e.t).checkEvent(e.t, e.path, got)
			return got
		}
		comment = got.data
	}
}

// expect reads the next event, which has to be of a name.
func (e *events) expect(name string) event {
	e.t.Helper()
	got := e.next()
	if got.name != name {
		e.t.Fatalf("got event %q %s, want %q", got.name, got.data, name)
	}
	return got
}

// take reads n messages, as "id data" lines.
func (e *events) take(n int) []string {
	e.t.Helper()
	lines := make([]string, 0, n)
	for range n {
		lines = append(lines, e.expect("").line())
	}
	return lines
}

// resumed reads n messages and the snapshot of a connection that gave a cursor. The snapshot
// stands where the gateway was: what was stored just now may follow it.
func (e *events) resumed(n int) ([]string, stateView) {
	e.t.Helper()
	var lines []string
	var state *stateView
	for len(lines) < n || state == nil {
		switch got := e.next(); {
		case got.name == "":
			lines = append(lines, got.line())
		case got.name == eventTaskState && state == nil:
			v := e.parseState(got)
			state = &v
		default:
			e.t.Fatalf("got event %q %s", got.name, got.data)
		}
	}
	return lines, *state
}

func (e *events) state() stateView {
	e.t.Helper()
	return e.parseState(e.expect(eventTaskState))
}

func (e *events) parseState(got event) stateView {
	e.t.Helper()
	var v stateView
	if err := schemas.DecodeJSON([]byte(got.data), &v); err != nil {
		e.t.Fatal(err)
	}
	if v.Cursor != got.id {
		e.t.Errorf("the snapshot at %s has the id %s", v.Cursor, got.id)
	}
	return v
}

// waitFor waits until a condition holds.
func waitFor(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	ctx := testContext(t)
	for !condition() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("never came true: %s", what)
		}
	}
}

// logBuffer is a log that tests read after the gateway has ended.
func logBuffer() (*bytes.Buffer, zerolog.Logger) {
	var b bytes.Buffer
	return &b, zerolog.New(zerolog.SyncWriter(&b))
}
