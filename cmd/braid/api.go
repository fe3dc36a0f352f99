package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"braid/internal/cli"
	"braid/schemas"
)

// serverFlags name a running gateway.
type serverFlags struct {
	url   string
	token string
}

func (f *serverFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "server", "", "URL of a running gateway, as braid dev prints it")
	flags.StringVar(&f.token, "token", "", "its token, unless the URL has one; better given as env "+cli.EnvName("token")+", since others see command lines")
}

// api returns a client of the server; nil if none was named.
func (f *serverFlags) api() *apiClient {
	target, token := f.url, f.token
	if target == "" {
		return nil
	}
	if u, err := url.Parse(target); err == nil {
		token = cmp.Or(u.Query().Get("token"), token)
		u.RawQuery, u.Path = "", strings.TrimSuffix(u.Path, "/")
		target = u.String()
	}
	return newAPI(target, token)
}

// apiClient speaks to a gateway over HTTP.
type apiClient struct {
	base  string
	token string
	http  *http.Client
}

// newAPI makes a client. Streams live long, so only silence is bounded: connecting, and the
// wait for an answer's head.
func newAPI(base, token string) *apiClient {
	return &apiClient{base: base, token: token, http: &http.Client{Transport: &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		ResponseHeaderTimeout: 30 * time.Second,
	}}}
}

func (a *apiClient) close() { a.http.CloseIdleConnections() }

// do sends a request; any answer but a success is an error, an *[schemas.Error] when the gateway
// sent one.
func (a *apiClient) do(ctx context.Context, method, path string, body any, header http.Header) (*http.Response, error) {
	if body == nil {
		return a.send(ctx, method, path, nil, header)
	}
	encoded, err := schemas.EncodeJSON(body)
	if err != nil {
		return nil, err
	}
	header = header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", "application/json")
	return a.send(ctx, method, path, bytes.NewReader(encoded), header)
}

// send is do with a body as it goes over the wire.
func (a *apiClient) send(ctx context.Context, method, path string, payload io.Reader, header http.Header) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, a.base+path, payload)
	if err != nil {
		return nil, err
	}
	maps.Copy(request.Header, header)
	request.Header.Set("Authorization", "Bearer "+a.token)
	response, err := a.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < 300 {
		return response, nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", response.Status, err)
	}
	var failure struct {
		Error *schemas.Error `json:"error"`
	}
	if err := schemas.DecodeJSON(text, &failure); err == nil && failure.Error != nil {
		return nil, failure.Error
	}
	return nil, fmt.Errorf("the server answered %s", response.Status)
}

// call posts body and reads the answer into out, which may be nil.
func (a *apiClient) call(ctx context.Context, path string, body, out any) error {
	response, err := a.do(ctx, http.MethodPost, path, body, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || out == nil {
		return err
	}
	return schemas.DecodeJSON(text, out)
}

// copy writes the answer to a GET to w.
func (a *apiClient) copy(ctx context.Context, path string, w io.Writer) error {
	response, err := a.do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(w, response.Body)
	return err
}

// event is one server-sent event; name is empty for a message.
type event struct {
	name, id string
	data     []byte
}

// Reconnecting after a stream broke.
const (
	reconnectPause = 300 * time.Millisecond
	reconnectTries = 100 // in a row without an event
)

// errStop ends a stream from its handler.
var errStop = errors.New("stop")

// follow streams the events of a session's stream, named by its path, to take, from after a cursor
// on, through broken connections, until take returns an error; errStop means a good end.
func (a *apiClient) follow(ctx context.Context, path, cursor string, take func(event) error) error {
	for tries := 0; ; tries++ {
		err := a.followOnce(ctx, path, cursor, func(e event) error {
			tries = 0
			if e.id != "" {
				cursor = e.id
			}
			return take(e)
		})
		var refused *schemas.Error
		switch {
		case errors.Is(err, errStop):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &refused) && refused.Code != schemas.CodeUnavailable, tries >= reconnectTries:
			return err
		}
		if handler, ok := errors.AsType[*handlerError](err); ok {
			return handler.err
		}
		select {
		case <-time.After(reconnectPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// handlerError tells an error of the handler from one of the connection.
type handlerError struct{ err error }

func (e *handlerError) Error() string { return e.err.Error() }
func (e *handlerError) Unwrap() error { return e.err }

func (a *apiClient) followOnce(ctx context.Context, path, cursor string, take func(event) error) error {
	header := http.Header{"Accept": {"text/event-stream"}}
	if cursor != "" {
		header.Set("Last-Event-ID", cursor)
	}
	response, err := a.do(ctx, http.MethodGet, path, nil, header)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return readEvents(response.Body, take)
}

// readEvents parses an event stream (WHATWG HTML, section 9.2.6) as the gateway writes it: one
// data line an event.
func readEvents(r io.Reader, take func(event) error) error {
	lines := bufio.NewReader(r)
	var e event
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		line = strings.TrimRight(line, "\r\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if e.data != nil {
				if err := take(e); err != nil {
					return &handlerError{err}
				}
			}
			e = event{}
		case name == "event":
			e.name = value
		case name == "id":
			e.id = value
		case name == "data":
			e.data = []byte(value)
		}
	}
}
