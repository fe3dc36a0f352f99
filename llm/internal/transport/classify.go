package transport

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"braid/llm"
	"braid/llm/internal/sse"
	"braid/schemas"
)

// StatusError is an answer with a status other than 2xx.
type StatusError struct {
	Status int
	Detail Detail
	// RetryAfter is how long the provider asks to wait, 0 if it did not say.
	RetryAfter time.Duration
	// Location is the scheme and host that a redirect leads to.
	Location string
}

// Error names the status only: what the provider says may repeat a secret. [Client.Outcome] has it.
func (e *StatusError) Error() string { return fmt.Sprintf("HTTP status %d", e.Status) }

// maxRetryAfter bounds how long a provider can ask to wait; beyond it lies nonsense.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads the headers that say when to come back. What can't be read is nothing.
func (c *Client) retryAfter(h http.Header) time.Duration {
	within := func(seconds float64) time.Duration {
		if math.IsNaN(seconds) || seconds <= 0 {
			return 0
		}
		return time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second))
	}
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil {
		return within(ms / 1000)
	}
	after := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(after, 64); err == nil {
		return within(seconds)
	}
	if at, err := http.ParseTime(after); err == nil {
		return within(at.Sub(c.now()).Seconds())
	}
	return 0
}

// Outcome is the outcome of a request whose Post, or whose answer's reading, failed with err. ctx
// is the request's own: once it has ended that is what counts.
func (c *Client) Outcome(ctx context.Context, err error) llm.Outcome {
	if ctx.Err() != nil {
		return llm.Interrupted(ctx)
	}
	if e, ok := errors.AsType[*StatusError](err); ok {
		o := c.Refused(e.Status, e.Detail)
		o.Error.RetryAfter = e.RetryAfter
		if e.Location != "" {
			o.Error.Message += "; it leads to " + c.redact.text(e.Location) + ", and redirects are not followed"
		}
		return o
	}
	if e, ok := errors.AsType[*silentError](err); ok {
		return c.end(schemas.StopTimeout, true, e, "the provider said nothing for %s", e.after)
	}
	if e, ok := errors.AsType[*connectionError](err); ok {
		o := c.end(schemas.StopFailed, true, err, "the provider can't be reached: %v", e.err)
		if e.reached {
			o = c.end(schemas.StopFailed, true, err, "the provider did not answer: %v", e.err)
		} else {
			o.Error.Provider = "" // none was reached
		}
		return o
	}
	if e, ok := errors.AsType[*schemas.Error](err); ok {
		return c.Unservable("%s", e.Message)
	}
	if errors.Is(err, sse.ErrTooLong) {
		return c.Malformed("the answer can't be read: %v", err)
	}
	return c.Malformed("the answer broke off: %v", err)
}

// Malformed is the outcome of an answer that makes no sense or broke off. It may go well next time.
func (c *Client) Malformed(format string, args ...any) llm.Outcome {
	return c.end(schemas.StopMalformed, true, nil, format, args...)
}

// Failed is the outcome of a request that the provider gave up.
func (c *Client) Failed(retryable bool, format string, args ...any) llm.Outcome {
	return c.end(schemas.StopFailed, retryable, nil, format, args...)
}

// Unservable is the outcome of a request that is of no use to send again as it is.
func (c *Client) Unservable(format string, args ...any) llm.Outcome {
	o := c.end(schemas.StopFailed, false, nil, format, args...)
	o.Error.Kind = llm.KindInput
	return o
}

// end is an outcome other than completed. Its message is redacted.
func (c *Client) end(status schemas.StopReason, retryable bool, cause error, format string, args ...any) llm.Outcome {
	return llm.Outcome{Status: status, Error: &llm.Error{
		Message: c.redact.text(fmt.Sprintf(format, args...)), Kind: llm.KindProvider, Provider: c.provider,
		Retryable: retryable, Cause: cause,
	}}
}

// Refused is the outcome of a request that the provider answered with an error: by its status, or,
// if that is 0 because the error came in the middle of an answer, by what the error says.
func (c *Client) Refused(status int, d Detail) llm.Outcome {
	shown := status
	if shown == 0 {
		shown = d.Status
	}
	counts := shown
	if counts == 0 {
		counts = statusOfNames(d)
	}
	what := "the provider failed"
	var o llm.Outcome
	switch class := classify(counts, d); class {
	case classAuth:
		o, what = c.end(schemas.StopAuth, false, nil, ""), "the provider does not accept the credentials"
	case classContext:
		o, what = c.Unservable(""), "the request is longer than the model takes"
		o.Error.Kind = llm.KindContext
	case classModel:
		o, what = c.Unservable(""), "the provider has no such model or address"
	case classRefused:
		o, what = c.Unservable(""), "the provider refuses the request"
	case classUnpaid:
		o, what = c.Failed(false, ""), "the provider wants to be paid first"
	case classBusy:
		o, what = c.Failed(true, ""), "the provider is busy or its limit is reached"
	default:
		o = c.Failed(true, "")
	}
	o.Error.StatusCode = shown
	if shown != 0 {
		what += fmt.Sprintf(" (%d)", shown)
	}
	if message := c.redact.text(d.Message); message != "" {
		what += ": " + message
	}
	o.Error.Message = what
	return o
}

// class is what an error means to the caller.
type class int

const (
	classFailed class = iota
	classBusy
	classAuth
	classContext
	classModel
	classRefused
	classUnpaid
)

// classify tells what an error of that status means; its words decide where statuses are used for
// several things.
func classify(status int, d Detail) class {
	words := strings.ToLower(d.Code + " " + d.Type + " " + d.Message)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(words, p) {
				return true
			}
		}
		return false
	}
	switch {
	case status == http.StatusUnauthorized:
		return classAuth
	case status == http.StatusForbidden && has("quota", "rate limit", "rate_limit", "too many requests", "exhausted", "overloaded"):
		return classBusy
	case status == http.StatusForbidden && has("moderation", "flagged", "content policy", "content_policy"):
		return classRefused
	case status == http.StatusForbidden:
		return classAuth
	case status == http.StatusPaymentRequired:
		return classUnpaid
	case status == http.StatusNotFound:
		return classModel
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly:
		return classFailed
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable, status == 529:
		return classBusy
	case status == http.StatusBadRequest && has("api key not valid", "invalid api key", "invalid_api_key", "incorrect api key"):
		return classAuth
	case status >= 300 && status < 500 && has("context_length", "context length", "context window", "maximum context", "prompt is too long", "too many tokens", "input is too long", "exceeds the maximum number of tokens", "exceed_context_size"):
		return classContext
	case status == http.StatusRequestEntityTooLarge:
		return classContext
	case status >= 300 && status < 500:
		return classRefused
	}
	return classFailed
}

// statusOfNames is the status that fits the names of an error which has none.
func statusOfNames(d Detail) int {
	names := strings.ToLower(d.Code + " " + d.Type)
	for _, n := range []struct {
		part   string
		status int
	}{
		{"rate_limit", 429}, {"too_many_requests", 429}, {"resource_exhausted", 429}, {"quota", 429},
		{"overloaded", 529}, {"unavailable", 503},
		{"authentication", 401}, {"invalid_api_key", 401}, {"unauthenticated", 401},
		{"permission", 403},
		{"context_length", 400}, {"exceed_context_size", 400}, {"invalid_request", 400}, {"badrequest", 400}, {"bad_request", 400}, {"invalid_argument", 400},
		{"not_found", 404}, {"notfound", 404},
	} {
		if strings.Contains(names, n.part) {
			return n.status
		}
	}
	return 0
}
