package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"

	"braid/schemas"
)

// apiClient speaks to a gateway as it stands, to ask what no client would.
type apiClient struct {
	base  string
	token string
	http  *http.Client
}

func newAPI(base, token string) *apiClient {
	return &apiClient{base: base, token: token, http: &http.Client{Transport: &http.Transport{}}}
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
