package gateway

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
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
