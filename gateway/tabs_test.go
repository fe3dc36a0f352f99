package gateway

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"braid/bus"
	"braid/schemas"
)

// A browser opens six connections to an origin over HTTP/1.1, so that the seventh stream waits, and a
// command behind it, without an error. Behind a proxy that offers HTTP/2 one connection carries them
// all, as long as the gateway does nothing that a proxy, or HTTP/2, can't pass on.
func TestCase_C12_SevenTabsShareAConnection(t *testing.T) {
	w := newWorld(t)
	w.create("s")
	target, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
	proxy.EnableHTTP2 = true
	proxy.StartTLS()
	t.Cleanup(proxy.Close)
	browser := proxy.Client()
	browser.Transport.(*http.Transport).MaxConnsPerHost = 1

	send := func(method, path, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(testContext(t), method, proxy.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if method == http.MethodPost {
			r.Header.Set("Authorization", "Bearer "+testToken)
			r.Header.Set("Content-Type", "application/json")
		}
		response, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		if response.ProtoMajor != 2 || response.StatusCode >= 300 {
			t.Fatalf("%s %s: %s %s", method, path, response.Proto, response.Status)
		}
		return response
	}
	var tabs []*bufio.Scanner
	for range 7 {
		tabs = append(tabs, bufio.NewScanner(send(http.MethodGet, "/v1/sessions/s/stream?token="+testToken, "").Body))
	}
	send(http.MethodPost, "/v1/sessions/s/tasks", `{"prompt":"hello"}`)
	w.engine.session("s").speak(1)
	for i, tab := range tabs {
		for found := false; !found; found = strings.Contains(tab.Text(), `"partial_text"`) {
			if !tab.Scan() {
				t.Fatalf("tab %d: %v", i, tab.Err())
			}
		}
	}
}

// A client that has the beginning of an answer may act at once: it sees everything that follows, also what
// was said in that very moment.
func TestNothingIsMissedBehindTheBeginningOfAnAnswer(t *testing.T) {
	h := &hub{epoch: "e", done: make(chan struct{})}
	h.mu.ring.limit = 1 << 20
	h.mu.changed = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said := false
	client := &begun{discard: discard{http.Header{}}}
	client.flushed = func() {
		if !said {
			said = true
			m := schemas.New(time.Now(), schemas.TextFragment(schemas.PhaseDelta, "at once"))
			if err := h.push(bus.Frame{Sequence: 1, Messages: []schemas.Message{m}}); err != nil {
				t.Error(err)
			}
			return
		}
		cancel() // whatever else it was that came
	}
	w := &watcher{hub: h, out: &eventWriter{w: client, control: http.NewResponseController(client), timeout: time.Second}}
	_ = w.run(ctx, schemas.Cursor{}, time.Minute)
	if got := client.written.String(); !strings.Contains(got, "at once") {
		t.Errorf("the client was told only\n%s", got)
	}
}

// begun is a client that does something when bytes reach it.
type begun struct {
	discard
	written bytes.Buffer
	flushed func()
}

func (b *begun) Write(p []byte) (int, error) { return b.written.Write(p) }

func (b *begun) FlushError() error {
	b.flushed()
	return nil
}
