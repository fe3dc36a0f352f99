package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"braid/schemas"
)

// DefaultIdle is how long a provider may be silent unless Options say otherwise. Sessions have
// stricter limits of their own; this one is for everybody else.
const DefaultIdle = 10 * time.Minute

const (
	connectWithin = 15 * time.Second
	// maxErrorBody is how much of an error's body is read, in bytes.
	maxErrorBody = 64 << 10
	userAgent    = "braid"
)

// Options say how to reach a provider.
type Options struct {
	// Provider is the provider's name in errors.
	Provider string
	// Secrets never show in an error, whoever repeats them.
	Secrets []string
	// Idle is how long the provider may be silent; 0 is [DefaultIdle].
	Idle time.Duration
	// Now tells the time, for dates in headers; nil is time.Now.
	Now func() time.Time
}

// Client sends requests to one provider. It is safe for concurrent use.
type Client struct {
	provider string
	redact   redactor
	idle     time.Duration
	now      func() time.Time
	http     *http.Client
	pool     *http.Transport
}

// New returns a client. Proxies come from the environment (HTTPS_PROXY, HTTP_PROXY, NO_PROXY).
func New(o Options) *Client {
	pool := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: connectWithin, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: connectWithin,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:   true,
		// A connection that died without a word is noticed although only the provider speaks.
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		MaxIdleConnsPerHost: 32,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true, // what compresses a stream also holds it back
	}
	c := &Client{
		provider: o.Provider, redact: newRedactor(o.Secrets), idle: o.Idle, now: o.Now, pool: pool,
		http: &http.Client{
			Transport:     pool,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if c.idle <= 0 {
		c.idle = DefaultIdle
	}
	if c.now == nil {
		c.now = time.Now
	}
	return c
}

// Close closes idle connections. Requests that run are not touched.
func (c *Client) Close() { c.pool.CloseIdleConnections() }

// Request is one request.
type Request struct {
	URL    string
	Header http.Header
	// Body is sent as JSON.
	Body []byte
	// Alive, if set, is called whenever bytes come from the provider.
	Alive func()
}

// silentError is why a request was ended whose provider fell silent.
type silentError struct{ after time.Duration }

func (e *silentError) Error() string { return fmt.Sprintf("the provider was silent for %s", e.after) }

// Is makes it a deadline.
func (e *silentError) Is(target error) bool { return target == context.DeadlineExceeded }

// connectionError is a request that got no answer.
type connectionError struct {
	err     error
	reached bool // the provider, in that the request was written
}

func (e *connectionError) Error() string { return e.err.Error() }
func (e *connectionError) Unwrap() error { return e.err }

// Post sends the request and returns its answer if its status is 2xx; the caller closes it. Any
// error is one for [Client.Outcome].
func (c *Client) Post(ctx context.Context, r Request) (*Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	watch := newWatch(c.idle, cancel)
	response, err := c.post(ctx, r, watch)
	if err != nil {
		watch.stop()
		cancel(nil)
		return nil, err
	}
	return response, nil
}

func (c *Client) post(ctx context.Context, r Request, w *watch) (*Response, error) {
	tracked, written := traced(ctx)
	req, err := http.NewRequestWithContext(tracked, http.MethodPost, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Message: "the request's URL is invalid"} // which may hold a key
	}
	maps.Copy(req.Header, r.Header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", userAgent)
	}
	w.start()
	answer, err := c.http.Do(req) //nolint:bodyclose // Response.Close closes it
	w.pause()
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &connectionError{err: withoutURL(err), reached: written.Load()}
	}
	body := &body{ctx: ctx, in: answer.Body, watch: w, alive: r.Alive}
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		defer body.close()
		text, _ := io.ReadAll(io.LimitReader(body, maxErrorBody)) // what came of it will do
		if ctx.Err() != nil && len(text) == 0 {
			return nil, context.Cause(ctx)
		}
		return nil, &StatusError{
			Status: answer.StatusCode, Detail: ParseDetail(text), RetryAfter: c.retryAfter(answer.Header),
			Location: hostOf(answer.Header.Get("Location")),
		}
	}
	return &Response{Header: answer.Header, body: body, watch: w}, nil
}

// withoutURL is what went wrong without where: a URL may hold a key in its query.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// traced returns a context that notes whether the request has been written.
func traced(ctx context.Context) (context.Context, *atomic.Bool) {
	var written atomic.Bool
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(i httptrace.WroteRequestInfo) { written.Store(i.Err == nil) },
	}), &written
}
