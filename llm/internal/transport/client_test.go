package transport

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"braid/llm"
	"braid/schemas"
)

const secret = "sk-live/very+secret"

// serve returns a server and a client of it.
func serve(t *testing.T, handler http.HandlerFunc, o Options) (*Client, Request) {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return client(t, o), Request{URL: s.URL + "/chat?key=" + "sk-live%2Fvery%2Bsecret", Header: http.Header{"Authorization": {"Bearer " + secret}}, Body: []byte("{}")}
}

func client(t *testing.T, o Options) *Client {
	t.Helper()
	o.Provider, o.Secrets = "p", []string{secret, "ab"}
	c := New(o)
	t.Cleanup(c.Close)
	return c
}

// outcome is the outcome of a request that fails.
func outcome(t *testing.T, ctx context.Context, c *Client, r Request) llm.Outcome {
	t.Helper()
	response, err := c.Post(ctx, r)
	if err == nil {
		defer response.Close()
		_, err = io.ReadAll(response.body)
	}
	if err == nil {
		t.Fatal("the request went well")
	}
	o := c.Outcome(ctx, err)
	if strings.Contains(o.Error.Message, "very") || strings.Contains(err.Error(), "very") {
		t.Errorf("the secret shows: %s; %v", o.Error.Message, err)
	}
	return o
}

func TestStatuses(t *testing.T) {
	for why, c := range map[string]struct {
		status int
		body   string
		want   schemas.StopReason
		kind   string
		retry  bool
		says   string
	}{
		"401":                        {401, `{"error":{"message":"Incorrect API key provided: ` + secret + `"}}`, schemas.StopAuth, llm.KindProvider, false, "does not accept the credentials (401): Incorrect API key provided: [redacted]"},
		"403":                        {403, `{"error":"no"}`, schemas.StopAuth, llm.KindProvider, false, "credentials (403): no"},
		"403 for a quota":            {403, `{"error":{"message":"Quota exceeded for project"}}`, schemas.StopFailed, llm.KindProvider, true, "busy or its limit is reached (403)"},
		"403 for what was asked":     {403, `{"error":{"message":"your input was flagged","metadata":{"raw":"violence"}}}`, schemas.StopFailed, llm.KindInput, false, "flagged: violence"},
		"402":                        {402, `{"detail":"insufficient balance"}`, schemas.StopFailed, llm.KindProvider, false, "paid first (402): insufficient balance"},
		"400":                        {400, `{"error":{"message":"bad tool","code":"invalid_request"}}`, schemas.StopFailed, llm.KindInput, false, "refuses the request (400): bad tool"},
		"400 for length":             {400, `{"error":{"message":"This model's maximum context length is 8192 tokens"}}`, schemas.StopFailed, llm.KindContext, false, "longer than the model takes (400)"},
		"400 for the key":            {400, `[{"error":{"code":400,"message":"API key not valid."}}]`, schemas.StopAuth, llm.KindProvider, false, "credentials (400)"},
		"404":                        {404, `{"error":{"message":"model m not found"}}`, schemas.StopFailed, llm.KindInput, false, "no such model or address (404): model m not found"},
		"408":                        {408, ``, schemas.StopFailed, llm.KindProvider, true, "failed (408)"},
		"409":                        {409, ``, schemas.StopFailed, llm.KindProvider, true, "failed (409)"},
		"413":                        {413, ``, schemas.StopFailed, llm.KindContext, false, "longer than the model takes (413)"},
		"422":                        {422, `{"detail":[{"msg":"field required"}]}`, schemas.StopFailed, llm.KindInput, false, "field required"},
		"425":                        {425, ``, schemas.StopFailed, llm.KindProvider, true, "failed (425)"},
		"429":                        {429, `slow down`, schemas.StopFailed, llm.KindProvider, true, "(429): slow down"},
		"500":                        {500, `<html><title>Oops ` + secret + `</title><body>long</body></html>`, schemas.StopFailed, llm.KindProvider, true, "failed (500): Oops [redacted]"},
		"502 without a title":        {502, `<html>`, schemas.StopFailed, llm.KindProvider, true, "a page instead of an answer"},
		"503":                        {503, `{"message":"m","error":"e"}`, schemas.StopFailed, llm.KindProvider, true, "(503): m"},
		"529":                        {529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, schemas.StopFailed, llm.KindProvider, true, "busy or its limit is reached (529): Overloaded"},
		"a body beyond all bounds":   {500, strings.Repeat("x", 1<<20), schemas.StopFailed, llm.KindProvider, true, "xxx..."},
		"a body of no text":          {500, "\x00\xff\n", schemas.StopFailed, llm.KindProvider, true, "failed (500): \uFFFD"},
		"the secret in another form": {500, "at /chat?key=sk-live%2Fvery%2Bsecret&a=1 with Bearer eyJhbGciOi.J9", schemas.StopFailed, llm.KindProvider, true, "at /chat?key=[redacted]&a=1 with [redacted]"},
		"somebody else's key":        {500, "sk-proj-abcdefghijklmnop", schemas.StopFailed, llm.KindProvider, true, "failed (500): [redacted]"},
	} {
		t.Run(why, func(t *testing.T) {
			client, r := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}, Options{})
			o := outcome(t, t.Context(), client, r)
			e := o.Error
			if o.Status != c.want || e.Kind != c.kind || e.Retryable != c.retry || e.StatusCode != c.status || e.Provider != "p" {
				t.Errorf("%s, %+v", o.Status, e)
			}
			if !strings.Contains(e.Message, c.says) || len(e.Message) > 1200 {
				t.Errorf("%q, want %q", e.Message, c.says)
			}
		})
	}
}

func TestCase_A31_RetryAfter(t *testing.T) {
	now := func() time.Time { return time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC) }
	for why, c := range map[string]struct {
		name, value string
		want        time.Duration
	}{
		"seconds":        {"Retry-After", "7", 7 * time.Second},
		"a fraction":     {"Retry-After", " 0.5 ", time.Second / 2},
		"a date":         {"Retry-After", "Wed, 01 Jan 2031 00:00:10 GMT", 10 * time.Second},
		"a date gone by": {"Retry-After", "Wed, 01 Jan 2025 00:00:10 GMT", 0},
		"garbage":        {"Retry-After", "garbage", 0},
		"milliseconds":   {"retry-after-ms", "1500", 1500 * time.Millisecond},
		"backwards":      {"Retry-After", "-3", 0},
		"for ever":       {"Retry-After", "1e300", 24 * time.Hour},
		"no number":      {"Retry-After", "NaN", 0},
		"nothing":        {"X", "", 0},
	} {
		client, r := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(c.name, c.value)
			w.WriteHeader(http.StatusTooManyRequests)
		}, Options{Now: now})
		if o := outcome(t, t.Context(), client, r); o.Error.RetryAfter != c.want {
			t.Errorf("%s: %s, want %s", why, o.Error.RetryAfter, c.want)
		}
	}
}

// A redirect is not followed: the key would go with it.
func TestRedirects(t *testing.T) {
	reached := false
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer thief.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		client, r := serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, thief.URL+"/?key="+secret, status)
		}, Options{})
		o := outcome(t, t.Context(), client, r)
		if o.Error.Kind != llm.KindInput || !strings.Contains(o.Error.Message, "it leads to "+thief.URL+", and redirects are not followed") {
			t.Errorf("%d: %+v", status, o.Error)
		}
	}
	if reached {
		t.Error("a redirect was followed")
	}
}

func TestConnectionFails(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	gone := s.URL
	s.Close()
	c := client(t, Options{})
	for why, url := range map[string]string{"nobody listens": gone + "/?key=" + secret, "no such host": "http://nowhere.invalid/?key=" + secret} {
		o := outcome(t, t.Context(), c, Request{URL: url})
		if o.Status != schemas.StopFailed || !o.Error.Retryable || o.Error.Provider != "" || !strings.Contains(o.Error.Message, "can't be reached") {
			t.Errorf("%s: %s, %+v", why, o.Status, o.Error)
		}
	}
	if o := outcome(t, t.Context(), c, Request{URL: "http://%zz/" + secret}); o.Error.Kind != llm.KindInput {
		t.Errorf("no URL: %+v", o.Error)
	}
	// One that took the request and hung up was reached: the request may have cost something.
	c, r := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Options{})
	if o := outcome(t, t.Context(), c, r); o.Error.Provider != "p" || !strings.Contains(o.Error.Message, "did not answer") {
		t.Errorf("hung up: %s, %+v", o.Status, o.Error)
	}
}

// stalled answers with some bytes, or without any, and then is silent until the client has left.
func stalled(begin string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice that the client leaves
		if begin != "" {
			_, _ = io.WriteString(w, begin)
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	}
}

func TestSilentProvider(t *testing.T) {
	for _, begin := range []string{"", "data: a\n\n"} {
		c, r := serve(t, stalled(begin), Options{Idle: 20 * time.Millisecond})
		o := outcome(t, t.Context(), c, r)
		if o.Status != schemas.StopTimeout || !o.Error.Retryable || o.Error.Message != "the provider said nothing for 20ms" {
			t.Errorf("after %q: %s, %+v", begin, o.Status, o.Error)
		}
	}
}

func TestCallerLeaves(t *testing.T) {
	for _, begin := range []string{"", "data: a\n\n"} {
		c, r := serve(t, stalled(begin), Options{})
		why := errors.New("somebody pressed stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
		if o := outcome(t, ctx, c, r); o.Status != schemas.StopAborted || !errors.Is(o.Error, why) {
			t.Errorf("after %q: %s, %v", begin, o.Status, o.Error)
		}
		ctx, late := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if o := outcome(t, ctx, c, r); o.Status != schemas.StopTimeout {
			t.Errorf("after %q: %s, %v", begin, o.Status, o.Error)
		}
		late()
	}
}

// Every byte is a sign of life, also one that says nothing.
func TestAlive(t *testing.T) {
	c, r := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, ": ping\n\n") }, Options{})
	alive := 0
	r.Alive = func() { alive++ }
	response, err := c.Post(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Close()
	if _, err := response.Events().Next(); !errors.Is(err, io.EOF) || alive == 0 {
		t.Errorf("%v, %d signs of life", err, alive)
	}
}

func TestHurry(t *testing.T) {
	c, r := serve(t, stalled("data: a\n\n"), Options{})
	response, err := c.Post(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Close()
	events := response.Events()
	if e, err := events.Next(); err != nil || string(e.Data) != "a" {
		t.Fatalf("%q, %v", e.Data, err)
	}
	response.Hurry(10 * time.Millisecond)
	response.Hurry(time.Hour)
	if _, err := events.Next(); !errors.Is(err, ErrHurried) {
		t.Errorf("%v", err)
	}
}

// A connection whose answer was read is used again, unless the last bytes were too slow to come.
func TestConnectionsAreReused(t *testing.T) {
	const most = 100
	from := map[string]bool{}
	requests := 0
	read := make(chan struct{}, 1)
	c, r := serve(t, func(w http.ResponseWriter, r *http.Request) {
		from[r.RemoteAddr] = true
		_, _ = io.WriteString(w, "data: a\n\n")
		w.(http.Flusher).Flush()
		<-read
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}, Options{})
	for ; requests == len(from) && requests < most; requests++ {
		response, err := c.Post(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := response.Events().Next(); err != nil {
			t.Fatal(err)
		}
		read <- struct{}{}
		response.Done()
	}
	if requests == most {
		t.Errorf("%d requests took %d connections", requests, len(from))
	}
}

func TestHTTP2(t *testing.T) {
	proto := ""
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proto = r.Proto
		_, _ = io.WriteString(w, "data: a\n\n")
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	c := client(t, Options{})
	// An authority nobody knows is refused.
	if o := outcome(t, t.Context(), c, Request{URL: s.URL}); o.Status != schemas.StopFailed || !strings.Contains(o.Error.Message, "certificate") {
		t.Errorf("%s, %+v", o.Status, o.Error)
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	c = client(t, Options{})
	c.pool.TLSClientConfig.RootCAs = roots
	response, err := c.Post(t.Context(), Request{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Close()
	if e, err := response.Events().Next(); err != nil || string(e.Data) != "a" || proto != "HTTP/2.0" {
		t.Errorf("%q, %v, %s", e.Data, err, proto)
	}
}

func FuzzParseDetail(f *testing.F) {
	for _, s := range []string{`{"error":{"message":"m","code":429}}`, `[{"error":"x"}]`, `<title>x`, `{"error":{"error":{"error":1}}}`, ``} {
		f.Add([]byte(s))
	}
	c := New(Options{Provider: "p", Secrets: []string{secret}})
	f.Fuzz(func(t *testing.T, body []byte) {
		o := c.Refused(0, ParseDetail(append(body, secret...)))
		if o.Error == nil || o.Status == "" || o.Status == schemas.StopCompleted || strings.Contains(o.Error.Message, secret) {
			t.Errorf("%q: %s, %+v", body, o.Status, o.Error)
		}
	})
}
