package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func TestThePageNeedsNoTokenAndMayDoLittle(t *testing.T) {
	w := newWorld(t)
	for path, kind := range map[string]string{
		"/": "text/html; charset=utf-8", "/?token=anything": "text/html; charset=utf-8",
		"/static/app.js": "text/javascript; charset=utf-8", "/static/page.css": "text/css; charset=utf-8",
		"/static/icon.svg": "image/svg+xml",
	} {
		answer, body := fetchPage(t, w.g.Handler(), path)
		if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != kind || body == "" {
			t.Errorf("%s: %d %q", path, answer.StatusCode, answer.Header.Get("Content-Type"))
		}
		policy := answer.Header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy %q lacks %s", path, policy, part)
			}
		}
		if strings.Contains(policy, "unsafe") || answer.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", path, answer.Header)
		}
	}
}

func TestThePageIsAskedForAgainOnlyIfItChanged(t *testing.T) {
	w := newWorld(t)
	answer, _ := fetchPage(t, w.g.Handler(), "/static/app.js")
	again, body := fetchPage(t, w.g.Handler(), "/static/app.js", header("If-None-Match", answer.Header.Get("ETag")))
	if again.StatusCode != http.StatusNotModified || body != "" {
		t.Errorf("%d with %d bytes", again.StatusCode, len(body))
	}
}

func TestThePageIsServedToItsOwnNameOnly(t *testing.T) {
	w := newWorld(t)
	for _, change := range []func(*http.Request){
		func(r *http.Request) { r.Host = "evil.example" },
		header("Origin", "https://evil.example"),
	} {
		if answer, _ := fetchPage(t, w.g.Handler(), "/", change); answer.StatusCode != http.StatusForbidden {
			t.Errorf("answered %d", answer.StatusCode)
		}
	}
	for _, path := range []string{"/static/", "/static/none.js", "/static/web.go", "/index.html"} {
		if answer, _ := fetchPage(t, w.g.Handler(), path); answer.StatusCode < 400 {
			t.Errorf("%s: %d", path, answer.StatusCode)
		}
	}
}

// What the page names must be there, and nothing in it may be in place.
func TestThePageIsWhole(t *testing.T) {
	w := newWorld(t)
	seen := map[string]bool{}
	named := regexp.MustCompile(`(?:(?:href|src)="|from "\.)(/[^"#]*)"`)
	next := []string{"/"}
	for len(next) > 0 {
		path := next[0]
		next = next[1:]
		if seen[path] {
			continue
		}
		seen[path] = true
		answer, body := fetchPage(t, w.g.Handler(), path)
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, answer.StatusCode)
		}
		for _, m := range named.FindAllStringSubmatch(body, -1) {
			target := m[1]
			if strings.HasPrefix(m[0], "from") {
				target = "/static" + target
			}
			next = append(next, target)
		}
		for _, bad := range []string{"<style", " style=", " onclick=", "innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "https://cdn"} {
			if strings.Contains(body, bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
	}
	if len(seen) < 15 {
		t.Errorf("only %v are reached", seen)
	}
}

// fetchPage asks without a token.
func fetchPage(t *testing.T, h http.Handler, path string, changes ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Host = "localhost:7300"
	for _, change := range changes {
		change(r)
	}
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, r)
	answer := recorder.Result()
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}
