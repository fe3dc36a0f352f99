package systemtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"braid/schemas"
)

// api is a client of the HTTP API that tries again while the gateway is away. That is safe, since
// every request has an idempotency key.
type api struct {
	t    testing.TB
	base string
	auth string
	http *http.Client
}

func newAPI(t testing.TB, base, token string) *api {
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &api{t: t, base: base, auth: "Bearer " + token, http: &http.Client{Transport: transport}}
}

// reply is an answer.
type reply struct {
	status int
	body   []byte
}

// accepted is the body of a 201 or 202.
type accepted struct {
	CommandID string `json:"command_id"`
	Cursor    string `json:"cursor"`
}

func (r reply) accepted(t testing.TB) accepted {
	t.Helper()
	var a accepted
	if r.status >= 300 {
		t.Fatalf("refused: %d %s", r.status, r.body)
	}
	if err := schemas.DecodeJSON(r.body, &a); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
	return a
}

// once sends a request and does not repeat it.
func (a *api) once(ctx context.Context, method, path, key string, body any) (reply, error) {
	payload, err := schemas.EncodeJSON(body)
	if err != nil {
		return reply{}, err
	}
	request, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(payload))
	if err != nil {
		return reply{}, err
	}
	request.Header.Set("Authorization", a.auth)
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := a.http.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, text}, err
}

// post sends a request until it is answered.
func (a *api) post(path, key string, body any) reply {
	a.t.Helper()
	r, err := a.try(path, key, body)
	if err != nil {
		a.t.Fatalf("POST %s: %v", path, err)
	}
	return r
}

func (a *api) try(path, key string, body any) (reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		r, err := a.once(ctx, http.MethodPost, path, key, body)
		if err == nil && r.status != http.StatusServiceUnavailable {
			return r, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return r, fmt.Errorf("given up after %s: %w; last answer %d %s", patience, err, r.status, r.body)
		}
	}
}
