package client_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
)

// faults is what goes wrong between a client and its gateway.
type faults struct {
	// lose reports that the answer to a request, which the gateway has served, is lost.
	lose func(*http.Request) bool
	// cut is after how many bytes a stream's connection is cut; nil, or 0: never.
	cut func() int

	requests atomic.Int64
}

// proxy stands before a gateway until the test ends, and returns its URL.
func (f *faults) proxy(t *testing.T, gateway string) string {
	t.Helper()
	target, err := url.Parse(gateway)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ModifyResponse: func(r *http.Response) error {
			if f.cut != nil && r.Header.Get("Content-Type") == "text/event-stream" {
				if n := f.cut(); n > 0 {
					r.Body = &cutBody{r.Body, n}
				}
			}
			return nil
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		if f.lose != nil && f.lose(r) {
			forward.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { server.Close(); transport.CloseIdleConnections() })
	return server.URL
}

// cutBody breaks off after so many bytes.
type cutBody struct {
	io.ReadCloser
	rest int
}

func (c *cutBody) Read(b []byte) (int, error) {
	if c.rest == 0 {
		return 0, io.EOF
	}
	n, err := c.ReadCloser.Read(b[:min(len(b), c.rest)])
	c.rest -= n
	return n, err
}

// typeOf is the type of an answer, by how it begins.
func typeOf(body []byte) string {
	switch {
	case bytes.HasPrefix(body, []byte("{")):
		return "application/json"
	case bytes.HasPrefix(body, []byte("id:")), bytes.HasPrefix(body, []byte("event:")), bytes.HasPrefix(body, []byte(":")):
		return "text/event-stream"
	}
	return "text/html; charset=utf-8"
}

// answers is a server that gives each request the next of some answers, the last one for ever.
func answers(t *testing.T, all ...string) (url string, asked *[]string) {
	t.Helper()
	asked = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := all[min(len(*asked), len(all)-1)]
		*asked = append(*asked, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Last-Event-ID"))
		status, body, _ := bytes.Cut([]byte(answer), []byte("\n"))
		w.Header().Set("Content-Type", typeOf(body))
		if string(status) != "200" {
			w.WriteHeader(map[string]int{"201": 201, "302": 302, "404": 404, "409": 409, "502": 502}[string(status)])
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}
