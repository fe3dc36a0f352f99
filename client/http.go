package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"braid/schemas"
)

// httpTransport reaches a gateway.
type httpTransport struct {
	base  string
	token string
	http  *http.Client
	// silence is how long an answer that has begun may say nothing; in a stream the gateway says
	// something every 15 s.
	silence time.Duration
	// most is how much of an answer is read, in bytes, and within is how long a request may take, all
	// of it. Neither bounds streams and exports, which are not held in memory.
	most   int64
	within time.Duration
}

const (
	dialTimeout   = 10 * time.Second
	answerTimeout = 40 * time.Second // a gateway waits for engines itself
	maxSilence    = 45 * time.Second
	maxAnswer     = maxEvent        // of a page of messages, which may hold pictures
	maxRequest    = 2 * time.Minute // of a large task on a slow line, too
	maxImport     = 6 * time.Minute // a gateway gives a trace 5 to arrive
)

// HTTP reaches sessions through the gateway at that URL, with its token. The token goes nowhere else:
// redirects are not followed.
func HTTP(base, token string) Transport {
	// Streams live long, so there is no bound on all of a request here: call has one.
	return &httpTransport{base: strings.TrimRight(base, "/"), token: token, silence: maxSilence, most: maxAnswer, within: maxRequest, http: &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
			ForceAttemptHTTP2:     true,
			ResponseHeaderTimeout: answerTimeout,
			IdleConnTimeout:       time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (t *httpTransport) close() { t.http.CloseIdleConnections() }

// route is the request that a command is.
type route struct {
	method, path string
	body         any
}

// approval is a decision's body: the call is in the path.
type approval struct {
	Decision schemas.Decision `json:"decision"`
	Hash     string           `json:"hash,omitzero"`
}

// creation is the body that makes a session.
type creation struct {
	ID string `json:"id"`
	*schemas.CreateBody
}

// routeOf is the request that has the command applied. Its names are checked.
func routeOf(cmd schemas.Command) (route, error) {
	session := "/v1/sessions/" + cmd.Session.ID
	switch cmd.Type {
	case schemas.CommandCreate:
		return route{http.MethodPost, "/v1/sessions", creation{cmd.Session.ID, cmd.Create}}, nil
	case schemas.CommandTask:
		return route{http.MethodPost, session + "/tasks", cmd.Task}, nil
	case schemas.CommandSteer:
		return route{http.MethodPost, session + "/steer", cmd.Task}, nil
	case schemas.CommandApprove:
		body := approval{cmd.Approve.Decision, cmd.Approve.Hash}
		return route{http.MethodPost, session + "/approvals/" + cmd.Approve.ToolCallID, body}, nil
	case schemas.CommandAbort:
		return route{http.MethodPost, session + "/abort", cmd.Abort}, nil
	case schemas.CommandRetryNow:
		return route{http.MethodPost, session + "/retry-now", nil}, nil
	case schemas.CommandSet:
		return route{http.MethodPatch, session, cmd.Set}, nil
	case schemas.CommandWithdraw:
		return route{http.MethodDelete, session + "/tasks/" + cmd.Withdraw.TaskID, nil}, nil
	case schemas.CommandDelete:
		if cmd.Delete.Force {
			session += "?force=true"
		}
		return route{http.MethodDelete, session, nil}, nil
	}
	return route{}, schemas.Errorf(schemas.CodeInvalid, "no request sends a command of type %s", cmd.Type)
}

func (t *httpTransport) send(ctx context.Context, cmd schemas.Command) (accepted, error) {
	r, err := routeOf(cmd)
	if err != nil {
		return accepted{}, err
	}
	header := http.Header{"Idempotency-Key": {cmd.ID}}
	if at := cmd.Caller; at.TraceParent != "" {
		header.Set("Traceparent", at.TraceParent)
		if at.TraceState != "" {
			header.Set("Tracestate", at.TraceState)
		}
	}
	if cmd.Type == schemas.CommandCreate { // its answer describes the session
		return accepted{CommandID: cmd.ID}, t.call(ctx, r, header, nil)
	}
	var a accepted
	return a, t.call(ctx, r, header, &a)
}

// jsonLines is the body of a trace.
type jsonLines []byte

func (t *httpTransport) importTrace(ctx context.Context, cmd schemas.Command, trace []byte) error {
	query := queryOf(map[string]string{
		"id": cmd.Session.ID, "model": cmd.Import.Model, "agent": cmd.Import.Agent, "workspace": cmd.Import.Workspace,
		"approval_mode": string(cmd.Import.ApprovalMode),
	})
	r := route{http.MethodPost, "/v1/sessions/import" + query, jsonLines(trace)}
	return t.callWithin(ctx, max(t.within, maxImport), r, http.Header{"Idempotency-Key": {cmd.ID}}, nil)
}

func (t *httpTransport) info(ctx context.Context, id string) (Info, error) {
	var answer struct {
		Session Info `json:"session"`
	}
	err := t.call(ctx, route{http.MethodGet, "/v1/sessions/" + id, nil}, nil, &answer)
	return answer.Session, err
}

func (t *httpTransport) history(ctx context.Context, id, after string) (historyPage, error) {
	var page historyPage
	path := "/v1/sessions/" + id + "/messages" + queryOf(map[string]string{"after": after})
	return page, t.call(ctx, route{http.MethodGet, path, nil}, nil, &page)
}

func (t *httpTransport) export(ctx context.Context, id string, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	response, err := t.open(ctx, route{http.MethodGet, "/v1/sessions/" + id + "/trace", nil}, nil, mediaLines) //nolint:bodyclose // done closes it
	if err != nil {
		return err
	}
	body, done := t.listen(response.Body, cancel)
	defer done()
	if _, err := io.Copy(w, body); err != nil {
		return fmt.Errorf("read the trace: %w", cmp.Or(ours(ctx), err))
	}
	return nil
}

// queryOf is a query of those values that are not empty, with its question mark.
func queryOf(values map[string]string) string {
	query := url.Values{}
	for name, value := range values {
		if value != "" {
			query.Set(name, value)
		}
	}
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}

// call makes a request and reads its answer into out, which may be nil.
func (t *httpTransport) call(ctx context.Context, r route, header http.Header, out any) error {
	return t.callWithin(ctx, t.within, r, header, out)
}

// callWithin is call of a request that may take as long as is said.
func (t *httpTransport) callWithin(ctx context.Context, within time.Duration, r route, header http.Header, out any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, unavailable("the server has not answered within %s", within))
	defer cancel()
	response, err := t.open(ctx, r, header, mediaJSON)
	if err != nil {
		return cmp.Or(ours(ctx), err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, t.most+1))
	switch {
	case err != nil:
		return fmt.Errorf("read the answer: %w", cmp.Or(ours(ctx), err))
	case int64(len(text)) > t.most:
		return schemas.Errorf(schemas.CodeTooLarge, "the answer to %s has more than %d bytes", r.path, t.most)
	}
	if out == nil || response.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := schemas.DecodeJSON(text, out); err != nil {
		return schemas.Errorf(schemas.CodeInternal, "the answer to %s can't be read: %v", r.path, err)
	}
	return nil
}

// unavailable is an error of code unavailable that nobody said when to try again after.
func unavailable(format string, args ...any) *schemas.Error {
	return &schemas.Error{Code: schemas.CodeUnavailable, Message: fmt.Sprintf(format, args...)}
}

// ours is why we gave a request up, as an *[schemas.Error]; nil if we did not.
func ours(ctx context.Context) error {
	if known, ok := errors.AsType[*schemas.Error](context.Cause(ctx)); ok {
		return known
	}
	return nil
}

// Types of what is sent and answered.
const (
	mediaJSON   = "application/json"
	mediaLines  = "application/x-ndjson"
	mediaEvents = "text/event-stream"
)

// open makes a request. Any answer but a success of the type that is wanted, or without content, is an error:
// other servers, and proxies with a page to log in, call anything a success.
func (t *httpTransport) open(ctx context.Context, r route, header http.Header, wanted string) (*http.Response, error) {
	payload, media, err := encodeBody(r.body)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(t.base, "?#") {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Field: "url", Message: "the server's URL must end in its path"}
	}
	request, err := http.NewRequestWithContext(ctx, r.method, t.base+r.path, payload)
	if err != nil {
		return nil, &schemas.Error{Code: schemas.CodeInvalid, Field: "url", Message: "the server's URL can't be used: " + err.Error()}
	}
	maps.Copy(request.Header, header)
	request.Header.Set("Accept", wanted)
	request.Header.Set("Authorization", "Bearer "+t.token)
	if media != "" {
		request.Header.Set("Content-Type", media)
	}
	response, err := t.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	given, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if response.StatusCode == http.StatusNoContent || response.StatusCode < 300 && err == nil && given == wanted {
		return response, nil
	}
	defer response.Body.Close()
	return nil, refusal(response)
}

// encodeBody is a body as it goes over the wire, and its type; nothing of no body.
func encodeBody(body any) (payload io.Reader, media string, err error) {
	switch b := body.(type) {
	case nil:
		return nil, "", nil
	case jsonLines:
		return bytes.NewReader(b), mediaLines, nil
	}
	encoded, err := schemas.EncodeJSON(body)
	if err != nil {
		return nil, "", schemas.Errorf(schemas.CodeInvalid, "the request can't be encoded: %v", err)
	}
	return bytes.NewReader(encoded), mediaJSON, nil
}

// maxRefusal is how much of an error's answer is read, in bytes.
const maxRefusal = 64 << 10

// refusal is the error that an answer tells: Braid's own, or what a proxy in between has to say.
func refusal(response *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	if err != nil {
		return fmt.Errorf("read the answer %s: %w", response.Status, err)
	}
	var answer struct {
		Error *schemas.Error `json:"error"`
	}
	if err := schemas.DecodeJSON(text, &answer); err == nil && answer.Error != nil && answer.Error.Code != "" {
		return answer.Error
	}
	var refused *schemas.Error
	switch response.StatusCode {
	case http.StatusTooManyRequests:
		refused = &schemas.Error{Code: schemas.CodeTooMany, Message: "the server answered " + response.Status}
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		refused = unavailable("the server answered %s", response.Status)
	default:
		return schemas.Errorf(schemas.CodeInternal, "the server answered %s, and not as Braid does", response.Status)
	}
	if seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 31); err == nil {
		refused.RetryAfterMS = int64(seconds) * 1000
	}
	return refused
}
